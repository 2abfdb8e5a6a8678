"""The cluster file: loaded, drafted, exported; known clusters and profiles of users."""
