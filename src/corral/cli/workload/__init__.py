"""Verbs of jobs and their data: run, jobs, logs, cancel, profile, data."""
