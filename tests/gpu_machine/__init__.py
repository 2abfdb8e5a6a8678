"""A kit for a GPU machine without internet, and the rows measured there (CONTRIBUTING.md)."""
