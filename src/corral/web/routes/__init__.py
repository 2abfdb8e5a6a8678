"""The JSON API of the page."""
