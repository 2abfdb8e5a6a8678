"""Every program that runs on nodes. Each names at its top where it is, who starts it and as whom.

Of Corral a header names the modules that send or install the program (``state/files``), not verbs;
a test compares it with the modules that read the program.

They are read as text and sent or installed; nothing of Corral is on a node, so none of them imports
anything of Corral's, and Corral imports none of them. What a program shares with Corral itself is
copied next to it (``modules``). What shell programs share is a file of functions, and a line
``. NAME #include`` is replaced by its text when a program is read. Of a file of functions only
those are sent that a call needs (``functions``). Programs of one provider alone are in its folder.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from itertools import dropwhile
from pathlib import Path
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError

FOLDER: Final = Path(__file__).parent
"""Where they are in Corral's own package; ``benchmarks`` is uploaded with a job as it is."""
LABELS: Final = ("Installed as:", "Started by:", "Runs as:")
"""How the first lines of each program begin."""
_INCLUDE: Final = re.compile(r"^(?:# shellcheck source=.*\n)?\. (\S+) #include$", re.MULTILINE)
"""As a shell's own command, which shellcheck follows with -x."""
_FUNCTION: Final = re.compile(r"^(\w+)\(\) (?:\{.*\}|[({](?: #.*)?\n(?:.*\n)*?[)}])$", re.MULTILINE)
"""A shell function, on one line or up to a line with the closing bracket alone."""


@cache
def program(name: str) -> str:
    """The text of one of these programs, with what it includes in place, each file once.

    Args:
        name: its path in this folder, such as ``health.sh`` or ``benchmarks/gpu.py``.

    Raises:
        CorralError: NOT_FOUND, the program, or one that it includes, does not exist:
            Corral's own package is not complete.
    """
    return _complete(_read(name), {name})


def body(text: str) -> str:
    """A shell program without the comment at its top."""
    lines = text.splitlines()
    return "\n".join(dropwhile(lambda line: line.startswith("#"), lines)).lstrip("\n")


@cache
def functions(name: str, *names: str) -> str:
    """Functions of one of these programs, and those of the same text that they call.

    Args:
        name: its path in this folder, such as ``state/secrets.sh``.
        *names: of functions.

    Raises:
        CorralError: NOT_FOUND, as ``program``.
        KeyError: it has no such function.
    """
    defined = _functions(name)
    needed: set[str] = set()
    left = list(names)
    while left:
        function = left.pop()
        if function not in needed:
            needed.add(function)
            left += set(re.findall(r"\w+", defined[function])) & defined.keys()
    return "\n".join(text for function, text in defined.items() if function in needed)


@cache
def _functions(name: str) -> Mapping[str, str]:
    matches = _FUNCTION.finditer(program(name))
    return MappingProxyType({match[1]: match[0] for match in matches})


def _complete(text: str, included: set[str]) -> str:
    def of(match: re.Match[str]) -> str:
        if match[1] in included:
            return f"# {match[1]} is above"
        included.add(match[1])
        return _complete(body(_read(match[1])), included)

    return _INCLUDE.sub(of, text)


def _read(name: str) -> str:
    path = FOLDER / name
    if not path.is_file():
        raise CorralError(
            Code.NOT_FOUND,
            f"the program {name} is not in Corral's package",
            hint="install Corral again",
        )
    return path.read_text("utf-8")


@cache
def modules(name: str) -> Mapping[str, str]:
    """A module of Corral's and those of Corral's that it imports, for a program that shares them.

    Args:
        name: the module, such as ``corral.providers.cloud.model``.

    Returns:
        texts by their paths below a folder of modules, such as ``corral/providers/cloud/model.py``;
        without ``__init__.py``: Python imports from folders without one, too.
    """
    texts: dict[str, str] = {}
    left = [name]
    while left:
        path = f"{left.pop().replace('.', '/')}.py"
        if path not in texts:
            texts[path] = program(f"../../{path}")
            left += _imported(texts[path])
    return MappingProxyType(dict(sorted(texts.items())))


def _imported(text: str) -> list[str]:
    every = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return [node.module for node in every if node.module and node.module.startswith("corral.")]
