"""What the rules of the page fire on."""

from __future__ import annotations

from typing import Any, Final

from .cases import LAB

OPEN: Final[dict[str, Any]] = {"services": {"ui": True, "page": {"listen": "control"}}}
HALF: Final[dict[str, Any]] = {"services": {"ui": True, "page": {"key": "/etc/ssl/key.pem"}}}
PAGE: Final[list[tuple[str, dict[str, Any], dict[str, Any], str]]] = [
    ("page-open", LAB, OPEN, "services.page.listen"),
    ("page-open", LAB, HALF, "services.page"),
    ("page-without-rest", LAB, {"services.ui": True, "slurm.rest": False}, "services.ui"),
]
