"""Lambda Cloud: calls, errors as data, offers and client."""
