"""The only maker of shell text. A Script is POSIX sh; every value in it went through quoting.

``sh("install -d -m {mode} {path}", mode="0755", path=path)`` quotes each value with
``shlex.quote``; a value that is a Script goes in as it is. Templates must be literals (pyright's
LiteralString), so that no text from a cluster file can ever become shell text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, LiteralString, Self, cast

from corral import agents

_FIELD: Final = re.compile(r"@([a-z]+)@")
_NEVER: Final = (bool, bytes, bytearray, dict, set, frozenset)


class Script(str):
    """POSIX shell text that is safe to run. Made by ``sh``, ``call``, ``filled`` and such.

    What is done to a Script as to a str (``+``, ``%``, f-strings, ``strip``) gives a plain str,
    which pyright takes for a Script nowhere.
    """

    __slots__ = ()

    def __new__(cls, text: LiteralString = "", /) -> Self:
        """Take literal text as it is; ``sh`` is the way for anything with values in it."""
        return super().__new__(cls, text)


NOTHING: Final = Script("")
"""Where a script may be given and there is none."""


def sh(template: LiteralString, /, **values: object) -> Script:
    """Fill ``{name}`` fields of a literal template with quoted values.

    Args:
        template: literal shell text; ``{{`` and ``}}`` stand for braces.
        **values: str, int, float, Path (quoted), Script (as it is), or a list/tuple (each quoted,
            joined by spaces).

    Raises:
        KeyError: a field has no value.
        ValueError: a value holds a NUL byte, which no shell argument can, or text that is not
            Unicode.
        TypeError: a value whose text is never meant: None, a bool, bytes, a dict or a set.
    """
    return _script(template.format(**{k: _quoted(v) for k, v in values.items()}))


def join(scripts: Iterable[Script], separator: LiteralString = "\n") -> Script:
    """Put scripts one after the other, a newline between them by default."""
    return _script(separator.join(scripts))


@cache
def shipped(name: str) -> Script:
    """A shell program of Corral's own package, without the comment at its top.

    Args:
        name: its path in ``agents``, such as ``ledger/survey.sh``.
    """
    return _script(agents.body(agents.program(name)))


def filled(program: LiteralString, /, **values: object) -> Script:
    """A shell program of Corral's own package, with quoted values in the place of ``@name@``.

    For text that is stored by others, or whose digest names what it made: an image, a startup
    script. Anything else is a function, see ``call``.

    Args:
        program: its path in ``agents``, such as ``containers/image-settle.sh``.
        **values: as of ``sh``.

    Raises:
        KeyError: it has a name without a value.
    """
    text = _FIELD.sub(lambda match: _quoted(values[match[1]]), shipped(program))
    return _script(text)


def piece(program: LiteralString, /, **values: object) -> Script:
    """As ``filled``, with a newline at its end: a part of a longer script."""
    return _script(f"{filled(program, **values)}\n")


def call(program: LiteralString, function: LiteralString, /, *values: object) -> Script:
    """A call of a function of one of Corral's shell programs: one compound command.

    The function and those that it calls are defined in it, so it may be anywhere a command may be.

    Args:
        program: its path in ``agents``, such as ``state/secrets.sh``.
        function: its name.
        *values: arguments, quoted as by ``sh``.
    """
    words = " ".join([function, *map(_quoted, values)])
    return _script(f"{{\n{agents.functions(program, function)}\n{words}\n}}")


def defined(program: LiteralString, /, *functions: LiteralString) -> Script:
    """Definitions of functions of one of Corral's shell programs, for a script that calls them.

    Args:
        program: its path in ``agents``.
        *functions: their names.
    """
    return _script(agents.functions(program, *functions))


def reread(text: str) -> Script:
    """Read a script that Corral wrote itself, from one of its plans."""
    return _script(text)


def _script(text: str) -> Script:
    return Script(cast("LiteralString", text))


def _quoted(value: object) -> str:
    if isinstance(value, Script):
        return str(value)
    if isinstance(value, (list, tuple)):
        return " ".join(_quoted(part) for part in cast("Sequence[object]", value))
    kind = type(value).__name__
    if value is None or isinstance(value, _NEVER):
        raise TypeError(f"shell text cannot hold a {kind}")
    text = str(value)
    if "\0" in text:
        raise ValueError("shell text cannot hold a NUL byte")
    text.encode("utf-8", "surrogateescape")  # UnicodeEncodeError is a ValueError
    return shlex.quote(text)
