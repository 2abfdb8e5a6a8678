"""Reads what nccl-tests wrote with ``-J FILE`` (2.17.7 and later).

The file holds the environment of the run, which may hold secrets: it is never kept nor shown.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from corral.errors import Code, CorralError
from corral.prove.fabric.consistency import named, settled
from corral.prove.fabric.model import Rank, Row, Table, Timing

_WORDS: Final = ("nan", "-nan", "inf", "-inf")


def _float_word(value: Any) -> Any:
    """nccl-tests writes a value that is not a number as text."""
    return float(value) if isinstance(value, str) and value.lower() in _WORDS else value


def _padded(value: Any) -> Any:
    """A rank is written as text, with the blanks of the printed table."""
    return int(value) if isinstance(value, str) else value


_Float = Annotated[float, BeforeValidator(_float_word)]
_Text = Annotated[str, StringConstraints(max_length=400)]


class _File(BaseModel):
    """An object of the file; what is not read here may have any form."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class _Timing(_File):
    time: _Float = Field(validation_alias=AliasChoices("time", "cpu_time"))
    alg_bw: _Float
    bus_bw: _Float
    nwrong: _Float | None


class _Result(_File):
    size: int
    count: int
    type: _Text
    redop: _Text
    root: Annotated[int, BeforeValidator(_padded)]
    out_of_place: _Timing | None = None
    in_place: _Timing | None = None


class _Device(_File):
    rank: int
    hostname: _Text
    device_info: _Text


class _Config(_File):
    nthreads: int = 1
    ngpus: int = 1
    maximum_bytes: int = 0
    devices: tuple[_Device, ...] = ()


class _Bounds(_File):
    count: int


class _Average(_File):
    # 2.17.7 to 2.17.9 misspelled both names (util.cu).
    bandwidth: _Float = Field(validation_alias=AliasChoices("bandwidth", "bandwidith"))


class _Run(_File):
    """The file."""

    args: tuple[str, ...] = ()
    config: _Config
    results: tuple[_Result, ...]
    out_of_bounds: _Bounds | None = None
    average: _Average | None = Field(
        None,
        validation_alias=AliasChoices("average_bus_bandwidth", "average_bus_bandwidith"),
    )


def read_json(text: str) -> tuple[Table, ...]:
    """The table of one such file.

    Raises:
        CorralError: PARSE_FAILED: no JSON, cut, not of nccl-tests, or it contradicts itself.
    """
    try:
        run = _Run.model_validate_json(text)
    except ValidationError as error:
        # The input is left out: it may hold the run's environment.
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise _broken(f"{place}: {first['msg']}" if place else first["msg"]) from None
    return (_table(run, cpu='"cpu_time"' in text),)


def _table(run: _Run, *, cpu: bool) -> Table:
    collective = named(run.args[0]) if run.args else None
    devices = run.config.devices
    # 2.19.6 lists the first GPU of a process only, where one process drives several (-g, -t).
    each = max(run.config.nthreads * run.config.ngpus, 1)
    complete = {d.rank for d in devices} == set(range(len(devices))) and len(devices) % each == 0
    members = tuple(Rank(d.rank, d.hostname, d.device_info) for d in devices) if complete else ()
    return settled(
        Table(
            rows=tuple(_row(result) for result in run.results),
            collective=collective,
            certain=collective is not None,
            ranks=len(members),
            members=members,
            out_of_bounds=run.out_of_bounds.count if run.out_of_bounds else None,
            average=run.average.bandwidth if run.average else None,
            complete=run.average is not None and run.out_of_bounds is not None,
        ),
        largest=run.config.maximum_bytes,
        cpu=cpu,
    )


def _row(result: _Result) -> Row:
    return Row(
        0,
        result.size,
        result.count,
        result.type,
        result.redop,
        result.root,
        _timing(result.out_of_place),
        _timing(result.in_place),
    )


def _timing(timing: _Timing | None) -> Timing | None:
    if timing is None:
        return None
    return Timing(timing.time, timing.alg_bw, timing.bus_bw, wrong=timing.nwrong)


def _broken(what: str) -> CorralError:
    return CorralError(
        Code.PARSE_FAILED,
        f"this is not a complete file of nccl-tests -J: {what}",
        hint="give the file that nccl-tests wrote with -J, from a run that ended",
    )
