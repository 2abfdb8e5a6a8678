"""YAML text as a tree of nodes with places; nothing in it is ever constructed, run or fetched.

The tree is built from ruamel.yaml's events, not by its composer or constructors: no tag can make an
object, nesting costs no recursion, an alias that grows is refused before it is followed, and every
value keeps its line and column. Plain scalars are read as YAML 1.2's core schema reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError

from corral.spec.findings import shown

DEPTH_AT_MOST: Final = 32
VALUES_AT_MOST: Final = 200_000
FAULTS_AT_MOST: Final = 100
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}|0o[0-7]{1,20}|0x[0-9a-fA-F]{1,15}")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?")
_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    "-.inf": float("-inf"),
}
_STRING_TAGS: Final = ("!", "tag:yaml.org,2002:str")
_CORE_TYPES: Final = ("str", "int", "float", "bool", "null", "map", "seq")
_KNOWN_TAGS: Final = frozenset(("!", *(f"tag:yaml.org,2002:{name}" for name in _CORE_TYPES)))
_DIGITS_AT_MOST: Final = 64
_TAB_HINT: Final = "YAML takes no tabs at the beginning of a line; indent by two spaces"

Path = tuple[str | int, ...]


@dataclass(slots=True)
class YamlNode:
    """One value in the file, at its place (line and column from 1).

    Attributes:
        line: where it begins.
        column: where it begins.
        value: a scalar's value.
        text: a scalar as written, without quotes.
        entries: a list's entries; None when it is not a list.
        pairs: a mapping's keys and values; None when it is not a mapping.
        size: values in it and below, aliases followed.
        height: nesting in it and below, aliases followed.
        begin: its first character in the text, from 0.
        end: the character behind it; of a list or mapping of lines: behind its last value.
        flow: it is written in brackets or braces.
    """

    line: int
    column: int
    value: str | float | bool | None = None
    text: str = ""
    entries: list[YamlNode] | None = None
    pairs: dict[str, tuple[YamlNode, YamlNode]] | None = None
    size: int = 1
    height: int = 0
    begin: int = 0
    end: int = 0
    flow: bool = False

    @property
    def empty(self) -> bool:
        """True where nothing stands, as after ``users:`` at the end of a line."""
        return not self.text and self.value is None and self.entries is None and self.pairs is None

    def plain(self) -> Any:
        """The value as dict, list and scalars; aliases become copies."""
        if self.pairs is not None:
            return {key: value.plain() for key, (_, value) in self.pairs.items()}
        if self.entries is not None:
            return [entry.plain() for entry in self.entries]
        return self.value

    def find(self, path: Path) -> YamlNode:
        """The value at a path, or the nearest one above that is written in the file."""
        node = self
        for part in path:
            child = node.child(part)
            if child is None:
                return node
            node = child
        return node

    def key(self, path: Path) -> YamlNode:
        """The key at a path, for findings about the key itself."""
        parent = self.find(path[:-1])
        pair = (parent.pairs or {}).get(str(path[-1])) if path else None
        return pair[0] if pair else parent

    def child(self, part: str | int) -> YamlNode | None:
        """The value under a key or at a list position."""
        if isinstance(part, str):
            pair = (self.pairs or {}).get(part)
            return pair[1] if pair else None
        entries = self.entries or []
        return entries[part] if part < len(entries) else None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with the YAML itself."""

    rule: str
    message: str
    hint: str
    line: int
    column: int


class TreeError(Exception):
    """The text cannot be read any further; ``fault`` holds the reason."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been read."""

    node: YamlNode
    anchor: str | None
    key: YamlNode | None = None
    merging: bool = False
    merged: list[YamlNode] = field(default_factory=list[YamlNode])


