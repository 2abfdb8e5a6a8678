"""The tasks of an array, as Slurm writes them: ``0-9``, ``1,5,7``, ``0-8:2``, ``1-5%2``. Pure.

sbatch takes them in that form (``--array``), squeue and slurmrestd show so those that have not
begun, in the label of the one record that these share: ``12_[3-7:2%4]``. A list that is long is cut
after 64 characters, with ``...`` at its end, unless SLURM_BITSTR_LEN is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_SPAN: Final = re.compile(r"(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?")
_CUT: Final = re.compile(r"[,.:-]*\.\.\.$")
_LABEL: Final = re.compile(r"(\d{1,10})_(?:(\d{1,10})|\[([^\[\]]*)\])")


@dataclass(frozen=True, slots=True)
class ArrayTasks:
    """Tasks of an array.

    Attributes:
        spans: their numbers, as they are written.
        exact: nothing is left out: the text was not cut, and all of it was read.
    """

    spans: tuple[range, ...]
    exact: bool = True

    def numbers(self, most: int) -> tuple[int, ...]:
        """All of them, in order and each once.

        Raises:
            ValueError: they are more than ``most``.
        """
        chosen: set[int] = set()
        for span in self.spans:
            if len(span) <= most:
                chosen.update(span)
            if max(len(chosen), len(span)) > most:
                raise ValueError(f"more than {most} parts")
        return tuple(sorted(chosen))

    def counted(self) -> tuple[int, bool]:
        """How many there are, and whether those are all.

        Counted, not made: MaxArraySize may be 4,000,001, and a list of jobs has many such texts.
        Slurm writes spans in order; one that begins before the end of another is left out.
        """
        count, last, exact = 0, -1, self.exact
        for span in self.spans:
            if not last < span.start < span.stop:
                exact = False
                continue
            count += len(span)
            last = span.stop - 1
        return count, exact

    def total(self, most: int) -> int | None:
        """How many there are in any order, each once; None where they were not all read.

        Args:
            most: of tasks that overlap, which are made, counted in each span that has them; with
                more it is None.
        """
        ordered = ArrayTasks(tuple(sorted(self.spans, key=lambda span: span.start)), self.exact)
        count, exact = ordered.counted()
        if exact or not self.exact:
            return count if exact else None
        return len(self.numbers(most)) if sum(map(len, self.spans)) <= most else None


def array_tasks(text: str) -> ArrayTasks:
    """Read the value of ``--array``, or what is between the brackets of a label."""
    listed, _ = without_limit(text)
    uncut = _CUT.sub("", listed)
    spans = [_span(part) for part in uncut.split(",")]
    known = tuple(span for span in spans if span is not None)
    return ArrayTasks(known, exact=uncut == listed and len(known) == len(spans))


def written_tasks(numbers: Iterable[int]) -> str:
    """Numbers of tasks as ``--array`` takes them: ``0-2,5``."""
    spans = list[list[int]]()
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{first}-{last}" if first < last else f"{first}" for first, last in spans)


def without_limit(text: str) -> tuple[str, str | None]:
    """``1-5%2`` as the tasks and how many may run at once; None for any number."""
    tasks, percent, at_once = text.partition("%")
    return tasks, at_once if percent else None


def _span(text: str) -> range | None:
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    return range(int(match[1]), int(match[2] or match[1]) + 1, max(1, int(match[3] or 1)))


@dataclass(frozen=True, slots=True)
class ArrayLabel:
    """What Slurm calls a task of an array, or those that have not begun.

    Attributes:
        array: the array's number.
        task: the task; None for those that have not begun.
        pending: these, as they are written; "" for one task.
    """

    array: int
    task: int | None
    pending: str = ""

    def __str__(self) -> str:
        return label_of(str(self.array), self.written)

    @property
    def tasks(self) -> ArrayTasks:
        """The tasks that it stands for."""
        return array_tasks(self.written)

    @property
    def written(self) -> str:
        """These tasks, as ``--array`` takes them."""
        return self.pending if self.task is None else str(self.task)


def array_label(text: str) -> ArrayLabel | None:
    """Read ``12_3`` or ``12_[4-7%2]``; None for the label of a job outside an array."""
    match = _LABEL.fullmatch(text)
    if match is None:
        return None
    return ArrayLabel(int(match[1]), int(match[2]) if match[2] else None, match[3] or "")


def task_ref(job: int, task: int | None) -> str:
    """A job by its number, a task of an array by both: ``12``, ``12_3``."""
    return str(job) if task is None else f"{job}_{task}"


def label_of(array: str, task: str, *, begun: bool = True) -> str:
    """The label of a task, or of those that have not begun, from the two fields of a record.

    Args:
        array: the array's number.
        task: the task, or several.
        begun: False where the record has no number of one task: squeue writes ``12_[5]`` for it.
    """
    return f"{array}_{task}" if begun and task.isdecimal() else f"{array}_[{task}]"
