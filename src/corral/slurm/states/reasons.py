"""Why a job is pending: Slurm's words and what they mean to its owner (``reasons.yaml``)."""

from __future__ import annotations

from enum import StrEnum
from functools import cache, lru_cache
from typing import Final

from corral.tables import Row, read_table


class Wait(StrEnum):
    """What a reason's word alone decides about a pending job."""

    HELD = "held"
    NEVER = "never"
    ELSEWHERE = "elsewhere"
    OPEN = "open"


class Word(Row):
    """One reason.

    Attributes:
        word: as Slurm prints it, with _ for blanks.
        wait: what the job is pending for; open: the word does not decide it.
        means: to the job's owner.
    """

    word: str
    wait: Wait = Wait.OPEN
    means: str


class Beginning(Row):
    """Reasons that begin alike.

    Attributes:
        begins: the first letters, with blanks for _ in sentences.
        means: to the job's owner.
    """

    begins: str
    means: str


class Reasons(Row):
    """The table.

    Attributes:
        words: reasons by their word.
        families: for words that are not among these.
        sentences: what Slurm prints in place of a word.
    """

    words: tuple[Word, ...]
    families: tuple[Beginning, ...]
    sentences: tuple[Beginning, ...]


@cache
def reasons() -> Reasons:
    return read_table("corral.slurm.states", "reasons.yaml", Reasons)


@cache
def _words() -> dict[str, Word]:
    return {row.word: row for row in reasons().words}


def _known(word: str) -> Word | None:
    """The row of a word: scontrol writes it with _, squeue with spaces."""
    return _words().get(word.strip().replace(" ", "_"))


def wait_of(reason: str) -> Wait:
    """What a job with this reason is pending for; open for a word that is not in the table."""
    row = _known(reason.strip().removeprefix("(").removesuffix(")").partition(",")[0])
    return row.wait if row else Wait.OPEN


_LIMITS: Final = ("Assoc", "QOSGrp", "QOSMax")


def by_limit(reason: str) -> bool:
    """Whether a limit of accounting holds the job back.

    The scheduler plans no such job, so that a start time next to this reason is an estimate from
    before, and holds for nothing.
    """
    return reason.startswith(_LIMITS)


@lru_cache(maxsize=1024)
def explain(reason: str) -> str:
    """A pending reason in words: squeue's ``Resources`` or ``ReqNodeNotAvail, Unavail...``.

    An unknown word is returned as it is: later releases have more of them.
    """
    text = reason.strip().removeprefix("(").removesuffix(")")
    spaced = text.replace("_", " ")
    for sentence in reasons().sentences:
        if spaced.startswith(sentence.begins):
            return sentence.means
    word, _, more = text.partition(",")
    if word in ("", "None", "null"):
        return ""
    row = _known(word)
    words = row.means if row else None
    if words is None:
        meanings = [row.means for row in reasons().families if word.startswith(row.begins)]
        words = f"{meanings[0]} ({word})" if meanings else word
    return f"{words} ({more.strip()})" if more.strip() else words
