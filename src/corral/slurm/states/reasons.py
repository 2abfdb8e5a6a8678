"""Why a job is pending: Slurm's words and what they mean to its owner (``reasons.yaml``)."""

from __future__ import annotations

from functools import cache
from typing import Final, Literal

from corral.tables import Row, read_table


class Word(Row):
    """One reason.

    Attributes:
        word: as Slurm prints it, with _ for blanks.
        means: to the job's owner.
        blocks: held: until it is released; never: it cannot start as it is; elsewhere: something
            blocks it that is not a node; "": nodes and what they have.
    """

    word: str
    means: str
    blocks: Literal["", "held", "never", "elsewhere"] = ""


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
def _meanings() -> dict[str, str]:
    return {row.word: row.means for row in reasons().words}


@cache
def words_that(blocks: Literal["held", "never", "elsewhere"]) -> frozenset[str]:
    """Reasons that block a job in one way."""
    return frozenset(row.word for row in reasons().words if row.blocks == blocks)


_LIMITS: Final = ("Assoc", "QOSGrp", "QOSMax")


def by_limit(reason: str) -> bool:
    """Whether a limit of accounting holds the job back.

    The scheduler plans no such job, so that a start time next to this reason is an estimate from
    before, and holds for nothing.
    """
    return reason.startswith(_LIMITS)


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
    words = _meanings().get(
        word.replace(" ", "_")
    )  # scontrol writes them with _, squeue with spaces
    if words is None:
        meanings = [row.means for row in reasons().families if word.startswith(row.begins)]
        words = f"{meanings[0]} ({word})" if meanings else word
    return f"{words} ({more.strip()})" if more.strip() else words
