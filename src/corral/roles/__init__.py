"""Spec and facts to the desired state of each machine. Pure."""