def parse(text: str) -> tuple[YamlNode | None, tuple[Fault, ...]]:
    """The tree of a YAML text, None when it cannot be read or is empty, and all faults.

    Raises nothing, whatever the text is.
    """
    builder = _Builder()
    try:
        builder.feed(_events(text))
    except TreeError as error:
        return None, (*builder.faults, error.fault)
    return builder.top, tuple(builder.faults)


def _unexplained(text: str) -> Iterable[Any]:
    return cast("Iterable[Any]", YAML(typ="safe", pure=True, plug_ins=[]).parse(text))  # pyright: ignore


def _is_yaml(text: str) -> bool:
    try:
        return all(True for _ in _unexplained(text))
    except Exception:  # ruamel.yaml 0.19 also raises plain errors
        return False


def _events(text: str) -> Iterator[Any]:
    try:
        yield from _unexplained(text)
    except ReaderError as error:
        raise TreeError(_unreadable(text, error)) from error
    except MarkedYAMLError as error:
        raise TreeError(_syntax(error, text)) from error
    except Exception as error:
        # ruamel.yaml 0.19 also raises plain errors: for "\UFFFFFFFF" it is chr()'s OverflowError.
        hint = "check the escapes after each \\ in double quotes"
        fault = Fault("yaml-syntax", f"not YAML: {shown(str(error))}", hint, 1, 1)
        raise TreeError(fault) from error


_TRIED_AT_MOST: Final = 1 << 16
"""Characters of a text that is read again with each possible end of a line."""
_OPEN: Final = "a quote or bracket is opened and not closed"


def _unreadable(text: str, error: ReaderError) -> Fault:
    position = cast(int, error.position)  # pyright: ignore[reportUnknownMemberType]
    before = text[:position]
    line, column = before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
    return Fault(
        "yaml-syntax",
        f"the character U+{ord(text[position]):04X} is not allowed in YAML",
        "remove it; it is often left by copying from a web page or a terminal",
        line,
        column,
    )


def _syntax(error: MarkedYAMLError, text: str) -> Fault:
    details = cast(Any, error)  # ruamel.yaml 0.19 ships no types for its errors
    mark, began = details.problem_mark or details.context_mark, details.context_mark
    problem = str(details.problem or details.context or "not YAML")
    problem = re.sub(r"\('(<[^']*>)',\)", r"'\1'", problem)
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    if "'\\t'" in problem:
        return Fault("yaml-tab", "a tab where YAML wants spaces", _TAB_HINT, line, column)
    context = (
        f" ({details.context} from line {began.line + 1})" if details.context and began else ""
    )
    hint = _missing_space(text.splitlines()[:line]) or _hint(problem)
    if began and began.line + 1 < line and hint == _OPEN and began.line < text.count("\n") + 1:
        hint = f"{_OPEN}: {_closed(text, began.line)}"
    return Fault("yaml-syntax", f"{problem}{context}", hint, line, column)


def _closed(text: str, at: int) -> str:
    """What closes the quote or bracket of a line, where that alone makes the text YAML.

    Args:
        text: of the file.
        at: the line, from 0.
    """
    lines = text.split("\n")
    for written in _with_ends(lines[at].rstrip()) if len(text) <= _TRIED_AT_MOST else ():
        if _is_yaml("\n".join([*lines[:at], written, *lines[at + 1 :]])):
            return f"write line {at + 1} as: {written.strip()}"
    return f"close it in line {at + 1} or after it"


def _with_ends(line: str) -> Iterator[str]:
    """A line with its quotes and brackets closed."""
    inside = line.rstrip("]}")
    ends = line[len(inside) :]
    for quote in "\"'":
        if line.count(quote) % 2:
            yield f"{inside}{quote}{ends}"
            yield f"{line}{quote}"
    for bracket in ("}", "]", "}]", "]}", "}}", "]]"):
        yield f"{line}{bracket}"


