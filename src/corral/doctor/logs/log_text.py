"""A log as numbered lines: without colours, searched fast, forged kernel lines left out. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from corral.doctor.logs.expression import Expression
from corral.escapes import without_escapes

LONGEST: Final = 400
"""Characters of one line that are shown."""
_DIGITS: Final = str.maketrans("", "", "0123456789")
_MOST_PREFIXES: Final = 10
# What loggers, launchers and terminals write before a message, one after the other.
_PREFIX: Final = re.compile(
    r"[ \t>|│•*]{1,40}"
    r"|\[\d{4}-\d\d-\d\d[T ][\d:.,+Z-]{8,32}\]"
    r"|\d{4}[-/]\d\d[-/]\d\d[T ][\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} {1,2}\d{1,2} (?:\d{4} )?\d\d:\d\d:\d\d(?: \d{4})?"
    r"(?: [\w.-]{1,64}(?= [\w.()/-]{1,64}(?:\[\d{1,9}\])?: ))?"
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4}\]"
    r"|(?:kern|user|daemon|syslog|auth) {0,3}:\w{1,8} {0,3}: "
    r"|\[ {0,6}\d{1,9}\.\d{6}\]"
    r"|\[(?:T\d{1,9}|C\d{1,9})\]"
    r"|\[(?:rank|default)?\d{1,6}\](?:<stderr>|<stdout>|\[(?:rank|default)?\d{1,6}\])?:?"
    r"|\d{1,6}: "
    r"|\((?:[\w .]{1,60})(?:pid=\d{1,9})(?:, ip=[\w.:]{1,40})?\)"
    r"|\[[\w-]{1,40}\.?(?:batch|extern|interactive|\d{1,9})?\](?= )"
    r"|<\d{1,3}>"
    r"|[IWEF]\d{4} [\d:.]{8,18} +\d{1,9} [\w./-]{1,80}:\d{1,6}\]"
    r"|[\w.@/+-]{1,64}(?:\[\d{1,9}\])?(?:\(\d{1,9}\))?: "
    r"|(?:ERROR|FATAL|CRITICAL|WARNING|WARN|INFO|DEBUG)\b[ :]{1,8}"
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its number from 1, its text, and where in it something was found."""

    number: int
    text: str
    at: int = 0

    @property
    def shown(self) -> str:
        """The text as evidence: of a long line what is around the place found."""
        start = max(0, self.at - LONGEST // 2) if len(self.text) > LONGEST else 0
        return self.text[start : start + LONGEST].strip()


class LogText:
    """A log to look for expressions in."""

    def __init__(self, text: str) -> None:
        self.text = without_escapes(text).replace("\r\n", "\n")
        self._has: dict[str, bool] = {}

    @cached_property
    def small(self) -> str:
        """The text in lower case, as long as the text itself."""
        small = self.text.lower()
        if len(small) == len(self.text):
            return small
        return "".join(c if len(low := c.lower()) != 1 else low for c in self.text)

    @cached_property
    def vocabulary(self) -> str:
        """Its different lines without digits: a log of 100 MB repeats a few thousand."""
        return "\n".join(dict.fromkeys(self.small.translate(_DIGITS).split("\n")))

    def has(self, needle: str) -> bool:
        """True when this text, in lower case and without digits, is in a line."""
        held = self._has.get(needle)
        if held is None:
            held = self._has[needle] = needle in self.vocabulary
        return held

    @cached_property
    def _ends(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.text)]

    def lines_with(self, needle: str) -> Iterator[Line]:
        """The lines that have this text, which is in lower case and without digits, in order."""
        at = self.small.find(needle)
        while at >= 0:
            start = self.small.rfind("\n", 0, at) + 1
            number = bisect_left(self._ends, at)
            end = self._ends[number] if number < len(self._ends) else len(self.text)
            # A progress bar writes its states over each other.
            begin = max(start, self.small.rfind("\r", start, at) + 1)
            until = self.small.find("\r", at, end)
            stop = end if until < 0 else until
            yield Line(number + 1, self.text[begin:stop], at - begin)
            at = self.small.find(needle, end)

    def matches(self, expression: Expression, *, head: bool = False) -> Iterator[Line]:
        """The lines that an expression matches, in order.

        Args:
            expression: what to look for.
            head: a message must begin with it, whatever the expression.
        """
        if not all(self.has(needle) for needle in expression.needles):
            return
        for line in self.lines_with(max(expression.needles, key=len)):
            if has(expression, line.text, head=head):
                yield line

    def line(self, number: int) -> str:
        """The text of one line, counted from 1; "" after the last."""
        if not 1 <= number <= len(self._ends) + 1:
            return ""
        start = self._ends[number - 2] + 1 if number > 1 else 0
        end = self._ends[number - 1] if number <= len(self._ends) else len(self.text)
        return self.text[start:end]

    @cached_property
    def numbered(self) -> tuple[Line, ...]:
        """All lines."""
        return tuple(Line(n, text) for n, text in enumerate(self.text.split("\n"), 1))


def starts(line: str) -> list[int]:
    """Where a message may start: at 0, and after each of its time, host, program and level."""
    offsets, at = [0], 0
    for _ in range(_MOST_PREFIXES):
        prefix = _PREFIX.match(line, at)
        if prefix is None or prefix.end() == at:
            break
        at = prefix.end()
        offsets.append(at)
    return offsets


def has(expression: Expression, line: str, *, head: bool = False) -> bool:
    """True when a line has an expression: where a message starts, if it begins with ``^``.

    Args:
        expression: what to look for.
        line: the line.
        head: a message must begin with it, whatever the expression.
    """
    if head or expression.leading:
        return any(expression.match(line, at) for at in starts(line))
    return expression.search(line)


LONGEST_NAME: Final = 15
"""Characters of a process's name: TASK_COMM_LEN - 1 of include/linux/sched.h."""
# What the kernel prints after such a name: "NAME[42]: segfault", "traps: NAME[42] trap",
# "NAME (42): drop_caches", "NAME invoked oom-killer", "NAME: page allocation failure",
# "NAME/42: potentially unexpected fatal signal", "warning: `NAME' uses".
_NAMED: Final = re.compile(
    r"[`'\"(]?.{1,15}"
    r"(?:\[\d{1,9}\]|/\d{1,9}:| ?\(\d{1,9}\):?| invoked oom-killer|: page allocation|' )"
)


def of_kernel(expression: Expression, line: str) -> bool:
    """True when the kernel itself wrote what matches: it is not the name of a process, nor has one.

    A match must be longer than a name, so that it has words of the kernel.
    """
    for at in starts(line):
        end = expression.end(line, at)
        if end is not None and end - at > LONGEST_NAME and not _NAMED.match(line, at):
            return True
    return False
