"""A cluster file's text judged in a separate process: who writes it decides what it costs.

In the server's own process a text that is slow to judge keeps every viewer waiting, in a thread
too. Here a process gets ``LIMIT_S`` seconds for it, and ``AT_ONCE`` of them run.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from corral import api
from corral.errors import Code, CorralError
from corral.hosts import process
from corral.spec.models import ClusterSpec

LIMIT_S: Final = 10.0
MEMORY: Final = 2 << 30
MAX_TEXT: Final = 1 << 18
"""Characters; 10,000 nodes are a range of one line."""
AT_ONCE: Final = 2
_ARGV: Final = (sys.executable, "-m", "corral.web.lint_process")


@dataclass(slots=True)
class Lint:
    """Judges texts, a few at once.

    Attributes:
        argv: the program that reads ``{"text", "file"}`` and prints ``{"findings", "spec"}``.
        limit_s: seconds for one text.
    """

    argv: tuple[str, ...] = _ARGV
    limit_s: float = LIMIT_S
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def judge(self, text: str, file: str) -> tuple[ClusterSpec | None, list[dict[str, Any]]]:
        """The cluster, where nothing is wrong with its text; and what is.

        Raises:
            CorralError: TIMED_OUT, it takes too long.
        """
        sent = json.dumps({"text": text, "file": file}).encode()
        async with self._places:
            try:
                ended = await process.run(self.argv, stdin=sent, timeout=self.limit_s)
            except TimeoutError:
                ended = None
        if ended is None or ended.status:
            raise CorralError(
                Code.TIMED_OUT,
                f"this text takes longer than {self.limit_s:g} s to check",
                tail="" if ended is None else ended.err[-300:],
                hint="corral lint FILE checks it in the terminal, without a limit",
            )
        told = json.loads(ended.out)
        spec = ClusterSpec.model_validate(told["spec"]) if told["spec"] else None
        return spec, told["findings"]


def main() -> None:
    """Judge what stands on standard input."""
    limit = int(LIMIT_S)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    json.dump(judged(json.load(sys.stdin)), sys.stdout)


def judged(asked: Mapping[str, str]) -> dict[str, object]:
    """The answer about a text, JSON-ready."""
    spec, findings = api.lint_text(asked["text"], asked["file"])
    return {
        "spec": None if spec is None else spec.model_dump(mode="json"),
        "findings": [finding.as_dict() for finding in findings],
    }


if __name__ == "__main__":
    main()
