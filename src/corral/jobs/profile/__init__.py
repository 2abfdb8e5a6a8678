"""Profiles of jobs: recorded, fetched, summarised."""
