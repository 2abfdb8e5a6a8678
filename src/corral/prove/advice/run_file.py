"""The file that describes a training run for ``corral advise``, and how it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter

from corral.durations import interval_seconds
from corral.errors import BAD_JSON
from corral.prove.advice.run_records import step_of_history, step_of_profile
from corral.prove.fabric.hardware import known_hardware
from corral.prove.measure.cost import Compute, Cost
from corral.spec.load import read_model
from corral.spec.providers import CloudName
from corral.spec.sections.cloud import Duration, OfferType, Region
from corral.spec.tree import Path as Place
from corral.spec.values import Model as SpecModel

BYTES: Final = {"float32": 4, "bfloat16": 2, "float16": 2}
LEAST: Final = 1e-6
MOST: Final = 1e24
"""Of numbers in the file: beyond any run, and products and quotients of them are finite."""
HINT: Final = "the guide has one to start from: What would it cost to train this?"


class Source(NamedTuple):
    """A file with the time that a step takes.

    Attributes:
        what: it is.
        made_by: the command that makes it.
        hint: what it has to be.
        note: about the step's time.
    """

    what: str
    made_by: str
    hint: str
    note: str = ""


SOURCES: Final[Mapping[str, Source]] = MappingProxyType(
    {
        "record": Source(
            "a record with figures of GPUs",
            "corral bench scaling --json > FILE",
            "it is what corral bench scaling --json printed, of nodes with GPUs",
        ),
        "history": Source(
            "the metrics of a run",
            "python -m corral.track history RUN METRIC > FILE",
            "log a metric with its step at least every few steps, on one node",
            "the median of a run's logged steps",
        ),
        "profile": Source(
            "the profile of a job on the node",
            "corral profile JOB",
            "it is summary.json of corral profile, of a job with one rank for each GPU of one node",
            "of a profile, which makes steps longer",
        ),
    }
)


def _field(meaning: str, **more: Any) -> Any:
    return Field(description=meaning, **more)


class Model(SpecModel):
    """A part of the file: numbers are finite."""

    model_config = ConfigDict(allow_inf_nan=False)


class Measured(Model):
    """A step on one node."""

    gpu: OfferType = _field("Words of the GPU's name, as `corral offers` shows it: H100 SXM.")
    gpus: int | None = _field("GPUs of that node.", default=None, ge=1, le=1024)
    step: float | None = _field("Seconds of a step on that node.", default=None, ge=LEAST, le=MOST)
    record: str | None = _field(
        "Output of `corral bench scaling --json`, in place of gpus and step.",
        default=None,
        min_length=1,
    )
    history: str | None = _field(
        "Metrics of a run on that node as `corral.track history` prints them, in place of step.",
        default=None,
        min_length=1,
    )
    profile: str | None = _field(
        "summary.json of `corral profile`, of a job on that node, in place of step.",
        default=None,
        min_length=1,
    )
    gbps: float | None = _field(
        "Rate in Gb/s of the network that the record was measured on.",
        default=None,
        ge=LEAST,
        le=MOST,
    )
    memory_gib: float | None = _field("Memory of one such GPU.", default=None, ge=LEAST, le=MOST)


class OtherGpu(Model):
    """Another GPU, by your own measurement."""

    name: OfferType = _field("Words of the GPU's name, as `corral offers` shows it.")
    speed: float | None = _field(
        "Times as fast as the measured GPU.", default=None, ge=LEAST, le=MOST
    )
    memory_gib: float | None = _field("Memory of one GPU.", default=None, ge=LEAST, le=MOST)


class OnOffers(Model):
    """What an entry is about."""

    provider: CloudName | None = _field("Only this cloud's machines.", default=None)
    type: OfferType | None = _field("Only machines of this type.", default=None)


class Link(OnOffers):
    """The network between nodes."""

    gbps: float | None = _field(
        "Rate in Gb/s of all of a node's interfaces that carry it.", default=None, ge=LEAST, le=MOST
    )
    hardware: OfferType | None = _field(
        "Its name in Corral's table of networks, as for `corral bench run --hardware`.",
        default=None,
    )
    message_us: float | None = _field("Microseconds of one message.", default=None, ge=0, le=MOST)


class Interruptions(OnOffers):
    """How often a cloud takes machines back, or they fail."""

    every: Duration = _field("Mean time between interruptions of one node.")


class Checkpoint(Model):
    """How the run saves its state."""

    takes: Duration = _field("Time that a checkpoint holds the training up.")
    every: Duration | None = _field(
        "Time between two; left out: the best by Young's formula.", default=None
    )


class Storage(Model):
    """A file system for the time of the run."""

    gib: float = _field("Its size.", ge=LEAST, le=MOST)
    per_gib_month: float = _field("Dollars of one GiB in a month.", ge=0, le=MOST)


class TrainingFile(Model):
    """A training run: what is to be done, what was measured, what is allowed."""

    steps: int | None = _field("Steps of the run.", default=None, ge=1, le=10**24)
    tokens: float | None = _field(
        "Tokens of the run, in place of steps.", default=None, ge=LEAST, le=MOST
    )
    tokens_per_step: float | None = _field(
        "Tokens of the measured step; a record has its own.", default=None, ge=LEAST, le=MOST
    )
    batch: Literal["fixed", "grows"] = _field(
        "fixed: more GPUs share each step. grows: each GPU keeps its part, so that steps are "
        "larger and fewer; another training, whose result only you can judge.",
        default="fixed",
    )
    parameters: float | None = _field(
        "Parameters of the model; a record has its own.", default=None, ge=LEAST, le=MOST
    )
    dtype: Literal["float32", "bfloat16", "float16"] = _field(
        "Type of the gradients that nodes exchange; a record has its own.", default="float32"
    )
    gpu_memory_gib: float | None = _field(
        "Memory that each GPU needs.", default=None, ge=LEAST, le=MOST
    )
    measured: Measured = _field("A step on one node.")
    gpus: tuple[OtherGpu, ...] = _field("Other GPUs, by your own measurements.", default=())
    speed_from_peaks: bool = _field(
        "Assume of GPUs that you did not measure the speed of their data sheets (bfloat16).",
        default=False,
    )
    links: tuple[Link, ...] = _field(
        "Networks between nodes; the first entry that fits a machine counts.", default=()
    )
    interruptions: tuple[Interruptions, ...] = _field(
        "Interruptions of machines; the first entry that fits a machine counts.", default=()
    )
    checkpoint: Checkpoint | None = _field("How the run saves its state.", default=None)
    start: Duration | None = _field(
        "Time from the launch until the training runs, also after an interruption.", default=None
    )
    deadline: Duration = _field("Time that all of it may take.")
    budget: float | None = _field(
        "Dollars that all of it may cost.", default=None, ge=LEAST, le=MOST
    )
    nodes: int = _field("The most nodes.", default=8, ge=1, le=256)
    providers: tuple[CloudName, ...] = _field("Only these clouds; left out: all.", default=())
    regions: tuple[Region, ...] = _field("Only these regions; left out: all.", default=())
    storage: Storage | None = _field("A file system for the time of the run.", default=None)


@dataclass(frozen=True, slots=True)
class Workload:
    """What was measured on one node, from the file or from a record.

    Attributes:
        gpus: of that node.
        alone: seconds of a step there.
        peers: what a step computes on several nodes, without traffic.
        size: bytes of the gradients.
        tokens: of a step on that node; None where that is not known.
        cost: the network as measured; None without a record.
        device: the GPU as the record names it, "" without one.
        gbps: rate of the network that the record was measured on; 0 where it is not known.
        basis: what is to be known of the step's time, "" for nothing.
    """

    gpus: int
    alone: float
    peers: Compute
    size: float
    tokens: float | None
    cost: Cost | None = None
    device: str = ""
    gbps: float = 0.0
    basis: str = ""


def read_training(path: Path) -> tuple[TrainingFile, Workload]:
    """Read the file of a training run, and the record that it names.

    Args:
        path: the file; a record's path is relative to its folder.

    Raises:
        SpecInvalidError: it has errors, each with line and column.
    """
    workloads: list[Workload] = []

    def rules(file: TrainingFile) -> Iterator[tuple[Place, str, str]]:
        yield from _rules(file)
        field, name = _file_of(file.measured)
        if field and (field == "record" or file.measured.gpus is not None):
            source = SOURCES[field]
            try:
                workloads.append(_read(file, field, path.parent / name))
            except OSError as error:
                hint = f"make it by: {source.made_by}"
                yield ("measured", field), f"it cannot be read: {error.strerror}", hint
            except (*BAD_JSON, ZeroDivisionError) as error:
                yield ("measured", field), f"not {source.what}: {error}", source.hint

    file = read_model(path, TrainingFile, rules, HINT)
    if not workloads:
        return file, _declared(file, file.measured.step or 0.0)
    return file, replace(workloads[0], gbps=file.measured.gbps or 0.0)


def _file_of(measured: Measured) -> tuple[str, str]:
    """Field and name of the first file that has the step's time; "" for none."""
    return next(
        ((field, name) for field in SOURCES if (name := getattr(measured, field)) is not None),
        ("", ""),
    )


