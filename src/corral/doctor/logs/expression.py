"""Regular expressions that take linear time on any line, however long or hostile. Pure.

Python's ``re`` backtracks: an unbounded repetition on a line of 1 MB without a space takes
minutes. Here a repetition has an upper bound, a ``.*`` outside of brackets separates parts that are
searched for one after the other, and a repeated bracket is refused, as are two repetitions of the
same characters behind each other: each place between the two would be tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

MOST: Final = 160
"""Characters that an unbounded repetition takes: longer names and paths are in no message."""
_TOKEN: Final = re.compile(
    r"(?P<run>[A-Za-z_,:;=/'\"<>@#%&!~-]{2,}(?![*+?{]))"
    r"|(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\((?:\?(?:[:=!]|P<[a-z]+>))?)|(?P<close>\))"
    r"|(?P<times>[*+?]|\{\d+(?:,\d*)?\})|(?P<gap>\.\*)|(?P<or>\|)|(?P<edge>[\^$])|(?P<one>.)",
    re.DOTALL,
)
LONG: Final = 4
"""Letters of a word that is worth looking for."""
_CLASSES: Final = frozenset("AbBdDsSwWZ")
"""Letters that a backslash turns into something other than themselves."""
_CHARACTERS: Final = tuple(map(chr, range(32, 127)))
_UNBOUNDED: Final = {"*": f"{{0,{MOST}}}", "+": f"{{1,{MOST}}}"}


@dataclass(frozen=True)
class Expression:
    """One expression: ``text`` as it is written in the catalogue.

    A space stands for one or more blanks (Slurm prints two in some sentences); case is ignored. A
    leading ``^`` stands for the start of a message, after its time, host and program.
    """

    text: str

    @cached_property
    def parts(self) -> tuple[re.Pattern[str], ...]:
        """What is searched for, one after the other."""
        return tuple(re.compile(part, re.IGNORECASE) for part in _parts(self._body))

    @cached_property
    def needles(self) -> tuple[str, ...]:
        """Texts in lower case without digits that each matching line has: its words.

        Looking for them first takes a hundredth of the time.
        """
        words = [word for part in _cut(self._body) for word in _words(part)]
        long = [word for word in words if len(word) >= LONG]
        return tuple(dict.fromkeys(long or sorted(words, key=len)[-1:]))

    @property
    def leading(self) -> bool:
        """True when it begins with ``^``."""
        return self.text.startswith("^")

    @property
    def unbroken(self) -> bool:
        """True when nothing unknown is between its parts."""
        return len(self.parts) == 1

    @property
    def _body(self) -> str:
        return self.text.removeprefix("^")

    def search(self, line: str) -> bool:
        """True when the line has it anywhere."""
        at = 0
        for part in self.parts:
            match = part.search(line, at)
            if match is None:
                return False
            at = match.end()
        return True

    def parts_of(self, line: str, at: Sequence[int]) -> dict[str, str] | None:
        """The named groups ``(?P<name>...)`` of a line that has it; None when the line does not.

        Args:
            line: the line.
            at: where a message may start in it, for an expression that begins with ``^``.
        """
        for start in at if self.leading else (None,):
            named = self._named(line, start)
            if named is not None:
                return named
        return None

    def _named(self, line: str, start: int | None) -> dict[str, str] | None:
        named: dict[str, str] = {}
        at = start or 0
        for number, part in enumerate(self.parts):
            first = number == 0 and start is not None
            match = part.match(line, at) if first else part.search(line, at)
            if match is None:
                return None
            named.update(match.groupdict(default=""))
            at = match.end()
        return named

    def match(self, line: str, at: int) -> bool:
        """True when the line has it from this place on."""
        return self.end(line, at) is not None

    def end(self, line: str, at: int) -> int | None:
        """Where it ends in the line when it begins at this place; None when it does not."""
        first = self.parts[0].match(line, at)
        if first is None:
            return None
        at = first.end()
        for part in self.parts[1:]:
            match = part.search(line, at)
            if match is None:
                return None
            at = match.end()
        return at


def alternatives(text: str) -> list[str]:
    """The expressions of which one is made: its parts between ``|`` outside of brackets.

    A bracket of alternatives is taken apart as well where nothing else has a text to look for.
    """
    if "|" not in text and "(?:" not in text:
        return [text]
    texts = _split(text)
    if len(texts) > 1:
        return [alternative for each in texts for alternative in alternatives(each)]
    opened = text.find("(?:")
    if opened < 0 or Expression(text).needles:
        return [text]
    inner = text[opened + 3 :]
    depth = 1
    length = 0
    for kind, token in _tokens(inner):
        depth += (kind == "open") - (kind == "close")
        if not depth:
            break
        length += len(token)
    rest = inner[length + 1 :]
    if rest[:1] in ("?", "*", "{"):
        return [text]
    made = (f"{text[:opened]}{choice}{rest}" for choice in _split(inner[:length]))
    return [alternative for each in made for alternative in alternatives(each)]


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for kind, token in _tokens(text):
        depth += (kind == "open") - (kind == "close")
        if kind == "or" and not depth:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(text):
        yield str(match.lastgroup), match[0]


def _cut(text: str) -> list[list[tuple[str, str]]]:
    """The tokens between the gaps that are in no bracket."""
    parts: list[list[tuple[str, str]]] = [[]]
    depth = 0
    for kind, token in _tokens(text):
        depth += (kind == "open") - (kind == "close")
        if kind == "gap" and not depth:
            parts.append([])
        else:
            parts[-1].append((kind, token))
    return [part for part in parts if part]


def _refuse_pairs(part: list[tuple[str, str]], text: str) -> None:
    r"""Refuse ``\w+\S*``: of a name of 160 characters that is 160 times as slow.

    Raises:
        ValueError: the expression has such a pair.
    """
    repeated = set[str]()  # what the characters up to this place may be a repetition of
    brackets: list[tuple[set[str], set[str]]] = []  # before each, and at its alternatives' ends
    for (kind, token), (after, times) in zip(part, [*part[1:], ("", "")], strict=True):
        if kind == "open":
            brackets.append((repeated, set[str]()))
        elif kind == "or":
            before, ends = brackets[-1] if brackets else (set[str](), set[str]())
            ends |= repeated
            repeated = before
        elif kind == "close":
            repeated = repeated | brackets.pop()[1] if brackets else repeated
        elif kind != "times":
            chars = "." if kind == "gap" else token
            unbounded = kind == "gap" or (after == "times" and times in _UNBOUNDED)
            pair = next((r for r in sorted(repeated) if unbounded and _overlap(r, chars)), "")
            if pair:
                raise ValueError(f"{text!r} repeats {chars!r} behind {pair!r}: that is not linear")
            optional = after == "times" and times[:2] in ("?", "*", "{0")
            repeated = (repeated if optional else set[str]()) | (
                {chars} if unbounded else set[str]()
            )


def _overlap(left: str, right: str) -> bool:
    """True when some character is of both kinds."""
    return any(re.match(left, c) and re.match(right, c) for c in _CHARACTERS)


def _parts(text: str) -> Iterator[str]:
    for part in _cut(text):
        _refuse_pairs(part, text)
        out: list[str] = []
        before = ""
        following = [kind for kind, _ in part[1:]] + [""]
        for (kind, token), after in zip(part, following, strict=True):
            if kind == "times" and token not in ("?",) and before == "close":
                raise ValueError(f"{text!r} repeats a bracket: that is not linear")
            if kind == "gap":
                out.append(f".{_UNBOUNDED['*']}")
            elif kind == "times":
                out.append(_UNBOUNDED.get(token, token))
            elif token.isspace():
                out.append(r"[ \t]" if after == "times" else r"[ \t]{1,40}")
            else:
                out.append(token)
            before = kind
        yield "".join(out)


def _words(part: list[tuple[str, str]]) -> list[str]:
    """Texts that whatever matches must have; none where it has alternatives."""
    runs, run, depth = [""], "", 0
    for place, (kind, token) in enumerate(part):
        if kind == "or" and not depth:
            return []
        depth += (kind == "open") - (kind == "close")
        literal = ""
        if kind == "run":  # of letters and signs, none of them repeated
            literal = token
        elif kind == "escape" and token[1] not in _CLASSES:
            literal = token[1]
        elif kind == "one" and token not in (".", " "):
            literal = token
        after = part[place + 1] if place + 1 < len(part) else ("", "")
        optional = after[0] == "times" and after[1] != "+"
        # Digits are left out of what is looked through (LogText.vocabulary).
        if literal and not literal.isdigit() and not depth and not optional:
            run += literal
        else:
            runs.append(run)
            run = ""
        if after[0] == "times":
            runs.append(run)
            run = ""
    return [word.lower() for word in (*runs, run) if word]
