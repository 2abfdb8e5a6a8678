"""What of a project is sent with a job, and how it gets to shared storage."""
