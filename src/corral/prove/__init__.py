"""Checks with evidence: is the cluster right, and how fast."""
