"""Pickles of plain values, read without running code of who wrote them.

A pickle names what is called to make its objects again. Here it may name only what makes values:
containers, numbers, times, paths, exceptions of Python, arrays of numpy. Anything else is refused
by name. A pickle may also set attributes of what it names (``BUILD``): classes and functions that
Python code could change are called for it, and never handed to it.
"""

from __future__ import annotations

import builtins
import io
import pathlib
import pickle
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any, Final
from zoneinfo import ZoneInfo

_VALUES: Final = frozenset(
    {
        *(("builtins", name) for name in ("set", "frozenset", "bytearray", "complex")),
        *(("builtins", name) for name in ("range", "slice")),
        # What makes the missing values of a defaultdict.
        *(("builtins", name) for name in ("list", "dict", "tuple", "str", "bytes")),
        *(("builtins", name) for name in ("int", "float", "bool")),
        *(("collections", name) for name in ("OrderedDict", "deque", "Counter", "defaultdict")),
        *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
        ("decimal", "Decimal"),
        ("fractions", "Fraction"),
        ("uuid", "UUID"),
        *(("numpy", name) for name in ("ndarray", "dtype")),
        *((f"numpy.{core}.multiarray", "scalar") for core in ("core", "_core")),
        *((f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")),
        *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
    }
)

_PATHS: Final = frozenset({"PurePosixPath", "PosixPath", "PureWindowsPath"})
_GETATTR: Final = "builtins.getattr"
_IMMUTABLE: Final = 1 << 8
"""Py_TPFLAGS_IMMUTABLETYPE of object.h."""


class NotPlainError(Exception):
    """A pickle names something else; the text is its name."""


class _Plain(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.zones = _Zones()

    def find_class(self, module: str, name: str) -> Any:
        if instead := self.zones.named(module, name):
            return instead
        if module in ("pathlib", "pathlib._local") and name in _PATHS:  # _local: Python 3.13
            return _called(getattr(pathlib, name))
        known = getattr(builtins, name, None) if module == "builtins" else None
        exception = isinstance(known, type) and issubclass(known, Exception)
        if not exception and (module, name) not in _VALUES:
            raise NotPlainError(f"{module}.{name}")
        made = super().find_class(module, name)
        return made if _fixed(made) else _called(made)


def _fixed(made: Any) -> bool:
    """Whether a pickle can set no attribute of it."""
    if isinstance(made, type):
        return bool(made.__flags__ & _IMMUTABLE) or hasattr(made, "__setstate__")
    return isinstance(made, BuiltinFunctionType)


def _called(made: Callable[..., Any]) -> Callable[..., Any]:
    """A function for one pickle alone: what it sets there is nobody else's."""

    def call(*args: Any) -> Any:
        return made(*args)

    return call


class _Zones:
    """What a pickle has in the place of ``ZoneInfo`` and of ``getattr``, which names its method.

    Attributes:
        waits: ``getattr`` was named, and not called.
    """

    def __init__(self) -> None:
        self.waits = False
        self._zone = _called(self._read)

    @staticmethod
    def _read(key: str, from_cache: bool = True) -> ZoneInfo:
        """A time zone; zoneinfo accepts no key that leads out of its folders."""
        return ZoneInfo(key) if from_cache else ZoneInfo.no_cache(key)

    def named(self, module: str, name: str) -> Callable[..., Any] | None:
        """The stand-in of a name; None for other names."""
        if (module, name) == ("zoneinfo", "ZoneInfo"):
            return self._zone
        if (module, name) != ("builtins", "getattr"):
            return None
        self.waits = True
        return _called(self._method)

    def _method(self, owner: Any, name: str) -> Any:
        if owner is not self._zone or name != "_unpickle":
            raise NotPlainError(_GETATTR)
        self.waits = False
        return self._zone


def plain_value(data: bytes) -> Any:
    """The value of a pickle.

    Raises:
        NotPlainError: it would call something that may run code.
        Exception: whatever a damaged pickle raises.
    """
    reader = _Plain(data)
    value = reader.load()
    if reader.zones.waits:
        raise NotPlainError(_GETATTR)
    return value
