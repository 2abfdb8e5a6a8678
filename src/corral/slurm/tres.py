"""Trackable resources and GPUs, out of every text in which Slurm writes them. Pure.

What a job has is in its TRES only where ``AccountingStorageTRES`` has gres/gpu. Elsewhere
``gres_detail`` has what each node gave it, and what it asks for is in one of four requests (per
job, node, socket, task), written in three ways: ``gres:gpu:h200:2`` (22.05), ``gres/gpu:h200:2``
(24.11) and ``gres/gpu:h200=2`` (24.11, per task). Recorded in ``tests/recorded/gpus``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

SUFFIXES: Final = "KMGTP"
"""Powers of 1024, in their order (``convert_num_unit`` of Slurm's slurm_protocol_api.c)."""
MEMORY: Final = r"[1-9][0-9]{0,11}[KMGTkmgt]?"
"""A pattern of sizes as --mem takes them, above 0; without a suffix MiB."""
_SIZE: Final = re.compile(rf"([0-9]{{1,15}}(?:\.[0-9]{{1,6}})?)([{SUFFIXES}]?)")


def scaled(text: str, *, bare: str = "") -> float | None:
    """A number with Slurm's suffix: ``1.50K`` is 1536; None for anything else.

    Args:
        text: as Slurm prints it.
        bare: the suffix of a number without one.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    suffix = match[2] or bare
    return float(match[1]) * (1 << 10 * (SUFFIXES.index(suffix) + 1 if suffix else 0))


def mib(text: str, *, bare: str = "M") -> float | None:
    """A size in MiB; None for anything else.

    Args:
        text: ``10G``, ``1.50T``.
        bare: the suffix of a size without one: MiB in TRES, ``""`` for bytes in what steps used.
    """
    size = scaled(text, bare=bare)
    return None if size is None else size / (1 << 20)


def memory_option(text: str) -> float | None:
    """A size as --mem takes it (``16g``, ``512MB``; no fractions), in MiB; None for others."""
    return None if "." in text else mib(text.upper().removesuffix("B"))


def entries(text: str) -> dict[str, str]:
    """A list of TRES, ``cpu=2,mem=4G,gres/gpu:h200=1``: what is given for each resource."""
    pairs = (part.split("=", 1) for part in text.split(",") if "=" in part)
    return {name.strip(): value.strip() for name, value in pairs}


def gres_option(text: str) -> str:
    """A request of GRES in a job's record, ``gres/gpu:h200:4``, as sbatch takes it."""
    parts = (part.strip() for part in text.split(","))
    return ",".join(part.removeprefix("gres/").removeprefix("gres:") for part in parts if part)


def counts(text: str) -> dict[str, int]:
    """Each resource's count, memory in MiB. What is not a number is left out."""
    amounts = {
        name: mib(value) if name == "mem" else scaled(value)
        for name, value in entries(text).items()
    }
    return {name: int(amount) for name, amount in amounts.items() if amount is not None}


_NOTE: Final = re.compile(r"\([^()]*\)")
"""Which ones: ``(IDX:0,2-3)``, ``(S:0-1)``; commas in it separate nothing."""
_COUNTED: Final = re.compile(r"\(CNT:(\d{1,9})\)")
"""How many, of a GRES without File in gres.conf: ``gpu:h200(CNT:2)`` (gres_stepmgr.c)."""
_INDEX: Final = re.compile(r"gpu[^,(]*\(IDX:([0-9,-]+)\)")
_NAMED: Final = re.compile(r"(?:gres[:/])?[a-z_]\w*(?:[:=][\w.-]+){0,2}")
_ITEM: Final = re.compile(r"(?:gres[:/])?gpu(?:$|(?=[:=]))")
_NUMBER: Final = re.compile(r"\d{1,9}")
_GRES: Final = re.compile(
    r"(?:gres[:/])?gpu(?:[:/](?P<type>[A-Za-z][^:,=]*))?(?:[:=](?P<count>\d+))?"
)
_TYPED: Final = re.compile(r"(?:(?P<type>[A-Za-z][^:,=]*):)?(?P<count>\d+)")


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs of a job.

    Attributes:
        count: those it has or had; before it starts, those it asks for.
        exact: False where it may get more: it asks by node and lets Slurm choose how many nodes, or
            takes nodes that nobody else may use, with all their GPUs.
    """

    count: int
    exact: bool = True

    def __str__(self) -> str:
        """``2``; ``2+`` for at least so many; ``?`` where nothing is known."""
        if self.exact:
            return str(self.count)
        return f"{self.count}+" if self.count else "?"


@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for, in Slurm's own words.

    Attributes:
        per_job, per_node, per_socket, per_task: lists of TRES.
        nodes: the fewest.
        most_nodes: the most; None where Slurm chooses.
        tasks: how many ranks.
        tasks_per_node: where that is asked for, else 0: more nodes are more tasks.
        tasks_per_gpu: ``--ntasks-per-gpu``, 0 for none.
        sockets: of each node.
        exclusive: the nodes are for this job alone.
    """

    per_job: str = ""
    per_node: str = ""
    per_socket: str = ""
    per_task: str = ""
    nodes: int = 1
    most_nodes: int | None = None
    tasks: int = 0
    tasks_per_node: int = 0
    tasks_per_gpu: int = 0
    sockets: int = 0
    exclusive: bool = False

    @property
    def _fixed(self) -> bool:
        """Whether the number of nodes is known before they are given."""
        most = self.most_nodes or max(self.tasks, 1)  # no node without a task
        return most <= max(self.nodes, 1)

    def gpus(self) -> Gpus:
        """The GPUs asked for (0 where none are)."""
        nodes, tasks = max(self.nodes, 1), max(self.tasks, 1)
        job, task = listed(self.per_job), listed(self.per_task)
        node, socket = listed(self.per_node), listed(self.per_socket)
        if job is not None:
            gpus = Gpus(job)
        elif task is not None:
            gpus = Gpus(task * tasks, self._fixed or not self.tasks_per_node)
        elif node is not None:
            gpus = Gpus(node * nodes, self._fixed)
        elif socket is not None:
            gpus = Gpus(socket * nodes * max(self.sockets, 1), self._fixed and self.sockets > 0)
        elif self.tasks_per_gpu:
            gpus = Gpus(-(-tasks // self.tasks_per_gpu), self._fixed or not self.tasks_per_node)
        else:
            return Gpus(0)
        return Gpus(gpus.count, gpus.exact and not self.exclusive)


@lru_cache(maxsize=8192)  # 10,000 nodes have few of these texts, and each change counts all
def listed(text: str) -> int | None:
    """GPUs in a list of TRES or GRES; None where it names none (``gres/gpu=0`` is a zero).

    ``gres/gpu=4,gres/gpu:h200=4`` are four: with ``=`` the entry without a type counts all types.
    ``gres/shard`` and ``mps`` are parts of GPUs that others have too, and no GPUs.
    """
    items = [_item(part) for part in _parts(text)]
    counts = [item for item in items if item is not None]
    if not counts:
        return None
    totals = [count for count, total in counts if total]
    return max(totals) if totals else sum(count for count, _ in counts)


def gres_count(text: str) -> int | None:
    """A count as gres.conf and slurm.conf have it (``4``, ``2K``); None for anything else."""
    count = None if "." in text else scaled(text.upper())
    return None if count is None else int(count)


def gres_of(text: str) -> list[tuple[str, str, int]]:
    """What a list of GRES states: name, type ("" for none) and count of each entry."""
    resources: list[tuple[str, str, int]] = []
    for part in _parts(text):
        words = [word for word in part.split(":") if word]
        if not words:
            continue
        count = gres_count(words[-1]) if len(words) > 1 else None
        kind = [word for word in words[1 : None if count is None else -1] if word != "no_consume"]
        resources.append((words[0].lower(), kind[0] if kind else "", 1 if count is None else count))
    return resources


def _parts(text: str) -> list[str]:
    """The entries of a list, without notes."""
    return [part.strip() for part in _NOTE.sub("", _COUNTED.sub(r":\1", text)).split(",")]


def _item(part: str) -> tuple[int, bool] | None:
    """Count of one entry, and whether it counts all types."""
    start = _ITEM.match(part)
    if start is None:
        return None
    words = re.split(r"[:=]", part[start.end() :])[1:]
    count = gres_count(words[-1]) if words else None
    kinds = words if count is None else words[:-1]
    return 1 if count is None else count, "=" in part and not kinds


def asked(text: str, *, named: bool) -> tuple[int, str] | None:
    """Count and type ("" for any) of GPUs that an option of sbatch asks for; None for others.

    Args:
        text: the option's value.
        named: it is a GRES, as --gres takes it (``gpu:h200:2``); else as --gpus does (``h200:2``).
    """
    match = (_GRES if named else _TYPED).fullmatch(text)
    return None if match is None else (int(match["count"] or 1), match["type"] or "")


def named(text: str, prefix: str = "") -> str | None:
    """A list that an option of sbatch asks for, each entry with its kind; None for another form.

    Args:
        text: the option's value: ``gpu:h200:2,license:1``.
        prefix: of each entry: ``gres/gpu:`` for the value of --gpus.
    """
    parts = [f"{prefix}{part}" for part in text.split(",")]
    parts = [part if part.startswith("gres") else f"gres/{part}" for part in parts]
    return ",".join(parts) if all(_NAMED.fullmatch(part) for part in parts) else None


def indices(detail: str) -> list[int] | None:
    """The GPUs in what a job was given of one node, ``gpu:h200:2(IDX:0,2-3)``.

    None where it has some and Slurm does not report which: ``gpu:2(CNT:2)``.
    """
    notes = _INDEX.findall(detail)
    if not notes and "gpu" in detail:
        return None
    return [number for note in notes for part in note.split(",") for number in _span(part)]


def _span(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1) if first.isdecimal() else range(0)


def recorded(tres: str) -> Gpus:
    """GPUs of a job that accounting keeps; unknown where its TRES name none.

    Without AccountingStorageTRES=gres/gpu they name none for any job (see ``gpus_settled``).
    """
    count = listed(tres)
    return Gpus(count or 0, exact=count is not None)


def of_type(gres: str, kind: str | None) -> int:
    """GPUs of a node's GRES that are of a type; of all types for None."""
    if kind is None:
        return listed(gres) or 0
    return sum(
        listed(part) or 0 for part in _parts(gres) if re.split(r"[:/=]", part)[1:2] == [kind]
    )


def requested(fields: Mapping[str, str]) -> str:
    """The TRES that a job asks for, GPUs among them, out of scontrol's fields of a job."""
    total = fields.get("ReqTRES", fields.get("TRES", ""))  # TRES until 23.02
    ask = Request(
        per_job=fields.get("TresPerJob", ""),
        per_node=fields.get("TresPerNode", ""),
        per_socket=fields.get("TresPerSocket", ""),
        per_task=fields.get("TresPerTask", ""),
        nodes=fewest_nodes(total) or _number(fields.get("NumNodes", "").partition("-")[0]),
        tasks=_number(fields.get("NumTasks", "")),
        tasks_per_gpu=_number(fields.get("NtasksPerTRES", "")),
        sockets=_number(fields.get("Socks/Node", "")),
    )
    count = ask.gpus().count
    return f"{total},gres/gpu={count}" if count and listed(total) is None else total


def fewest_nodes(requested: str) -> int:
    """The fewest nodes of the TRES that a job asks for; 0 where it names none."""
    return counts(requested).get("node", 0)


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def of_job(
    allocated: str,
    detail: Iterable[str],
    requested: str,
    ask: Request,
    *,
    waiting: bool,
    ended: bool = False,
) -> Gpus:
    """GPUs of a job: given, else requested.

    Args:
        allocated: its TRES; "" before it starts.
        detail: its GRES on each node, which slurmctld has while it runs.
        requested: the TRES it asks for.
        ask: how it asks.
        waiting: it has not begun.
        ended: it runs no more.
    """
    if not waiting:
        given = listed(allocated)
        each = [count for gres in detail if (count := listed(gres)) is not None]
        if given is not None or each:
            return Gpus(sum(each) if given is None else given)
    asked = ask.gpus()
    total = listed(requested)
    if total is not None:  # Slurm's own total is of the fewest nodes
        return Gpus(total, asked.exact)
    # Exclusive nodes gave it all their GPUs, and no record has how many.
    return Gpus(asked.count, exact=False) if ended and ask.exclusive else asked
