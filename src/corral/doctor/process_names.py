"""Lines of the kernel that begin with a process's name, which its user chose. Pure."""

from __future__ import annotations

import re
from typing import Final

from corral.doctor.expression import Expression
from corral.doctor.log_text import starts

LONGEST: Final = 15
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
        if end is not None and end - at > LONGEST and not _NAMED.match(line, at):
            return True
    return False
