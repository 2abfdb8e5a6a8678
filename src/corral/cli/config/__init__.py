"""Verbs of files and profiles: init, lint, edit, migrate, export, login, logout, version."""
