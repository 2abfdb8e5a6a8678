"""Connections to the page: who is at the other end, how many, how long."""
