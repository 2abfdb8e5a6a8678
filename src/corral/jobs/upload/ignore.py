"""Ignore files, matched in bounded time: a project that somebody else wrote may bring any line.

pathspec makes a regular expression of each line, and Python's matching of one takes a time that
grows with the length of the name to the power of its wildcards: 15 of them took longer than anybody
waits. A star and the text behind it become an atomic group here, which finds the text at its first
place in the name and never tries another; as a later star takes any rest, the answer is the same.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, cast

from corral.errors import Code, CorralError

if TYPE_CHECKING:  # slow to import, and a command without a folder ignores nothing
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

ALWAYS_OUT: Final = (
    *(".git/", ".hg/", ".svn/", "__pycache__/", "*.pyc", ".venv/", "venv/", "node_modules/"),
    *(".mypy_cache/", ".ruff_cache/", ".pytest_cache/", ".ipynb_checkpoints/", ".DS_Store"),
)
MOST_LINES: Final = 5_000
LONGEST: Final = 1_000
MOST_OPEN: Final = 3
"""Parts of a line that may be tried at several places each: ``**``, and a star before ``[...]``."""
DEEPEST: Final = 200
BUDGET_S: Final = 15.0
_STAR: Final = "[^/]*"
_FOLDERS: Final = re.compile(r"\(\?:(?:\.\+/|/\.\+)\)\?")
# Characters that stand for themselves, and ? of the line; [^/] is not a class with a slash in it.
_TEXT: Final = re.compile(r"(?:\\[^/]|\[\^/\]|[^][\\()|$+*?.^{}/])+")


class IgnoreRules:
    """The lines of an ignore file, after those that hold everywhere.

    Args:
        lines: as they are written.
        source: the file, for people.

    Raises:
        CorralError: USAGE, a line that cannot be matched in bounded time, or too many of them.
    """

    def __init__(self, lines: Iterable[str] = (), source: str = "") -> None:
        self._source = source
        self._spent = 0.0
        kept = [line for line in lines if line.strip() and not line.startswith("#")]
        if len(kept) > MOST_LINES:
            raise self._refusal(f"has {len(kept)} lines", f"{MOST_LINES} are read at most")
        from pathspec import GitIgnoreSpec  # noqa: PLC0415

        self._spec = GitIgnoreSpec.from_lines([*ALWAYS_OUT, *kept], self._pattern)

    def match_file(self, path: str) -> bool:
        """Whether a path, with a slash at its end for a folder, is left out.

        Raises:
            CorralError: USAGE, the path is too deep, or all of it takes too long.
        """
        if path.count("/") > DEEPEST:
            raise CorralError(
                Code.USAGE,
                f"{path[:60]}... is deeper than {DEEPEST} folders",
                hint="leave it out of the project",
            )
        begin = time.monotonic()
        ignored = self._spec.match_file(path)
        self._spent += time.monotonic() - begin
        if self._spent > BUDGET_S:
            raise self._refusal(f"takes longer than {BUDGET_S:.0f} s", "write fewer, simpler lines")
        return ignored

    def _pattern(self, line: str) -> GitIgnoreSpecPattern:
        if len(line) > LONGEST:
            text = f"has a line of {len(line)} characters"
            raise self._refusal(text, f"{LONGEST} are read at most")
        from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415

        made = GitIgnoreSpecPattern(line)
        regex = cast("re.Pattern[str] | None", made.regex)  # pyright: ignore[reportUnknownMemberType]
        if regex is None:
            return made
        text, places = bounded(regex.pattern)
        if places > MOST_OPEN:
            what = f"has {places} wildcards that cannot be matched in bounded time: {line[:60]}"
            raise self._refusal(what, f"write {MOST_OPEN} of ** and of * before [...] at most")
        made.regex = re.compile(text)
        return made

    def _refusal(self, what: str, hint: str) -> CorralError:
        return CorralError(Code.USAGE, f"{self._source or 'the ignore file'} {what}", hint=hint)


def bounded(regex: str) -> tuple[str, int]:
    """A line's expression with atomic stars, and how many parts of it stay open."""
    first, *rest = regex.split(_STAR)
    places = len(_FOLDERS.findall(regex))
    done = [first]
    for number, piece in enumerate(rest, 1):
        text = _TEXT.match(piece)
        end = text.end() if text else 0
        if not piece:
            continue  # a star behind a star
        if end == len(piece) and number < len(rest):
            done.append(f"(?>{_STAR}?{piece})")
            continue
        # In front of a slash or the end there is one place only.
        places += 0 if end == len(piece) or piece[end] in "(/$" else 1
        done.append(f"{_STAR}{piece}")
    return "".join(done), places
