"""What machines serve and mount, and folders on shared storage."""
