"""Arrays and sweeps: their numbers, their points, and the arguments of each point. Pure."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, join, sh
from corral.slurm.array_tasks import array_tasks

MOST_POINTS: Final = 100_000
_RANGE: Final = re.compile(r"(-?\d{1,7})\.\.(-?\d{1,7})")
_FIELD: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]{0,63})\}")

SweepKey = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]
SweepValue = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=4096)]


def _counted(sweep: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    count = count_points(sweep)
    if count > MOST_POINTS:
        raise ValueError(f"{count} points: {MOST_POINTS} are the most")
    return sweep


Sweep = Annotated[
    dict[SweepKey, Annotated[tuple[SweepValue, ...], Field(min_length=1)]], AfterValidator(_counted)
]


_HIGHEST: Final = 9_999_999


def _array(text: str) -> str:
    tasks = array_tasks(text)
    highest = max((span.stop - 1 for span in tasks.spans), default=0)
    if not tasks.exact or "%" in text or highest > _HIGHEST:
        raise ValueError("write numbers and ranges as Slurm does: 0-9, 1,5,7 or 0-8:2")
    indices(text)
    return text


ArrayIndices = Annotated[str, Field(max_length=500), AfterValidator(_array)]


def parse_sweep(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Values by name of ``lr=1e-3,3e-4`` and ``seed=0..9``.

    Raises:
        CorralError: USAGE, a text has another form, or a name is given twice.
    """
    sweep: dict[str, tuple[str, ...]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not values or key in sweep:
            twice = ": that name is given twice" if key in sweep else ""
            raise CorralError(
                Code.USAGE,
                f"--sweep {text}{twice or ' names no values'}",
                hint="write it as --sweep lr=1e-3,3e-4 or --sweep seed=0..9, each name once",
            )
        sweep[key] = tuple(value for part in values.split(",") for value in _values(part))
    return sweep


def _values(text: str) -> Sequence[str]:
    match = _RANGE.fullmatch(text)
    if not match:
        return (text,)
    first, last = int(match[1]), int(match[2])
    step = 1 if last >= first else -1
    return [str(number) for number in range(first, last + step, step)]


def count_points(sweep: Mapping[str, Sequence[str]]) -> int:
    """How many combinations there are, without making them."""
    return math.prod(map(len, sweep.values()))


def points(sweep: Mapping[str, Sequence[str]]) -> tuple[Mapping[str, str], ...]:
    """All combinations; the last name's values change fastest. None for an empty sweep."""
    if not sweep:
        return ()
    return tuple(
        dict(zip(sweep, combination, strict=True))
        for combination in itertools.product(*sweep.values())
    )


def indices(text: str) -> tuple[int, ...]:
    """Numbers of Slurm's array grammar ``0-9``, ``1,5,7``, ``0-8:2``, in order and each once."""
    chosen = array_tasks(text).numbers(MOST_POINTS)
    if not chosen:
        raise ValueError(f"{text} holds no number")
    return chosen


def point_lines(sweep: Mapping[str, Sequence[str]]) -> bytes:
    """The file of points: a line per point with its values, quoted for a shell."""
    lines = [str(sh("{values}", values=list(point.values()))) for point in points(sweep)]
    return "".join(f"{line}\n" for line in lines).encode()


def point_arguments(args: Sequence[str], names: Sequence[str]) -> Script:
    """The arguments as shell words in which ``$1`` and so on are the point's values.

    A ``{name}`` in an argument takes the value of that name; names that no argument takes are added
    as ``--name=VALUE``.
    """
    used: set[str] = set()
    words = [_word(arg, names, used) for arg in args]
    words += [
        sh("{flag}{value}", flag=f"--{name}=", value=_value(names.index(name)))
        for name in names
        if name not in used
    ]
    return join(words, " ")


def _word(arg: str, names: Sequence[str], used: set[str]) -> Script:
    parts: list[Script] = []
    at = 0
    for match in _FIELD.finditer(arg):
        if match[1] not in names:
            continue
        used.add(match[1])
        if arg[at : match.start()]:
            parts.append(sh("{text}", text=arg[at : match.start()]))
        parts.append(_value(names.index(match[1])))
        at = match.end()
    if arg[at:] or not parts:
        parts.append(sh("{text}", text=arg[at:]))
    return join(parts, "")


def _value(position: int) -> Script:
    return sh('"${{{number}}}"', number=position + 1)
