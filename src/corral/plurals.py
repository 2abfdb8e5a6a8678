"""A number with its noun."""

from __future__ import annotations


def plural(count: int, noun: str, nouns: str = "") -> str:
    """``1 node``, ``3 nodes``; ``nouns`` where the plural is not an s more."""
    return f"{count} {noun if count == 1 else nouns or f'{noun}s'}"
