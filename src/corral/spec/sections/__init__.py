"""Parts of the cluster file, each with its models."""