def _read(file: TrainingFile, field: str, path: Path) -> Workload:
    """The workload that a file of ``SOURCES`` describes.

    Raises:
        OSError: it cannot be read.
        ValueError, LookupError, TypeError: it is not such a file.
    """
    if field == "record":
        return _recorded(path)
    gpus = file.measured.gpus or 1
    step = step_of_history(path) if field == "history" else step_of_profile(path, gpus)
    if not LEAST <= step <= MOST:
        raise ValueError(f"a step of {step} s")
    return replace(_declared(file, step), basis=f"a step takes {step:.3g} s: {SOURCES[field].note}")


def _rules(file: TrainingFile) -> Iterator[tuple[Place, str, str]]:
    if (file.steps is None) == (file.tokens is None):
        yield (), "the file must have either steps or tokens", "write one of the two"
    yield from _one_step(file.measured)
    recorded = file.measured.record is not None
    needed: dict[Place, float | None] = {
        ("parameters",): file.parameters,
        ("measured", "gpus"): file.measured.gpus,
    }
    if recorded or not _file_of(file.measured)[0]:
        needed["measured", "step"] = file.measured.step
    for place, value in needed.items():
        if recorded and value is not None:
            yield place, f"{place[-1]} is in the record too", "remove it here"
        elif not recorded and value is None:
            yield place, f"without a record {place[-1]} must be there", f"add {place[-1]}"
    if recorded and file.tokens_per_step is not None:
        yield ("tokens_per_step",), "tokens_per_step is in the record too", "remove it here"
    if not recorded and file.tokens is not None and file.tokens_per_step is None:
        yield ("tokens",), "how many steps are these?", "add tokens_per_step, of the measured step"
    yield from _links(file)
    yield from _no_time(file)


