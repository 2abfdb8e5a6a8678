"""A running cluster: status, diagnosis, nodes, keys, backup and restore."""
