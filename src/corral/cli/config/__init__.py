"""Verbs of the cluster file: init, lint, export."""
