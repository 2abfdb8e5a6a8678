"""Fields of the cluster file that are keys of slurm.conf: ``field`` in keys.yaml. Pure.

Each form of a value is written and read here, so that a field which lands in slurm.conf is adopted
from there too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError, create_model

from corral.durations import INFINITE, UNITS, clock, interval_seconds, max_time, seconds
from corral.errors import CorralError
from corral.slurm.conf.conf_file import Pairs, Setting
from corral.slurm.conf.parse import switch
from corral.spec.models import ClusterSpec
from corral.spec.slurm.written_keys import Form, Key, all_keys

_LICENSES: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,62}:[1-9][0-9]{0,6},?)+")


@dataclass(frozen=True, slots=True)
class _Form:
    """How a field's value is written in slurm.conf, and read there.

    Attributes:
        write: the field's value to Slurm's, None for no key.
        read: Slurm's text to the field's value, None where the field is left out for it; raises
            ValueError with the reason why no value of the field is that text.
    """

    write: Callable[[Any], Any]
    read: Callable[[str], Any]


def _read_number(text: str) -> int:
    if not re.fullmatch("[0-9]{1,10}", text):
        raise ValueError("not a number")
    return int(text)


def _read_interval(text: str) -> str | None:
    length = _read_number(text)
    unit = max((n for n in UNITS.values() if length % n == 0), default=1)
    word = next(word for word, size in UNITS.items() if size == unit)
    return f"{length // unit}{word}" if length else None


def _read_time(text: str) -> str:
    if text.upper() in ("INFINITE", "UNLIMITED"):
        return INFINITE
    try:
        length = seconds(text)
    except CorralError as error:
        raise ValueError(error.message) from error
    if length is None:
        raise ValueError("not a length of time")
    return clock(length)


def _read_memory(text: str) -> int:
    mib = _read_number(text)
    if mib % 1024:
        raise ValueError("not a whole number of GiB")
    return mib // 1024


def _read_switch(text: str) -> bool | None:
    on = switch(text)
    if on is None:
        raise ValueError("neither yes nor no")
    return on or None


def _read_enable(text: str) -> bool:
    if text.lower() != "enable":
        raise ValueError("more than enable")
    return True


def read_licenses(text: str) -> Mapping[str, int]:
    """Names and numbers of local licences.

    Raises:
        ValueError: one of them cannot be written.
    """
    pairs = [each.partition(":") for each in text.split(",") if each]
    licenses = {name: count for name, _, count in pairs}
    if not _LICENSES.fullmatch(text) or len(licenses) < len(pairs):
        raise ValueError("not a list of names, each once with a number")
    return {name: int(count) for name, count in licenses.items()}


_FORMS: Final[Mapping[Form, _Form]] = MappingProxyType(
    {
        "value": _Form(lambda value: value, lambda text: text),
        "interval": _Form(lambda interval: interval_seconds(interval) or None, _read_interval),
        "time limit": _Form(max_time, _read_time),
        "MiB": _Form(lambda gib: gib * 1024, _read_memory),
        "sharing": _Form(
            lambda word: None if word == "no" else word.upper(),
            lambda text: None if text.lower() == "no" else text.lower(),
        ),
        "switch": _Form(lambda on: on or None, _read_switch),
        "enable": _Form(lambda on: "enable" if on else None, _read_enable),
        "state": _Form(
            lambda state: None if state == "up" else state.upper(),
            lambda text: None if text.lower() == "up" else text.lower(),
        ),
        "licenses": _Form(
            lambda licenses: [f"{each.name}:{each.count}" for each in licenses], read_licenses
        ),
    }
)


@cache
def keys_of_fields() -> tuple[Key, ...]:
    """The keys whose value is a field of the cluster file."""
    return tuple(key for key in all_keys() if key.field)


def settings_of_fields(spec: ClusterSpec) -> Iterator[Setting]:
    """Global keys whose value is a field of the cluster file, as the table of keys lists them."""
    for name, value in pairs_of_fields("", spec, keys_of_fields()):
        yield Setting(name, value)


def pairs_of_fields(line: str, model: object, keys: Iterable[Key]) -> Pairs:
    """Keys of a line whose value is a field of the cluster file.

    Args:
        line: NodeName, PartitionName, "" for global keys.
        model: the group, the partition, the cluster file.
        keys: keys that are fields.
    """
    pairs: list[tuple[str, str]] = []
    for key in keys:
        if key.line != line:
            continue
        value: Any = model
        for name in key.field.split(".")[1 if line else 0 :]:
            value = None if value is None else getattr(value, name)
        if value is not None:
            value = _FORMS[key.form].write(value)
        if text := written(value):
            pairs.append((key.name, text))
    return tuple(pairs)


def read_field(key: Key, text: str, model: type[BaseModel]) -> Any:
    """The value of a field by the text of its key in slurm.conf: what ``pairs_of_fields`` wrote.

    Args:
        key: the key, whose field is one of the model's own.
        text: what is written.
        model: what the entries of a line are: the group, the partition.

    Returns:
        The value; None where the field is left out for it.

    Raises:
        ValueError: no value of the field is that text; with the reason.
    """
    name = key.field.rpartition(".")[2]
    kind: Any = model.model_fields[name].annotation
    value = _plain(text, kind) if key.form == "value" else _FORMS[key.form].read(text)
    if value is None:
        return None
    try:
        _alone(model, name).model_validate({"value": value}, strict=True)
    except ValidationError as error:
        raise ValueError(error.errors(include_url=False)[0]["msg"]) from error
    return value


@cache
def _alone(model: type[BaseModel], name: str) -> type[BaseModel]:
    """A model of one field of another, without the others that it needs."""
    field = model.model_fields[name]
    return create_model("Alone", value=(field.annotation or Any, field))


def _plain(text: str, kind: Any) -> Any:
    """A text as the type that a field has: words, a number, yes or no, one word."""
    kinds = {kind, *get_args(kind)}
    if get_origin(kind) is tuple:
        return tuple(word for word in text.split(",") if word)
    if bool in kinds:
        return bool(_read_switch(text))
    return _read_number(text) if int in kinds else text


def written(value: object) -> str:
    """A field's value in Slurm's words, "" for none."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, tuple | list):
        return ",".join(map(str, cast("Sequence[object]", value)))
    return "" if value is None else str(value)
