"""A cluster file in the words of Google's Cluster Toolkit. Pure."""
