"""A job's batch script and what is in it: environment, container, fabric, tracking."""
