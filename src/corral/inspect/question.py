"""A question to a machine, and the state of a machine made of its answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Protocol, Self, TypeVar

from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.framing import Inquiry
from corral.hosts.quote import NOTHING, Script
from corral.hosts.transport import check

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)

Answers = Mapping[str, str]
"""Texts by question."""
TIMED_OUT: Final = 124
"""Exit status of timeout(1) when the command did not end in time."""


def text(answer: str) -> str:
    """The parser of an answer that is its own value."""
    return answer


def lines(answer: str) -> list[str]:
    """Lines that are not blank."""
    return [line for line in answer.split("\n") if line.strip()]


def pairs(answer: str) -> dict[str, str]:
    """Lines ``key value``, for parsers."""
    split = (line.partition(" ") for line in answer.split("\n") if line.strip())
    return {key: value.strip() for key, _, value in split}


class Named(Protocol[T_co]):
    """What an answer is found by: a Question or an Answer."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def parse(self) -> Callable[[str], T_co]:
        """What reads it."""
        ...


@dataclass(frozen=True, slots=True)
class Question(Generic[T_co]):
    """One thing to ask a machine.

    Attributes:
        name: what the answer is called.
        shell: read-only shell that prints it.
        parse: reads it; takes any text.
    """

    name: str
    shell: Script
    parse: Callable[[str], T_co]

    def again(self, suffix: str) -> Question[T_co]:
        """The same question of another poll; its answer has the suffix in its name."""
        return replace(self, name=f"{self.name}{suffix}")

    def run_by(self, wrap: Callable[[Script], Script]) -> Question[T_co]:
        """The question, its shell run otherwise: as a user, where a condition holds."""
        return replace(self, shell=wrap(self.shell))

    def only(self, *, when: bool) -> Question[T_co]:
        """The question; one that prints nothing where the condition is false."""
        return self if when else replace(self, shell=NOTHING)

    def read(self, answers: Answers) -> T_co:
        """Its answer among those to all questions of a script.

        Raises:
            KeyError: it was not asked.
        """
        return self.parse(answers[self.name])

    def read_or_empty(self, answers: Answers) -> T_co:
        """As ``read``; a missing answer is an empty text (answers recorded before it was asked)."""
        return self.parse(answers.get(self.name, ""))


@dataclass(frozen=True, slots=True)
class Answer(Generic[T_co]):
    """What the answer to a question is called and how it is read, where each asks differently.

    Attributes:
        name: what it is called.
        parse: reads it; takes any text.
    """

    name: str
    parse: Callable[[str], T_co]

    def by(self, shell: Script) -> Question[T_co]:
        """The question with this shell."""
        return Question(self.name, shell, self.parse)

    def read(self, answers: Answers) -> T_co:
        """Its answer among those to all questions of a script.

        Raises:
            KeyError: it was not asked.
        """
        return self.parse(answers[self.name])

    def read_or_empty(self, answers: Answers) -> T_co:
        """As ``read``; a missing answer is an empty text."""
        return self.parse(answers.get(self.name, ""))


def shells(questions: Iterable[Question[object]]) -> dict[str, Script]:
    """The shell of each question by its name.

    Raises:
        ValueError: two have one name, so that one answer would hide the other.
    """
    scripts: dict[str, Script] = {}
    for question in questions:
        if scripts.setdefault(question.name, question.shell) != question.shell:
            raise ValueError(f"two questions are called {question.name}")
    return scripts


def inquiry(questions: Iterable[Question[object]], *, before: Script = NOTHING) -> Inquiry:
    """These questions as one script.

    Args:
        questions: in the order in which they are asked.
        before: as of ``Inquiry``.
    """
    return Inquiry(shells(questions), before=before)


async def answer_to(
    fleet: Fleet, node: str, question: Question[T], doing: str, *, timeout: float, hint: str = ""
) -> T:
    """A machine's answer to one question, which comes alone.

    Args:
        fleet: the machines.
        node: who is asked.
        question: its shell must succeed.
        doing: what that is for.
        timeout: seconds.
        hint: what to do when it failed.

    Raises:
        CorralError: COMMAND_FAILED; it does not answer; as the question's reader.
    """
    result = await fleet.run(node, question.shell, timeout=timeout)
    return question.parse(check(result, doing, hint=hint).stdout)


@dataclass(frozen=True)
class MachineState:
    """What a machine answered.

    Attributes:
        node: its name.
        sections: its complete answers by question. What is missing was not asked or not answered:
            unknown, never empty.
        sent: when the script was sent, and
        received: when its first answer arrived: between the two the machine read its clock.
        error: why it did not answer, or not completely.
        seconds: how long the complete response took.
        cut: questions whose command did not end in time.
    """

    node: str
    sections: Mapping[str, str] = field(default_factory=dict[str, str])
    sent: float = 0.0
    received: float = 0.0
    error: CorralError | None = None
    seconds: float = 0.0
    cut: tuple[str, ...] = ()

    @classmethod
    async def ask(
        cls, fleet: Fleet, node: str, questions: Iterable[Question[object]], *, timeout: float
    ) -> Self:
        """Ask a machine; never raises for a machine that does not answer."""
        asked = inquiry(questions)
        arrived: list[float] = []

        def on_line(line: str) -> None:
            if not arrived and not asked.frames(line):
                arrived.append(time.time())

        sent = time.time()
        try:
            result = await fleet.run(node, asked.script, timeout=timeout, on_line=on_line)
        except CorralError as error:
            return cls(node, error=error)
        ended = time.time()
        sections = asked.read(result.stdout)
        missing = [n for n in asked.names if n not in sections or not sections[n].complete]
        return cls(
            node,
            sections.texts(),
            sent,
            arrived[0] if arrived else ended,
            _incomplete(node, missing, len(asked.names)) if missing else None,
            ended - sent,
            tuple(n for n, section in sections.items() if section.status == TIMED_OUT),
        )

    def get(self, question: Named[T]) -> T | None:
        """The answer to a question; None when it is unknown."""
        answer = self.sections.get(question.name)
        return None if answer is None else question.parse(answer)

    def text(self, question: Named[object]) -> str:
        """The text of an answer, "" also when it is unknown."""
        return self.sections.get(question.name, "")

    def by_key(self, question: Named[dict[K, V]]) -> dict[K, V]:
        """An answer that has values by key; empty also when it is unknown."""
        return self.get(question) or {}


def _incomplete(node: str, missing: list[str], asked: int) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED,
        f"incomplete response: {len(missing)} of {asked} questions were not answered, the first "
        f"of them {missing[0]!r}",
        node=node,
        hint="the script was ended on the machine (memory, a signal): run the command again",
    )
