"""Paperspace: calls, errors as data, offers, prices and client."""