def _missing_space(lines: Sequence[str]) -> str:
    """A dash or colon without its space: YAML's own message is about a later line."""
    for number, line in list(enumerate(lines, 1))[-3:]:
        if match := re.match(r"\s*-([a-z_]+:)", line):
            return f"a list entry begins with a dash and a space: line {number}: - {match[1]}"
        if match := re.fullmatch(r"\s*([a-z_]+):([A-Za-z0-9]\S*)", line):
            return f"a colon needs a space after it: line {number}: {match[1]}: {match[2]}"
    return ""


def _hint(problem: str) -> str:
    if "mapping values are not allowed" in problem:
        return "check the indentation; a text with ': ' in it needs quotes"
    if "expected <block end>" in problem or "could not find expected ':'" in problem:
        return "check the indentation: keys of one mapping begin in the same column"
    if "end of stream" in problem or "',' or" in problem:
        return _OPEN
    if "cannot start any token" in problem:
        return "put the text in quotes"
    return "check indentation, quotes and brackets around here"


class _Builder:
    """Makes the tree from events; open lists and mappings are kept on a stack."""

    def __init__(self) -> None:
        self.top: YamlNode | None = None
        self.faults: list[Fault] = []
        self._stack: list[_Open] = []
        self._anchors: dict[str, YamlNode] = {}
        self._values = 0

    def feed(self, events: Iterable[Any]) -> None:
        """Read all events."""
        for event in events:
            getattr(self, f"_on_{type(event).__name__}", self._ignore)(event)

    def _ignore(self, event: Any) -> None:
        """Begin and end of stream and document add nothing."""

    def _on_DocumentStartEvent(self, event: Any) -> None:  # noqa: N802  ruamel's names
        if self.top is not None:
            hint = "one file holds one cluster; remove '---' and what follows, or use another file"
            self._stop("yaml-many-documents", "a second document begins here", hint, event)

    def _on_ScalarEvent(self, event: Any) -> None:  # noqa: N802
        node = self._node(event)
        node.text = str(event.value)
        node.value = _scalar(node.text, event.tag, plain=bool(event.implicit[0]))
        self._anchored(event.anchor, node)
        self._place(node, plain_key=bool(event.implicit[0]))

    def _on_AliasEvent(self, event: Any) -> None:  # noqa: N802
        target = self._anchors.get(str(event.anchor))
        if target is None:
            hint = f"write &{event.anchor} before the value that it stands for"
            self._stop("yaml-alias", f"no value is called *{event.anchor} before here", hint, event)
        self._place(target, plain_key=False)

    def _on_SequenceStartEvent(self, event: Any) -> None:  # noqa: N802
        self._open(event, YamlNode(0, 0, entries=[], flow=bool(event.flow_style)))

    def _on_MappingStartEvent(self, event: Any) -> None:  # noqa: N802
        self._open(event, YamlNode(0, 0, pairs={}, flow=bool(event.flow_style)))

    def _on_SequenceEndEvent(self, event: Any) -> None:  # noqa: N802
        self._close(event)

    def _on_MappingEndEvent(self, event: Any) -> None:  # noqa: N802
        self._close(event)

    def _node(self, event: Any, node: YamlNode | None = None) -> YamlNode:
        node = node or YamlNode(0, 0)
        node.line, node.column = event.start_mark.line + 1, event.start_mark.column + 1
        node.begin, node.end = event.start_mark.index, event.end_mark.index
        self._values += 1
        if self._values > VALUES_AT_MOST:
            self._large(event)
        if event.tag and event.tag not in _KNOWN_TAGS:
            tag = str(event.tag).replace("tag:yaml.org,2002:", "!!")
            hint = "remove the tag; Corral makes no objects from a file"
            self._fault("yaml-tag", f"the tag {shown(tag)} is not allowed", hint, node)
        return node

    def _open(self, event: Any, node: YamlNode) -> None:
        if len(self._stack) >= DEPTH_AT_MOST:
            self._deep(event)
        self._stack.append(_Open(self._node(event, node), event.anchor))

    def _close(self, event: Any) -> None:
        done = self._stack.pop()
        for merged in done.merged:
            self._merge(done.node, merged)
        children = _children(done.node)
        # Lines end where the next token begins, behind comments that are not theirs.
        done.node.end = event.end_mark.index if done.node.flow else _last(done.node)
        done.node.size = 1 + sum(child.size for child in children)
        done.node.height = 1 + max((child.height for child in children), default=0)
        if done.node.size > VALUES_AT_MOST:
            self._large(event)
        if done.node.height > DEPTH_AT_MOST:
            self._deep(event)
        self._anchored(done.anchor, done.node)
        self._place(done.node, plain_key=False)

    def _anchored(self, anchor: str | None, node: YamlNode) -> None:
        if anchor:
            self._anchors[str(anchor)] = node

    def _place(self, node: YamlNode, *, plain_key: bool) -> None:
        if not self._stack:
            self.top = node
            return
        place = self._stack[-1]
        if place.node.entries is not None:
            place.node.entries.append(node)
        elif place.key is None:
            place.key, place.merging = node, plain_key and node.text == "<<"
            if node.entries is not None or node.pairs is not None or node.value is None:
                self._fault("yaml-key", "a key that is not a plain text", "write a name", node)
        else:
            self._pair(place, place.key, node)
            place.key = None

    def _pair(self, place: _Open, key: YamlNode, value: YamlNode) -> None:
        pairs = place.node.pairs
        if place.merging:
            place.merged.append(value)
        elif pairs is not None and key.text in pairs:
            first = pairs[key.text][0]
            hint = f"keep one of them; the first is on line {first.line}"
            self._fault("yaml-duplicate-key", f"{shown(key.text)} is written twice", hint, key)
        elif pairs is not None:
            pairs[key.text] = (key, value)

    def _merge(self, node: YamlNode, merged: YamlNode) -> None:
        """``<<: *base``: keys of base that are not written here."""
        for source in merged.entries if merged.entries is not None else [merged]:
            if source.pairs is None or node.pairs is None:
                hint = "write '<<: *name' with the name of a mapping"
                self._fault("yaml-key", "'<<' takes a mapping", hint, source)
                continue
            for key, pair in source.pairs.items():
                node.pairs.setdefault(key, pair)

    def _fault(self, rule: str, message: str, hint: str, node: YamlNode) -> None:
        self.faults.append(Fault(rule, message, hint, node.line, node.column))
        if len(self.faults) >= FAULTS_AT_MOST:
            more = f"{FAULTS_AT_MOST} faults in the YAML; it is not read beyond here"
            raise TreeError(Fault("yaml-too-large", more, "correct these", node.line, node.column))

    def _stop(self, rule: str, message: str, hint: str, event: Any) -> NoReturn:
        mark = event.start_mark
        raise TreeError(Fault(rule, message, hint, mark.line + 1, mark.column + 1))

    def _large(self, event: Any) -> NoReturn:
        message = f"more than {VALUES_AT_MOST} values, aliases followed"
        self._stop("yaml-too-large", message, "write fewer values; do not nest aliases", event)

    def _deep(self, event: Any) -> NoReturn:
        message = f"nested more than {DEPTH_AT_MOST} deep"
        self._stop("yaml-too-large", message, "a cluster file nests four deep", event)


def _children(node: YamlNode) -> list[YamlNode]:
    if node.entries is not None:
        return node.entries
    return [value for _, value in (node.pairs or {}).values()]


def _last(node: YamlNode) -> int:
    """Where the last value of a list or mapping of lines ends."""
    return max((child.end for child in _children(node)), default=node.end)


def _scalar(text: str, tag: str | None, *, plain: bool) -> str | float | bool | None:
    """A scalar's value by YAML 1.2's core schema."""
    if tag in _STRING_TAGS or not (plain or tag):
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    return float(text) if len(text) <= _DIGITS_AT_MOST and _FLOAT.fullmatch(text) else text
