"""What Slurm's files declare and a cluster file cannot: one line each, for its comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from corral.slurm.adopt.rules.gres import declared
from corral.slurm.adopt.source import Kind
from corral.slurm.adopt.view import Existing, Row
from corral.slurm.conf.keys import keys_by_id

# Carried by a field of the cluster file, or by what Corral always writes.
_CARRIED: Final = frozenset(
    {
        "clustername", "slurmctldhost", "controlmachine", "controladdr", "authtype", "credtype",
        "accountingstoragetype", "accountingstoragehost", "authalttypes", "authaltparameters",
        "nodename", "partitionname", "grestypes",
    }
)  # fmt: skip
_NODE_KEYS: Final = frozenset(
    {
        "nodename", "nodeaddr", "cpus", "procs", "sockets", "corespersocket", "threadspercore",
        "boards", "socketsperboard", "realmemory", "gres", "feature", "features",
    }
)  # fmt: skip
_PARTITION_KEYS: Final = frozenset({"partitionname", "nodes", "default", "maxtime"})
# Values that are what Corral does anyway, by key of a node or partition line.
_SAME: Final = MappingProxyType(
    {
        "state": ("UNKNOWN", "IDLE", "UP"),
        "port": ("6818",),
        "allowgroups": ("ALL",), "allowaccounts": ("ALL",), "allowqos": ("ALL",),
        "hidden": ("NO",), "rootonly": ("NO",), "disablerootjobs": ("NO",), "reqresv": ("NO",),
        "exclusiveuser": ("NO",), "oversubscribe": ("NO",), "shared": ("NO",), "lln": ("NO",),
    }
)  # fmt: skip
_ACCESS: Final = frozenset(
    {"allowgroups", "allowaccounts", "denyaccounts", "allowqos", "denyqos", "rootonly",
     "allocnodes", "hidden"}
)  # fmt: skip
_SECRET: Final = re.compile(r"pass(word)?$", re.I)
# Written out, and what Slurm does anyway.
_DEFAULTS: Final = MappingProxyType(
    {"slurmctldport": "6817", "slurmdport": "6818", "switchtype": "switch/none"}
)


def left_out(existing: Existing) -> Iterator[str]:
    """Each thing that no field of the cluster file declares."""
    yield from _lines(existing)
    for placed, why in existing.slurm.lost:
        yield f"Include {comment(placed.line.include)}: {why}"
    for name in existing.controllers[1:]:
        yield f"SlurmctldHost={comment(name)}: a backup; Corral runs one controller"
    for row in existing.nodes:
        if row.broken:
            yield f"NodeName={comment(row.first.value)}: {comment(row.broken)}"
        yield from _strange(row)
    yield from _gres(existing)
    yield from _other_files(existing)


def _other_files(existing: Existing) -> Iterator[str]:
    for kind in (Kind.CGROUP, Kind.SLURMDBD):
        for placed in existing.confs[kind].lines:
            for pair in placed.line.pairs[:1]:
                known = (kind.value, "", pair.key.lower()) in keys_by_id()
                if not known and not _SECRET.search(pair.key):
                    yield f"{kind.value}: {pair.key}={comment(pair.value)}"
    for kind in (Kind.TOPOLOGY, Kind.PLUGSTACK, Kind.EXPORTS, Kind.TEMPLATE):
        for source in existing.of(kind):
            yield f"{comment(source.name)}: the cluster file has no place for it"


def _lines(existing: Existing) -> Iterator[str]:
    """What slurm.conf declares and the cluster file cannot; equal lines become one."""
    held = {"nodename": _NODE_KEYS, "partitionname": _PARTITION_KEYS}
    names_by_setting: dict[tuple[str, str, str], list[str]] = {}
    plain: list[str] = []
    for placed in existing.slurm.lines:
        if not placed.line.pairs:
            continue
        first = placed.line.pairs[0]
        key = first.key.lower()
        if key in held:
            for pair in placed.line.pairs[1:]:
                word = pair.key.lower()
                if word not in held[key] and pair.value.upper() not in _SAME.get(word, ()):
                    names_by_setting.setdefault((first.key, pair.key, pair.value), []).append(
                        first.value
                    )
        elif key in ("nodeset", "downnodes", "frontendname"):
            plain.append(comment(" ".join(f"{p.key}={p.value}" for p in placed.line.pairs)))
        elif key not in _CARRIED and not _SECRET.search(key):
            plain += _global(first.key, first.value)
    yield from plain
    for (line, key, value), names in names_by_setting.items():
        note = ": everybody may submit there" if key.lower() in _ACCESS else ""
        yield f"{line}={comment(','.join(dict.fromkeys(names)))} {key}={comment(value)}{note}"


def _global(key: str, value: str) -> Iterator[str]:
    known = keys_by_id().get(("slurm.conf", "", key.lower()))
    if _DEFAULTS.get(key.lower()) == value or (known and known.value == value):
        return
    text = f"{key}={comment(value)}"
    yield text if known is None else f"{text}: Corral writes {known.value}"


def _strange(row: Row) -> Iterator[str]:
    for name, kind, count in declared(row):
        if name != "gpu":
            text = ":".join(part for part in (name, kind, str(count)) if part)
            yield f"NodeName={comment(row.first.value)} Gres={comment(text)}"
    gpus = [f"{kind or 'gpu'} ({count})" for name, kind, count in declared(row) if name == "gpu"]
    if len(gpus) > 1:
        more = comment(", ".join(gpus[1:]))
        yield (
            f"NodeName={comment(row.first.value)}: GPUs of {len(gpus)} types, and a group has one; "
            f"without {more} its nodes lose them"
        )


def _gres(existing: Existing) -> Iterator[str]:
    """GPUs of gres.conf that no node line offers."""
    offering = any(name == "gpu" for row in existing.nodes for name, _, _ in declared(row))
    for line in existing.gres:
        if line.text("Name").lower() != "gpu" or (offering and not line.names):
            continue
        nodes = [existing.node_index.get(name) for name in line.names]
        if any(row and any(n == "gpu" for n, _, _ in declared(row)) for row in nodes):
            continue
        text = " ".join(f"{p.key}={p.value}" for p in line.first.placed.line.pairs)
        yield f"gres.conf: {comment(text)}: no node line offers it; write gpu: in its group"


def comment(text: str) -> str:
    """A text as it may appear in a comment."""
    return "".join(c if c.isprintable() else "?" for c in text)[:200]
