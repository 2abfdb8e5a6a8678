"""A request and its answer, as both fronts (a socket, or none) hand them to a simulated cloud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; ``body`` is its JSON, None for none; header names in lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Any = None

    @property
    def operation(self) -> str:
        """``POST /machines``."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer; status 0: the connection breaks and none comes."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    raw: bytes | None = None


NO_ANSWER = Answer(0)
