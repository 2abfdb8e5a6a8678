"""Verbs of the cluster file and of profiles: init, lint, export, login, logout."""