def _one_step(measured: Measured) -> Iterator[tuple[Place, str, str]]:
    """One source of the step's time; what a record has is reported elsewhere."""
    first, _ = _file_of(measured)
    for field in ("step", *SOURCES):
        given = first not in ("", field) and getattr(measured, field) is not None
        if given and (first, field) != ("record", "step"):
            yield ("measured", field), f"{first} gives the step too", "write one of the two"


def _links(file: TrainingFile) -> Iterator[tuple[Place, str, str]]:
    for number, link in enumerate(file.links):
        if (link.gbps is None) == (link.hardware is None):
            yield ("links", number), "a link has either gbps or hardware", "write one of the two"
        if link.hardware is not None and link.hardware not in known_hardware():
            names = f"one of {', '.join(known_hardware())}"
            yield ("links", number, "hardware"), f"no network is called {link.hardware}", names


def _no_time(file: TrainingFile) -> Iterator[tuple[Place, str, str]]:
    """Lengths of time that cannot be 0."""
    lengths: dict[Place, str | None] = {
        ("deadline",): file.deadline,
        ("checkpoint", "every"): file.checkpoint.every if file.checkpoint else None,
        ("checkpoint", "takes"): file.checkpoint.takes if file.checkpoint else None,
        **{("interruptions", n, "every"): i.every for n, i in enumerate(file.interruptions)},
    }
    for place, length in lengths.items():
        if length is not None and not interval_seconds(length):
            yield place, f"{place[-1]} must be more than 0", "such as 30m or 72h"


def _declared(file: TrainingFile, step: float) -> Workload:
    measured = file.measured
    size = (file.parameters or 0.0) * BYTES[file.dtype]
    compute = Compute(0.0, 0.0, 0.0, step, step)
    return Workload(measured.gpus or 1, step, compute, size, file.tokens_per_step)


def _recorded(path: Path) -> Workload:
    """What ``corral bench scaling --json`` printed: plain DDP, on one node and on the fewest."""
    figures = json.loads(path.read_bytes())["figures"]
    per_node, plain = int(figures["ranks_per_node"]), _plain(figures["trained"])
    if figures["device"] == "cpu":
        raise ValueError("it was measured without GPUs")
    if per_node < 1 or per_node not in plain:
        raise ValueError("plain DDP was not measured on one node")
    several = [ranks for ranks in plain if ranks > per_node]
    computes = TypeAdapter(dict[int, Compute]).validate_python(
        {ranks: entry["compute"] for ranks, entry in plain.items()}
    )
    # Fitted only where two nodes were measured; else the file's links are all that is known.
    cost = TypeAdapter(Cost).validate_python(figures["cost"]) if several else None
    alone = float(plain[per_node]["seconds"])
    times = (alone, *(t for compute in computes.values() for t in astuple(compute)))
    times = (*times, *astuple(cost or Cost(0.0, 0.0)))
    if not LEAST <= alone <= MOST or not all(abs(time) <= MOST for time in times):
        raise ValueError("it has times that cannot be")
    size, tokens = float(figures["size"]), float(figures["tokens"])
    if not 0 <= size <= MOST or not (tokens == 0 or LEAST <= tokens <= MOST):
        raise ValueError("it has a size or tokens that cannot be")
    return Workload(
        per_node,
        alone,
        computes[min(several, default=per_node)],
        size,
        tokens * per_node,
        cost,
        str(figures["device"]),
    )


def _plain(trained: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Plain DDP by number of ranks."""
    return {int(entry["ranks"]): entry for entry in trained if entry["way"] == "ddp"}
