"""A cluster file from Slurm's own files: what can be carried over, and by name what cannot."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from corral.errors import CorralError
from corral.slurm.adopt.plain import words_of
from corral.slurm.adopt.rules.gres import declared
from corral.slurm.adopt.source import Kind
from corral.slurm.adopt.view import Existing, Row, expanded
from corral.slurm.conf.hostlist import fold_in_order
from corral.slurm.conf.keys import KEYS
from corral.slurm.duration import clock, seconds

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
        "boards", "socketsperboard", "realmemory", "gres", "feature", "features", "state", "port",
    }
)  # fmt: skip
_PARTITION_KEYS: Final = frozenset({"partitionname", "nodes", "default", "maxtime", "state"})
_SECRET: Final = re.compile(r"pass(word)?$", re.I)
_BAD: Final = re.compile(r"[^a-z0-9-]+")
_HIGHEST_DAYS: Final = 999
# Written out, and what Slurm does anyway.
_DEFAULTS: Final = MappingProxyType(
    {"slurmctldport": "6817", "slurmdport": "6818", "switchtype": "switch/none"}
)


@dataclass(frozen=True, slots=True)
class _Group:
    names: tuple[str, ...]
    gpu: tuple[str, int] | None
    features: tuple[str, ...]
    partitions: tuple[str, ...]


def cluster_file(existing: Existing, given: Existing | None = None) -> str:
    """A cluster file for the machines that the files speak of.

    Args:
        existing: at least a slurm.conf with nodes; hosts and facts give addresses.
        given: the files as they were, when ``existing`` is corrected: what they said is named.

    Returns:
        YAML text. What could not be carried over stands at its end as comments, each with the
        reason. No password is in it. Whether it loads is for the caller to see.
    """
    groups = _groups(existing)
    ids = _group_names(groups)
    lines = [*_head(existing), *_machines(existing, groups, ids)]
    lines += [*_partitions(existing, groups, ids), *_storage(existing)]
    lost = list(dict.fromkeys(_lost(given or existing)))
    if lost:
        lines += ["", "# Not carried over:", *(f"#   {one}" for one in lost)]
    return "\n".join(lines) + "\n"


def _head(existing: Existing) -> Iterator[str]:
    slurm = existing.slurm
    yield f"# Made by corral init --existing from {_comment(slurm.source.name)}."
    yield "#"
    yield "#   corral lint FILE            what is wrong with this file"
    yield "#   corral up FILE --rehearse   try all of it in containers on this machine first"
    yield "#   corral plan FILE            what would be done to the machines"
    yield "corral: v1"
    yield f"name: {_name(slurm.text('ClusterName') or 'cluster')}"
    yield "slurm:"
    if existing.version:
        yield f'  version: ">={existing.version.release}"'
    auth = slurm.text("AuthType", "auth/munge").rpartition("/")[2]
    if auth in ("munge", "slurm"):
        yield f"  auth: {auth}"
    accounting = slurm.text("AccountingStorageType").lower().endswith("slurmdbd")
    yield f"  accounting: {'true' if accounting else 'false'}"
    yield f"  rest: {'true' if 'jwt' in slurm.text('AuthAltTypes').lower() else 'false'}"


def _machines(existing: Existing, groups: list[_Group], ids: dict[_Group, str]) -> Iterator[str]:
    addresses = _addresses(existing)
    yield "groups:"
    for group in groups:
        yield f"  - name: {ids[group]}"
        yield "    provider: ssh"
        yield f"    nodes: {_scalar(fold_in_order(group.names))}"
        known = [addresses.get(name, "") for name in group.names]
        if all(known):
            yield f"    addresses: {_scalar(fold_in_order(known))}"
        else:
            yield "    # addresses: ...          # not known: names are left to your ssh config"
        if group.gpu:
            yield "    gpu:"
            yield f"      type: {_gpu_type(group.gpu[0])}"
            yield f"      count: {group.gpu[1]}"
        if group.features:
            yield f"    features: [{', '.join(map(_scalar, group.features))}]"
        yield "    ssh:"
        yield "      user: root                # root, or a user with sudo"
    controllers = existing.controllers
    if controllers and controllers[0] in existing.node_names:
        yield f"controller: {_scalar(controllers[0])}"


def _partitions(existing: Existing, groups: list[_Group], ids: dict[_Group, str]) -> Iterator[str]:
    rows = existing.partitions
    if not rows:
        return
    yield "partitions:"
    defaulted = False
    for row in rows:
        held = [ids[group] for group in groups if row.first.value in group.partitions]
        if not held:
            continue
        yield f"  - name: {_name(row.first.value)}"
        yield f"    groups: [{', '.join(held)}]"
        if row.text("Default").lower() in ("yes", "1", "true") and not defaulted:
            defaulted = True
            yield "    default: true"
        yield f'    max_time: "{_time(row.text("MaxTime", "INFINITE"))}"'


def _time(text: str) -> str:
    try:
        total = seconds(text)
    except CorralError:
        return "infinite"
    return "infinite" if total is None else clock(min(total, _HIGHEST_DAYS * 86400))


def _storage(existing: Existing) -> Iterator[str]:
    mounts = [
        words
        for source in existing.of(Kind.FSTAB)
        for _, words in words_of(source)
        if len(words) >= 4 and words[2].text in ("nfs", "nfs4", "lustre", "beegfs")  # noqa: PLR2004
    ]
    if mounts:
        yield "storage:"
    for words in mounts:
        yield f"  - mount: {_scalar(words[1].text)}"
        yield "    kind: existing"


def _groups(existing: Existing) -> list[_Group]:
    """Nodes that are alike in GPUs, features and partitions, in order of first appearance."""
    found: dict[tuple[object, ...], list[str]] = {}
    for row in existing.nodes:
        gpus = [(kind, count) for name, kind, count in declared(row) if name == "gpu"]
        features = tuple(f for f in (row.text("Feature") or row.text("Features")).split(",") if f)
        for name in row.names:
            key = (gpus[0] if gpus else None, features, _in(existing, name))
            found.setdefault(key, []).append(name)
    return [_Group(tuple(names), *key) for key, names in found.items()]  # type: ignore[arg-type]


def _in(existing: Existing, name: str) -> tuple[str, ...]:
    return tuple(
        row.first.value
        for row in existing.partitions
        if name in (names := expanded(row.text("Nodes"))) or "ALL" in {n.upper() for n in names}
    )


def _group_names(groups: list[_Group]) -> dict[_Group, str]:
    ids: dict[_Group, str] = {}
    for group in groups:
        base = _name(_gpu_type(group.gpu[0]) if group.gpu else "cpu", "gpu")
        name, at = base, 2
        while name in ids.values():
            name, at = f"{base}-{at}", at + 1
        ids[group] = name
    return ids


def _addresses(existing: Existing) -> dict[str, str]:
    """Addresses by node: NodeAddr, facts, hosts."""
    table: dict[str, str] = {}
    for hosts in existing.hosts.values():
        for host in hosts:
            for spot in () if host.loopback else host.names:
                table.setdefault(spot.text, host.address.text)
    table |= {m.name: m.addresses[0] for m in existing.machines.values() if m.addresses}
    for row in existing.nodes:
        known = expanded(row.text("NodeAddr"))
        if len(known) == len(row.names):
            table |= dict(zip(row.names, known, strict=True))
    return table


def _lost(existing: Existing) -> Iterator[str]:
    yield from _lines_lost(existing)
    if existing.controllers and existing.controllers[0] not in existing.node_names:
        name = _comment(existing.controllers[0])
        yield f"controller {name}: it is no node here; declare it as one"
    for row in existing.nodes:
        yield from _strange(row)
    for kind in (Kind.CGROUP, Kind.SLURMDBD):
        for placed in existing.confs[kind].lines:
            for pair in placed.line.pairs[:1]:
                known = (kind.value, "", pair.key.lower()) in KEYS
                if not known and not _SECRET.search(pair.key):
                    yield f"{kind.value}: {pair.key}={_comment(pair.value)}"
    for kind in (Kind.TOPOLOGY, Kind.PLUGSTACK, Kind.EXPORTS):
        for source in existing.of(kind):
            yield f"{_comment(source.name)}: the cluster file has no place for it"


def _lines_lost(existing: Existing) -> Iterator[str]:
    """What slurm.conf says and the cluster file cannot."""
    held = {"nodename": _NODE_KEYS, "partitionname": _PARTITION_KEYS}
    for placed in existing.slurm.lines:
        if not placed.line.pairs:
            continue
        first = placed.line.pairs[0]
        key = first.key.lower()
        if key in held:
            for pair in placed.line.pairs:
                if pair.key.lower() not in held[key]:
                    yield f"{first.key}={_comment(first.value)} {pair.key}={_comment(pair.value)}"
        elif key not in _CARRIED and not _SECRET.search(key):
            yield from _global(first.key, first.value)


def _global(key: str, value: str) -> Iterator[str]:
    known = KEYS.get(("slurm.conf", "", key.lower()))
    if _DEFAULTS.get(key.lower()) == value or (known and known.value == value):
        return
    text = f"{key}={_comment(value)}"
    yield text if known is None else f"{text}: Corral writes {known.value}"


def _strange(row: Row) -> Iterator[str]:
    for name, kind, count in declared(row):
        if name != "gpu":
            text = ":".join(part for part in (name, kind, str(count)) if part)
            yield f"NodeName={_comment(row.first.value)} Gres={_comment(text)}"
    gpus = [kind for name, kind, _ in declared(row) if name == "gpu"]
    if len(gpus) > 1:
        yield f"NodeName={_comment(row.first.value)}: GPUs of {len(gpus)} types; the first is kept"


def _gpu_type(kind: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", kind.lower()).strip("-") or "gpu"


def _name(text: str, default: str = "cluster") -> str:
    """A name the cluster file takes, as near as can be."""
    made = _BAD.sub("-", text.lower()).lstrip("-0123456789")[:40].rstrip("-")
    return made or default


def _scalar(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z/][A-Za-z0-9_./-]*", text) and text.lower() not in (
        "yes", "no", "true", "false", "on", "off", "null", "y", "n",
    )  # fmt: skip
    return text if plain else json.dumps(text)


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:200]
