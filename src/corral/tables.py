"""Tables of data that come with Corral: YAML and TOML files, each read through a pydantic model."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError, field_validator

from corral.errors import Code, CorralError

T = TypeVar("T")
Location = Sequence[int | str]
"""Keys and indices that lead to a value."""


class Row(BaseModel):
    """A row of a table: unknown keys are errors, values do not change."""

    model_config = {"extra": "forbid", "frozen": True}


def _words(text: object) -> object:
    return tuple(text.split()) if isinstance(text, str) else text


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
"""Words that a table has as one text, with blanks between them."""


class Hint(Row):
    """What to do about a message.

    Attributes:
        pattern: a regular expression, looked for in the message.
        hint: what to do.
    """

    pattern: str
    hint: str

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        return pattern_that_compiles(pattern)


def pattern_that_compiles(pattern: str) -> str:
    """The pattern, for a field's validator.

    Raises:
        ValueError: it is not a regular expression.
    """
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


def hints_for(rows: Iterable[Hint], text: str) -> list[str]:
    """Hints whose pattern is in a text, in the table's order."""
    return [row.hint for row in rows if re.search(row.pattern, text)]


def read_table(package: str, name: str, kind: type[T]) -> T:
    """Read a table of data.

    Args:
        package: the package that holds the file, such as ``corral.roles``.
        name: the file, ``xids.yaml`` or ``provider.toml``.
        kind: what it holds, such as ``tuple[Xid, ...]``; rows are ``Row`` models.

    Raises:
        CorralError: PARSE_FAILED, with file, line and column of every finding.
    """
    text = resources.files(package).joinpath(name).read_text("utf-8")
    return parse_table(text, f"{package.removeprefix('corral.').replace('.', '/')}/{name}", kind)


def parse_table(text: str, name: str, kind: type[T]) -> T:
    """As ``read_table``, from a text."""
    return (_parse_toml if name.endswith(".toml") else _parse_yaml)(text, name, kind)


def _parse_toml(text: str, name: str, kind: type[T]) -> T:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:  # it names line and column
        raise _broken([f"{name}: {error}"]) from error
    try:
        return TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        raise _faulty(name, error, lambda location: _toml_place(text, location)) from error


def _parse_yaml(text: str, name: str, kind: type[T]) -> T:
    from ruamel.yaml import YAML  # noqa: PLC0415 - slow to import, and many verbs read no table
    from ruamel.yaml.error import MarkedYAMLError  # noqa: PLC0415

    try:
        data: Any = YAML(typ="safe").load(text)  # pyright: ignore[reportUnknownMemberType]
    except MarkedYAMLError as error:
        raise _broken([f"{name}: {error}"]) from error
    try:
        return TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        # Read again with positions, which take six times as long.
        rows: Any = YAML().load(text)  # pyright: ignore[reportUnknownMemberType]
        raise _faulty(name, error, lambda location: _yaml_place(rows, location)) from error


def _faulty(name: str, error: ValidationError, place: Callable[[Location], str]) -> CorralError:
    return _broken(
        [
            f"{name}:{place(fault['loc'])}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors(include_url=False)
        ]
    )


_TOML_TABLE: Final = re.compile(r"\[+\s*([\w.-]+)\s*\]+")
_TOML_KEY: Final = re.compile(r"\s*([\w-]+)\s*=")


def _toml_places(text: str) -> Mapping[tuple[str, ...], str]:
    """Line and column, from 1, of each table and key, of the forms that Corral's files have.

    Tables under ``[dotted.names]``, bare keys, and texts of several lines in three quotes.
    """
    places: dict[tuple[str, ...], str] = {}
    table: tuple[str, ...] = ()
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if not inside and (match := _TOML_TABLE.match(line)):
            table = tuple(match[1].split("."))
            places[table] = f"{number}:1"
        elif not inside and (match := _TOML_KEY.match(line)):
            places[*table, match[1]] = f"{number}:{match.start(1) + 1}"
        inside ^= line.count('"""') % 2 == 1
    return places


def _toml_place(text: str, location: Location) -> str:
    places, path = _toml_places(text), tuple(map(str, location))
    return next((places[path[:n]] for n in range(len(path), 0, -1) if path[:n] in places), "1:1")


def _yaml_place(rows: Any, location: Location) -> str:
    """Line and column, from 1, of the deepest part of a location that is in the file."""
    line, column = 0, 0
    at = rows
    for key in location:
        positions = getattr(at, "lc", None)
        if positions is None or not _holds(at, key):
            break
        line, column = (positions.item if isinstance(key, int) else positions.key)(key)
        at = at[key]
    return f"{line + 1}:{column + 1}"


def _holds(at: Any, key: int | str) -> bool:
    return 0 <= key < len(at) if isinstance(key, int) else key in at


def _broken(findings: list[str]) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED,
        "a table of Corral's own is not valid: " + "; ".join(findings),
        hint="a fault of Corral: please report it",
    )
