"""A running cluster: how it is, what is broken, its nodes and its keys."""
