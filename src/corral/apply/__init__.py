"""Runs a Plan: fan-out, gates, journal."""
