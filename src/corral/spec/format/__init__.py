"""The cluster file's format over time: which fields go, and what comes in their place."""
