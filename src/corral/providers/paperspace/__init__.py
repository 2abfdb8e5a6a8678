"""Paperspace: machines of a team. Its calls, its errors as data, its client."""
