"""Golden files of messages that list the providers: a new provider changes none of them."""

from __future__ import annotations

import re

from corral.spec.providers import PROVIDERS

_WORDS = re.compile(r"\s+or\s+".join(map(re.escape, PROVIDERS)))


def unlisted(text: str) -> str:
    """A text with PROVIDERS where it lists them, which it must."""
    replaced, count = _WORDS.subn("PROVIDERS", text)
    assert count, "the text does not list the providers"
    return replaced
