"""This process: threads that nobody waits for, and what it waits for itself."""
