"""Spec and facts to the wanted state of each machine. Pure."""
