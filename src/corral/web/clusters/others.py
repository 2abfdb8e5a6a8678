"""The pages of other clusters that this one shows, and that may show this one.

No secret goes from one page to another. The page of a cluster loads ``/reader.html`` of another
one in a hidden, sandboxed frame. What runs there has that page's own origin, cookie and second
secret, and posts back a summary and what a search found, to origins that its own server names.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

READER: Final = "/reader.html"
_HOST: Final = re.compile(r"[a-z0-9.:-]+")
"""It is in a policy and in a document: nothing that ends a word of either."""
_LOOPBACK: Final = ("127.0.0.1", "localhost")


class OtherClusters:
    """The other clusters of one page.

    Args:
        pages: the address of each one's page, by its cluster's name.
    """

    def __init__(self, pages: Mapping[str, str]) -> None:
        self._origins = {name: origin_of(address) for name, address in pages.items()}
        aliases = [alias for origin in self._origins.values() for alias in _aliases(origin)]
        self.origins = tuple(dict.fromkeys(aliases))

    def __bool__(self) -> bool:
        return bool(self._origins)

    def listed(self) -> list[dict[str, str]]:
        """Names and origins, as the page gets them."""
        return [{"name": name, "url": origin} for name, origin in self._origins.items()]

    def page_policy(self) -> bytes:
        """The Content-Security-Policy of this page: it frames its own reports, and readers."""
        return _policy(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
            "frame-src 'self'",
            *self.origins,
        )

    def reader_policy(self) -> bytes:
        """That of the reader: the named pages alone may frame it."""
        return _policy(
            "default-src 'none'; script-src 'self'; connect-src 'self'; base-uri 'none'; "
            "form-action 'none'",
            "frame-ancestors",
            *(self.origins or ("'none'",)),
        )

    def reader(self) -> str:
        """The document of the reader, which answers the named origins alone."""
        names = html.escape(" ".join(self.origins), quote=True)
        return (
            f'<!doctype html>\n<html lang="en" data-origins="{names}">\n<meta charset="utf-8">\n'
            "<title>Reader for the pages of other clusters</title>\n"
            '<script type="module" src="js/reader.js"></script>\n</html>\n'
        )


def _policy(*words: str) -> bytes:
    fixed, listing, *origins = words
    return f"{fixed}; {' '.join((listing, *origins))}".encode("ascii")


def origin_of(address: str) -> str:
    """The origin of a page's address, as browsers write it.

    Raises:
        ValueError: it is not an http or https address.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(parts.hostname or ""):
        raise ValueError(f"not the address of a page: {address!r}")
    usual = 443 if parts.scheme == "https" else 80
    port = f":{parts.port}" if parts.port not in (None, usual) else ""
    name = parts.hostname or ""
    host = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{host}{port}"


def _aliases(origin: str) -> tuple[str, ...]:
    """An origin on this machine's loopback has two names; a page is opened by either."""
    parts = urlsplit(origin)
    if parts.hostname not in _LOOPBACK:
        return (origin,)
    port = f":{parts.port}" if parts.port is not None else ""
    return tuple(f"{parts.scheme}://{name}{port}" for name in _LOOPBACK)
