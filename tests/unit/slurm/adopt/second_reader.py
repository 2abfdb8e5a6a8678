"""A second reader of slurm.conf and gres.conf: what nodes offer and what a job can hold.

It shares no code with ``src``: fixes and adopted files are compared with it. Rules are those of
Slurm's read_config.c, gres.c and partition_mgr.c (21.08), read again for this.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

_PAIR = re.compile(r'\s*([\w.]+)\s*[-+*/]?=\s*("[^"]*"|\S+)')
_BRACKETS = re.compile(r"\[([^\]]*)\]")
ACCESS = (
    "allowgroups", "allowaccounts", "denyaccounts", "allowqos", "denyqos", "hidden", "rootonly",
    "allocnodes", "reqresv", "exclusiveuser",
)  # fmt: skip


@dataclass(frozen=True)
class Offer:
    """What one node has for jobs."""

    cpus: int
    cores: int
    memory: int
    gres: Mapping[tuple[str, str], int]
    features: frozenset[str]
    state: str
    address: str


@dataclass(frozen=True)
class Queue:
    """What one partition gives to a job that asks for nothing.

    ``memory``: MiB, "node" for all of a node's memory, "free" where memory is not a resource.
    """

    nodes: frozenset[str]
    access: tuple[tuple[str, str], ...]
    exclusive: bool
    memory: str
    state: str


@dataclass
class Reading:
    """All that the files declare."""

    keys: dict[str, list[str]] = field(default_factory=dict)
    nodes: dict[str, Offer] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    devices: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    everywhere: Counter[tuple[str, str]] = field(default_factory=Counter)
    sets: dict[str, set[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    lines: dict[str, dict[str, str]] = field(default_factory=dict)

    def last(self, key: str, default: str = "") -> str:
        return self.keys.get(key.lower(), [default])[-1]


def logical(text: str) -> Iterator[str]:
    held = ""
    for line in text.lstrip("\ufeff").splitlines():
        body = re.split(r"(?<!\\)#", line, maxsplit=1)[0].rstrip()
        if body.endswith("\\"):
            held += body[:-1] + " "
            continue
        yield held + body
        held = ""
    if held:
        yield held


def hosts(text: str) -> list[str]:
    """Names of a hostlist."""
    names: list[str] = []
    for part in re.findall(r"(?:\[[^\]]*\]|[^,\[])+", text):
        pieces = _BRACKETS.split(part)
        choices = [
            [piece] if at % 2 == 0 else list(_numbers(piece)) for at, piece in enumerate(pieces)
        ]
        names += ["".join(name) for name in itertools.product(*choices)]
    return names


def _numbers(text: str) -> Iterator[str]:
    for item in text.split(","):
        low, _, high = item.partition("-")
        if not low.isdigit() or not (high or low).isdigit():
            yield f"[{item}]"
            continue
        for number in range(int(low), int(high or low) + 1):
            yield str(number).zfill(len(low))


def gres_of(text: str) -> Counter[tuple[str, str]]:
    gres: Counter[tuple[str, str]] = Counter()
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        words = [w for w in part.split(":") if w and w != "no_consume"]
        if not words or words[0].lower() == "(null)":
            continue
        count = 1
        if len(words) > 1 and (match := re.fullmatch(r"(\d+)([kKmMgG]?)", words[-1])):
            count = int(match[1]) * {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}[match[2].lower()]
            words.pop()
        gres[words[0].lower(), ":".join(words[1:])] += count
    return gres


def read(files: Mapping[str, str]) -> Reading:
    """Read files by name, slurm.conf first; included ones by the last part of their path."""
    seen = Reading()
    rows: dict[str, list[dict[str, str]]] = {"nodename": [], "partitionname": [], "nodeset": []}
    defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}
    for line in _lines(files, "slurm.conf", seen, ()):
        pairs = [(k.lower(), v.strip('"')) for k, v in _PAIR.findall(line)]
        if not pairs:
            continue
        (first, value), row = pairs[0], dict(pairs)
        if first not in defaults:
            seen.keys.setdefault(first, []).append(value)
        if value.upper() == "DEFAULT":
            defaults[first] |= {k: v for k, v in row.items() if k != first}
        elif first in rows:
            rows[first].append({**defaults.get(first, {}), **row})
    _fill(seen, rows)
    if "gres.conf" in files:
        for line in _lines(files, "gres.conf", seen, ()):
            _device(line, seen)
    return seen


def _fill(seen: Reading, rows: Mapping[str, list[dict[str, str]]]) -> None:
    for row in rows["nodename"]:
        names = hosts(row["nodename"])
        given = hosts(row.get("nodeaddr") or row.get("nodehostname") or "")
        addresses = given * len(names) if len(given) == 1 else given
        if len(addresses) != len(names):
            addresses = names
        for name, address in zip(names, addresses, strict=True):
            seen.nodes.setdefault(name, _offer(row, address))
            seen.lines.setdefault(name, row)
    for row in rows["nodeset"]:
        named = set(hosts(row.get("nodes", "")))
        feature = row.get("feature", "")
        named |= {n for n, offer in seen.nodes.items() if feature and feature in offer.features}
        seen.sets[row["nodeset"]] = named
    for row in rows["partitionname"]:
        queue = _queue(row, seen)
        twin = seen.queues.get(row["partitionname"])
        if twin:
            queue = replace(queue, nodes=queue.nodes | twin.nodes)
        seen.queues[row["partitionname"]] = queue


def _lines(
    files: Mapping[str, str], name: str, seen: Reading, above: tuple[str, ...]
) -> Iterator[str]:
    for line in logical(files[name]):
        match = re.match(r"\s*include\s+(\S+)", line, re.IGNORECASE)
        if not match:
            yield line
            continue
        below = match[1].rpartition("/")[2]
        if below in files and below not in above:
            yield from _lines(files, below, seen, (*above, name))
        else:
            seen.missing.append(match[1])


def _number(row: Mapping[str, str], *keys: str) -> int | None:
    for key in keys:
        if key in row:
            try:
                return int(row[key], 0)
            except ValueError:
                return None
    return None


def _offer(row: Mapping[str, str], address: str) -> Offer:
    cores, threads = _number(row, "corespersocket") or 1, _number(row, "threadspercore") or 1
    boards, cpus = _number(row, "boards") or 1, _number(row, "cpus", "procs")
    sockets, per_board = _number(row, "sockets"), _number(row, "socketsperboard")
    if per_board:
        sockets = boards * per_board
    if not sockets:
        fits = cpus and cpus >= cores * threads and cpus % (cores * threads) == 0
        sockets = cpus // (cores * threads) if cpus and fits else boards
    product = sockets * cores * threads
    if not cpus or cpus not in (sockets, sockets * cores, product):
        cpus = product
    features = (row.get("feature") or row.get("features") or "").split(",")
    return Offer(
        cpus,
        sockets * cores,
        _number(row, "realmemory") or 1,
        gres_of(row.get("gres", "")),
        frozenset(f for f in features if f),
        row.get("state", "UNKNOWN").upper(),
        address,
    )


def consumes_memory(seen: Reading) -> bool:
    """Whether memory is handed out (SelectTypeParameters as written; unset: not known, no)."""
    return "memory" in seen.last("selecttypeparameters").lower()


def _queue(row: Mapping[str, str], seen: Reading) -> Queue:
    nodes: set[str] = set()
    for name in hosts(row.get("nodes", "")):
        nodes |= set(seen.nodes) if name.upper() == "ALL" else seen.sets.get(name, {name})
    how = "free"
    if consumes_memory(seen):
        how = "node"
        for key in ("defmempernode", "defmempercpu", "defmempergpu"):
            value = row.get(key) or seen.last(key)
            if value not in ("", "0", "UNLIMITED"):
                how = f"{key}={value}"
                break
    linear = seen.last("selecttype").lower().endswith("linear")
    shared = row.get("oversubscribe", row.get("shared", "no")).lower()
    return Queue(
        frozenset(nodes),
        tuple((key, row[key]) for key in ACCESS if key in row),
        linear or shared == "exclusive",
        how,
        row.get("state", "UP").upper(),
    )


def _device(line: str, seen: Reading) -> None:
    row = {k.lower(): v.strip('"') for k, v in _PAIR.findall(line)}
    if "name" not in row:
        return
    path = row.get("file") or row.get("files") or row.get("multiplefiles") or ""
    count = len(hosts(path)) if path else 1
    if match := re.fullmatch(r"(\d+)[kKmMgG]?", row.get("count", "")):
        count = int(match[1])
    kind = (row["name"].lower(), row.get("type", ""))
    if "nodename" in row:
        for name in hosts(row["nodename"]):
            seen.devices.setdefault(name, Counter())[kind] += count
    else:
        seen.everywhere[kind] += count
