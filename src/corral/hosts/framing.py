"""Several questions in one script, and its output taken apart again: the only such format.

A question is a name and a shell fragment. The script prints a line with a random boundary before
the first fragment and after each one, with the fragment's number and exit status. What a fragment
prints may come from users (names of jobs, logs, files) and may hold any line: without the boundary,
which is new for each script, it ends no section.

The boundary is in the text of the script alone, which reaches machines by standard input: never in
an argument list or the environment, where other users of the machine could read it. So a fragment
that runs as somebody else is framed from outside.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import NOTHING, Script, defined, join, sh

_BYTES: Final = 16
_NUMBERS: Final = re.compile(r"(\d+) (\d+)\n")


def boundary() -> str:
    """A word that nobody can guess."""
    return f"corral-{secrets.token_hex(_BYTES)}"


@dataclass(frozen=True, slots=True)
class Section:
    """The answer to one question.

    Attributes:
        text: what its fragment printed, unchanged.
        status: the fragment's exit status; None when the output was cut before its end.
    """

    text: str
    status: int | None = 0

    @property
    def complete(self) -> bool:
        """False when more may have followed."""
        return self.status is not None


class Sections(dict[str, Section]):
    """Answers by question. A question that is missing was not answered: unknown, not empty."""

    def texts(self) -> dict[str, str]:
        """The complete answers, without the line ends around them."""
        return {
            name: section.text.strip("\n") for name, section in self.items() if section.complete
        }

    def shown(self) -> str:
        """All answers for people, each below its question."""
        return "\n".join(f"{name}:\n{section.text.strip()}" for name, section in self.items())

    def succeeded(
        self, name: str, node: str, what: str, *, hint: str = "", stderr: str = ""
    ) -> str:
        """The answer to this question, whose fragment must have ended with status 0.

        Args:
            name: the question.
            node: where it was asked.
            what: what that was for.
            hint: what to do when it failed.
            stderr: what the script printed there, for the error.

        Raises:
            CorralError: PARSE_FAILED, there is no complete answer; COMMAND_FAILED.
        """
        answer = self.require([name], node, what)[name]
        status = self[name].status
        if status == 0:
            return answer
        raise CorralError(
            Code.COMMAND_FAILED,
            f"{what} failed",
            node=node,
            command=what,
            status=status,
            tail="\n".join((stderr.strip() or answer).splitlines()[-20:]),
            hint=hint,
        )

    def require(self, names: Iterable[str], node: str, what: str) -> dict[str, str]:
        """The answers to these questions, as ``texts``.

        Raises:
            CorralError: PARSE_FAILED, one of them is missing or was cut.
        """
        texts = self.texts()
        missing = [name for name in names if name not in texts]
        if not missing:
            return texts
        raise CorralError(
            Code.PARSE_FAILED,
            f"incomplete response: no answer to {missing[0]!r} ({what})",
            node=node,
            command=what,
            hint="the script was ended on the machine (memory, a signal): run the command again",
        )


class Inquiry:
    """Questions made ready to be sent to machines.

    A fragment may set variables for those after it; it must not ``exit`` (``( ... )`` may).

    Args:
        questions: shell fragments by name, in the order in which they run.
        before: shell that runs first and prints nothing: variables, functions.
        word: the boundary; a new one when it is "".
    """

    def __init__(
        self, questions: Mapping[str, Script], *, before: Script = NOTHING, word: str = ""
    ) -> None:
        self.names: Final = tuple(questions)
        self.word: Final = word or boundary()
        body = (_asked(question, n) for n, question in enumerate(questions.values(), 1))
        head = sh(
            "corral_word={word}\n{answered}\n{before}\ncorral_answered 0 0",
            word=self.word,
            answered=defined("answered.sh", "corral_answered"),
            before=before,
        )
        self.script: Final = join([head, *body])

    def frames(self, line: str) -> bool:
        """True for a line of the frame, which is not the script's output."""
        return not line or line.startswith(f"{self.word} ")

    def answers(self, output: str, node: str, what: str) -> dict[str, str]:
        """The answers to all questions, without the line ends around them.

        Raises:
            CorralError: PARSE_FAILED, one of them is missing or was cut.
        """
        return self.read(output).require(self.names, node, what)

    def read(self, output: str) -> Sections:
        """Take the script's output apart."""
        text = f"\n{output}"
        marks = list(self._marks(text))
        sections = Sections()
        for n, (name, (_, mark)) in enumerate(zip(self.names, marks, strict=False), 1):
            if n == len(marks):
                sections[name] = Section(text[mark.end() :], None)
            elif marks[n][1][1] == str(n):
                begin = marks[n][0]
                sections[name] = Section(text[mark.end() : begin], int(marks[n][1][2]))
            else:
                break
        return sections

    def _marks(self, text: str) -> Iterator[tuple[int, re.Match[str]]]:
        """Where each line of the frame begins, and its numbers.

        A pattern that holds the word would be compiled for each machine.
        """
        begins = f"\n{self.word} "
        at = text.find(begins)
        while at >= 0:
            mark = _NUMBERS.match(text, at + len(begins))
            if mark:
                yield at, mark
            at = text.find(begins, mark.end() if mark else at + 1)


# Thousands of machines are asked nearly the same.
@lru_cache(maxsize=1024)
def _asked(question: Script, n: int) -> Script:
    """One question with the frame around its answer."""
    # The colon: a group that holds a comment alone is a syntax error.
    return sh("{{ :\n{question}\n}}; corral_answered {n} $?", question=question, n=n)


class Reports:
    """Lines by which a running script reports to who sent it, each begun by a random word.

    Args:
        word: the word; a new one when it is "".
    """

    def __init__(self, word: str = "") -> None:
        self.word: Final = word or boundary()

    @property
    def mark(self) -> Script:
        """The word, as shell text."""
        return sh("{word}", word=self.word)

    def read(self, line: str) -> str | None:
        """What a line reports; None for any other line."""
        begin, separator, rest = line.partition(f"{self.word} ")
        return rest if separator and not begin else None

    def all(self, output: str) -> list[str]:
        """What all lines of an output report."""
        return [rest for line in output.split("\n") if (rest := self.read(line)) is not None]
