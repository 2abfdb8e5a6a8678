"""Jobs and their data."""
