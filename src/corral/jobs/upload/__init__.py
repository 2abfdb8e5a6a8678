"""Which files of a project are sent with a job, and how they reach shared storage."""
