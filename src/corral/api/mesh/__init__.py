"""The tailnet of a cluster."""
