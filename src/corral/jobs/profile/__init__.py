"""Profiles of jobs: recorded, downloaded, summarised."""
