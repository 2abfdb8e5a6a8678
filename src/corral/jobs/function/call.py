"""A function and its arguments as files of a job's folder, and the job that calls it."""

from __future__ import annotations

import functools
import inspect
import json
import os
import pickletools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from corral.agents import program
from corral.errors import Code, CorralError
from corral.jobs.function.answer import MOST_BYTES
from corral.jobs.model import JobSpec, parse_job

PROTOCOL: Final = 5
"""Of pickle: the nodes' Python may be older than this one."""
MOST_SENT: Final = 64 << 20
PYTHON: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
_COMMAND: Final = ("python3", "-m", "corral.function")
_LIBRARY: Final = "cloudpickle"
_FIXED: Final = frozenset({"script", "command", "args", "array", "sweep", "in_place", "user"})


@dataclass(frozen=True, slots=True)
class Call:
    """A function, pickled, with the arguments of each of its calls.

    Attributes:
        name: the function's name.
        data: the pickles, one behind the other: the function, then each call's arguments.
        sizes: bytes of each of them.
        bytecode: a function, class or module in it is sent as code of this Python.
    """

    name: str
    data: bytes
    sizes: tuple[int, ...]
    bytecode: bool

    def files(self, folder: str) -> dict[str, bytes]:
        """Files of the job's folder, by their path in it.

        Args:
            folder: of this machine, which is uploaded; "none" for none.
        """
        about = {
            "python": PYTHON,
            "bytecode": self.bytecode,
            "sizes": self.sizes,
            "paths": import_paths(folder),
            "limit": MOST_BYTES,
        }
        library = resources.files(_LIBRARY)
        return {
            "call.json": json.dumps(about).encode(),
            "call.pkl": self.data,
            "lib/corral/function.py": program("jobs/function.py").encode(),
            **{
                f"lib/{_LIBRARY}/{file.name}": file.read_bytes()
                for file in library.iterdir()
                if file.name.endswith(".py")
            },
        }


def pack(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Call:
    """Pickle a function, and the arguments of each call.

    Raises:
        CorralError: USAGE, something of it cannot be pickled, or it is too large.
    """
    # No other job needs it.
    import cloudpickle  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

    # It has no types.
    dumps: Callable[..., bytes] = cloudpickle.dumps  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    try:
        pickles = [dumps(each, protocol=PROTOCOL) for each in (function, *calls)]
    except Exception as error:  # whatever the objects' own methods raise
        raise CorralError(
            Code.USAGE,
            f"the function or its arguments cannot be sent: {error}",
            hint="locks, connections and files open for writing have to be made in the function",
        ) from error
    size = sum(map(len, pickles))
    if size > MOST_SENT:
        raise CorralError(
            Code.USAGE,
            f"the function and its arguments are {size >> 20} MiB: "
            f"{MOST_SENT >> 20} MiB are the most",
            hint="put data on shared storage, and pass its path",
        )
    return Call(
        name_of(function),
        b"".join(pickles),
        tuple(map(len, pickles)),
        any(map(_has_bytecode, pickles)),
    )


def _has_bytecode(data: bytes) -> bool:
    """Whether an object in a pickle is made by cloudpickle, out of code: others are named."""
    return any(
        isinstance(argument, str) and argument.partition(".")[0] == _LIBRARY
        for _, argument, _ in pickletools.genops(data)
    )


def name_of(function: Callable[..., Any]) -> str:
    """A name for the job."""
    text = re.sub(r"[^A-Za-z0-9_.-]+", "_", getattr(_plain(function), "__name__", "function"))
    return text.strip("._-")[:64] or "function"


def source_of(function: Callable[..., Any]) -> Path:
    """A path in the project that a function belongs to: its file, else the current folder.

    Functions of a notebook, of Python itself and of installed packages have no file of a project.
    """
    here = Path.cwd() / "function"
    try:
        file = Path(inspect.getsourcefile(_plain(function)) or "")
    except TypeError:  # of no Python code
        return here
    packages = not {"site-packages", "dist-packages"}.isdisjoint(file.parts)
    library = file.is_relative_to(Path(inspect.__file__).parent)
    return here if packages or library or not file.is_file() else file


def _plain(function: Callable[..., Any]) -> Any:
    """The function in a partial one or in a decorated one."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    return inspect.unwrap(inner) if callable(inner) else inner


def import_paths(folder: str) -> list[str]:
    """Where in the folder Python imports from here, relative to it."""
    if folder == "none":
        return []
    root = os.path.realpath(folder)
    return list(dict.fromkeys(_inside(root)))


def _inside(root: str) -> Iterator[str]:
    for entry in sys.path:
        path = os.path.realpath(entry or ".")
        if path == root or path.startswith(f"{root}{os.sep}"):
            yield os.path.relpath(path, root)


def job_of(
    call: Call, folder: str, fields: Mapping[str, Any], *, array: bool, at_once: int | None = None
) -> JobSpec:
    """The job that makes the calls.

    Args:
        call: the function.
        folder: of this machine, which is uploaded; "none" for none.
        fields: of ``JobSpec``.
        array: one part for each call.
        at_once: parts that run at once at most.

    Raises:
        CorralError: USAGE, a field is unknown, or not for functions.
    """
    unknown = sorted(fields.keys() - (JobSpec.model_fields.keys() - _FIXED))
    if unknown:
        raise CorralError(
            Code.USAGE,
            f"{', '.join(unknown)}: not an option of a function's job",
            hint="keyword arguments are options of the job, such as nodes=2; those of the function "
            f"itself: functools.partial({call.name}, {unknown[0]}=...)",
        )
    parts = {"array": f"0-{len(call.sizes) - 2}", "at_once": at_once} if array else {}
    own = {"command": _COMMAND, "folder": folder, **parts}
    return parse_job({"name": call.name, **fields, **own})
