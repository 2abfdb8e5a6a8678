"""A fake machine from a table: answers the scripts it knows and rejects all others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from corral.errors import CorralError
from corral.hosts.framing import Inquiry
from corral.hosts.quote import Script
from corral.hosts.transport import OnLine, Result

WORD = f"corral-{0:032x}"
"""Replaces, in tables, the random boundary of a script and of its answer."""


def asked(questions: Mapping[str, Script]) -> Script:
    """The script of these questions, as tables hold it."""
    return Inquiry(questions, word=WORD).script


def framed(questions: Mapping[str, Script], answers: Mapping[str, str], word: str = WORD) -> str:
    """What that script prints if the machine gives these answers, and no others."""
    marks = (f"{answers.get(n, '')}\n{word} {i} 0\n" for i, n in enumerate(questions, 1))
    return f"\n{word} 0 0\n" + "".join(marks)


def recorded(text: str) -> dict[str, str]:
    """Answers by question from a recording, separated by lines ``@@ NAME``."""
    parts = re.split(r"(?m)^@@ (\w+)\n", text)
    return {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def word_of(script: str) -> str:
    """The boundary in a script, "" where it has none."""
    boundary = re.search(r"corral-[0-9a-f]{32}", script)
    return boundary[0] if boundary else ""


class UnknownScriptError(AssertionError):
    """A script that is in no table: the code under test asks what the test did not foresee."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a script prints and how it ends; ``then`` is the machine's state after it."""

    stdout: str = ""
    status: int = 0
    stderr: str = ""
    then: str = ""


@dataclass(slots=True)
class Recorded:
    """A transport that is a small state machine.

    ``table[state][script]`` is an answer, or an error to raise. A script that the current state
    does not know fails the test at once; so does one asked after ``close``.
    """

    node: str
    table: Mapping[str, Mapping[str, Answer | CorralError]]
    state: str = ""
    calls: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    closed: bool = False

    @classmethod
    def of(cls, node: str, answers: Mapping[str, Answer | CorralError]) -> Recorded:
        """A machine with one state only."""
        return cls(node, {"": answers})

    async def run(
        self,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 120.0,
        on_line: OnLine | None = None,
    ) -> Result:
        """Answer from the table."""
        if not isinstance(script, Script):
            raise UnknownScriptError(f"{self.node}: this is not a Script: {script!r}")
        if self.closed:
            raise UnknownScriptError(f"{self.node}: asked after close: {script}")
        word = word_of(script)
        key = script.replace(word, WORD) if word else str(script)
        self.calls.append((key, stdin))
        answer = self.table.get(self.state, {}).get(key)
        if answer is None:
            known = "\n".join(f"  {s!r}" for s in self.table.get(self.state, {}))
            raise UnknownScriptError(
                f"{self.node} in state {self.state!r}: unknown script {script!r}; known:\n{known}"
            )
        if isinstance(answer, CorralError):
            raise answer
        self.state = answer.then or self.state
        stdout = answer.stdout.replace(WORD, word) if word else answer.stdout
        for line in stdout.splitlines() if on_line else ():
            on_line(line)
        return Result(self.node, answer.status, stdout, answer.stderr)

    async def close(self) -> None:
        """Close it: a later script fails the test."""
        self.closed = True
