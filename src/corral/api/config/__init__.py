"""The cluster file: loaded, drafted, exported; the clusters that are known."""
