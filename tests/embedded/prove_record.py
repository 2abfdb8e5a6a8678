"""Proofs recorded from real clusters and replayed without one.

CORRAL_TEST_RECORD=DIR with the embedded proof tests writes what the nodes answered into DIR, one
file per break and ``healthy.json``; tests/unit/prove replays every file of every Slurm version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes import framed, recorded, word_of

from corral.errors import CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.framing import Inquiry
from corral.hosts.quote import NOTHING, Script
from corral.hosts.transport import OnLine, Result
from corral.prove import survey

# The first mark that a script holds shows what it is for.
MARKS = (
    ("date +%s.%N", "survey"),
    ("scontrol token", "rest"),
    ("-launch", "launch"),
    ("-hog", "memory"),
    ("-slots", "slots"),
    ("sacct -n", "accounting"),
    ("IO::Select", "ranks"),
    ("cat /", "read"),
    ("|| bad=1", "write"),
    ("rm -f", "remove"),
    ("squeue -h -u", "clean"),
)


# What is asked together, in its order: recordings hold the answers by name.
FRAMED = {
    "survey": [q.name for q in survey.questions((), (), controller=True)],
    "slots": ["snapshot", "others", "records"],
    "read": ["a", "b", "c", "d"],
}


def names_of(kind: str, script: str) -> list[str]:
    """Names of the answers to a framed script."""
    return FRAMED[kind][: script.count("}; corral_answered ")]


def kind_of(script: str) -> str:
    """What a proof's script is for."""
    for mark, kind in MARKS:
        if mark in script:
            return kind
    raise AssertionError(f"a script that no proof was known to run: {script}")


def file_name(check: str, name: str) -> str:
    """Where a break's recording is stored."""
    return f"{check}-{re.sub('[^A-Za-z0-9]+', '-', name)}.json".lower()


@dataclass
class Case:
    """One proof's answers: node, kind of script, then status, stdout and stderr."""

    token: str = ""
    answers: dict[str, dict[str, tuple[int, str, str]]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Case:
        data = json.loads(path.read_text())
        answers = {
            node: {kind: (int(a[0]), a[1], a[2]) for kind, a in kinds.items()}
            for node, kinds in data["answers"].items()
        }
        return cls(data["token"], answers)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = {"token": self.token, "answers": self.answers}
        path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")


class RecordingFleet(Fleet):
    """A fleet that keeps what each node answered."""

    def __init__(self, inner: Fleet, case: Case) -> None:
        super().__init__({})
        self._inner = inner
        self._case = case

    @property
    def nodes(self) -> tuple[str, ...]:
        return self._inner.nodes

    async def run(
        self,
        node: str,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 120.0,
        on_line: OnLine | None = None,
    ) -> Result:
        result = await self._inner.run(node, script, stdin=stdin, timeout=timeout, on_line=on_line)
        kinds = self._case.answers.setdefault(node, {})
        kind, stdout = kind_of(script), result.stdout
        if kind in FRAMED:
            word = word_of(script)
            asked = Inquiry(dict.fromkeys(names_of(kind, script), NOTHING), word=word)
            stdout = "".join(f"@@ {n}\n{answer.text}\n" for n, answer in asked.read(stdout).items())
        kinds[kind] = (result.status, stdout, result.stderr)
        return result

    async def close(self) -> None:
        await self._inner.close()


@dataclass
class Replayed:
    """A node that answers as it once did; what it was not asked then is an error."""

    node: str
    answers: Mapping[str, tuple[int, str, str]]
    asked: list[str] = field(default_factory=list)

    async def run(
        self,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 120.0,
        on_line: OnLine | None = None,
    ) -> Result:
        kind = kind_of(script)
        self.asked.append(kind)
        status, stdout, stderr = self.answers[kind]
        if kind in FRAMED:
            names = dict.fromkeys(names_of(kind, script), NOTHING)
            stdout = framed(names, recorded(stdout), word_of(script))
        for line in stdout.splitlines() if on_line else ():
            on_line(line)
        return Result(self.node, status, stdout, stderr)

    async def close(self) -> None:
        """Nothing to give up."""


@dataclass
class Unreachable:
    """A node that cannot be reached."""

    node: str
    error: CorralError

    async def run(self, script: Script, **_: object) -> Result:
        raise self.error

    async def close(self) -> None:
        """Nothing to give up."""


def replayed(case: Case, nodes: Iterable[str]) -> Fleet:
    """A fleet out of a recording."""
    return Fleet({node: Replayed(node, case.answers.get(node, {})) for node in nodes})
