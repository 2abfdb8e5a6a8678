"""What launchers, loggers and people put before each line of a program's output. Pure.

A rank's name keeps the lines of ranks apart; a time, a quotation mark or a line's number differs
from line to line and does not identify who printed it.
"""

from __future__ import annotations

import re
from typing import Final

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CLOCK: Final = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
# ts, kubectl --timestamps, docker -t, journalctl, mpirun --timestamp-output, dmesg.
_TIME: Final = re.compile(
    rf"\[?(?:\d{{4}}[-/]\d\d[-/]\d\d[T ]{_CLOCK}|{_CLOCK})(?: ?Z| ?UTC|[+-]\d\d:?\d\d)?\]?(?=\s|$)"
    rf"|\[?(?:[A-Z][a-z]{{2}} )?{_MONTH} [ \d]\d {_CLOCK}(?: \d{{4}})?\]?(?=\s|\[|$)"
    r"|\[\s*\d+\.\d+\](?=\s|$)"
)
_QUOTE: Final = re.compile(r">+(?=\s|$)")
# srun --label, worker names, mpirun and prterun --tag-output, kubectl --prefix, grep, docker
# compose, the host and program of a journal.
_NAME: Final = re.compile(
    r"(?P<tag>\[[^\]]*\](?:(?:\[[^\]]*\])?<\w+>:?|:?(?=[\s#]|$)))|(?P<name>[\w./-]+:)(?:\d+:)?(?=[\s#]|$)"
    r"|(?P<column>[\w.-]+)\s*\|(?=\s|$)|(?P<journal>[\w.-]+ [\w.-]+\[\d+\]:)(?=\s|$)"
)


def parted(line: str) -> tuple[str, str]:
    """A line without its prefix, colours and blanks of other alphabets.

    Args:
        line: as it was logged.

    Returns:
        who printed it (``3:``, ``[1,0]<stdout>:``), "" when nothing shows it; and the rest.
    """
    body = _ANSI.sub("", line).replace("\u00a0", " ").replace("\ufeff", "").lstrip()
    names: list[str] = []
    while True:
        if match := _TIME.match(body) or _QUOTE.match(body):
            pass
        elif match := _NAME.match(body):
            names.append(next(filter(None, match.groups())))
        else:
            return " ".join(names), body
        body = body[match.end() :].lstrip()
