"""A Python function as a job: what is sent of it, and what it returned or raised."""
