"""A cluster file from Slurm's own files: what is carried over, and a line for what is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

from corral.durations import clock, seconds
from corral.errors import Code, CorralError
from corral.slurm.adopt.carried import carried
from corral.slurm.adopt.queues import (
    DEFAULTS,
    Adopted,
    fields_of,
    is_default,
    is_field,
    licenses_of,
    settings_of,
    why_not,
)
from corral.slurm.adopt.rules.gres import count_of, declared, files_of
from corral.slurm.adopt.source import Kind
from corral.slurm.adopt.system_files import words_of
from corral.slurm.adopt.view import NAMES_AT_MOST, Existing, Row, expanded
from corral.slurm.conf.parse import switch
from corral.spec import values as texts
from corral.spec.findings import Level
from corral.spec.load import load_text
from corral.spec.providers import OWNED
from corral.spec.slurm.hostlist import fold_in_order
from corral.spec.slurm.written_keys import keys_by_id

_DEFAULTS: Final = MappingProxyType({row.key: row.values for row in DEFAULTS if not row.lines})
_SECRET: Final = re.compile(r"pass(word)?$", re.I)


Refused = Mapping[tuple[str, str], str]
"""By key of a line and its value: why a field that it is refuses that value."""


def left_out(existing: Existing, corrected: Existing, refused: Refused) -> Iterator[str]:
    """Each thing that no field of the cluster file declares.

    Args:
        existing: the files as they were.
        corrected: those that the cluster file is made of.
        refused: keys of lines that the cluster file cannot hold.
    """
    yield from _lines(existing, _taken(corrected), refused)
    for placed, why in existing.slurm.lost:
        yield f"Include {comment(placed.line.include)}: {why}"
    for name in existing.controllers[1:]:
        yield f"SlurmctldHost={comment(name)}: a backup: declare it as slurm.backup_controller"
    for row in existing.nodes:
        if row.broken:
            yield f"NodeName={comment(row.first.value)}: {comment(row.broken)}"
        yield from _strange(existing, row)
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


def _lines(existing: Existing, taken: set[tuple[str, str]], refused: Refused) -> Iterator[str]:
    """What slurm.conf declares and the cluster file cannot; equal lines become one."""
    held = {"nodename": carried().node, "partitionname": carried().partition}
    names_by_setting: dict[tuple[str, str, str, str], list[str]] = {}
    plain: list[str] = []
    for placed in existing.slurm.lines:
        if not placed.line.pairs:
            continue
        first = placed.line.pairs[0]
        key = first.key.lower()
        if key in held:
            for pair in placed.line.pairs[1:]:
                word = pair.key.lower()
                if word in held[key] or is_default(word, pair.value):
                    continue
                why = refused.get((word, pair.value)) or why_not(key, word, pair.value)
                if why or not is_field(key, word):
                    setting = (first.key, pair.key, pair.value, why)
                    names_by_setting.setdefault(setting, []).append(first.value)
        elif key in ("nodeset", "downnodes", "frontendname"):
            plain.append(comment(" ".join(f"{p.key}={p.value}" for p in placed.line.pairs)))
        elif not (key in carried().replaced or (key, first.value) in taken or _SECRET.search(key)):
            plain += _global(first.key, first.value)
    yield from plain
    for (line, key, value, why), names in names_by_setting.items():
        open_to_all = "everybody may submit there" if key.lower() in carried().access else ""
        note = "; ".join(filter(None, (open_to_all, comment(why))))
        text = f"{line}={comment(','.join(dict.fromkeys(names)))} {key}={comment(value)}"
        yield f"{text}: {note}" if note else text


def _taken(existing: Existing) -> set[tuple[str, str]]:
    """Global keys with their values that the cluster file takes over."""
    taken = {(key.lower(), value) for key, value in settings_of(existing).items()}
    if licenses_of(existing):
        taken.add(("licenses", existing.slurm.text("Licenses")))
    return taken


def _global(key: str, value: str) -> Iterator[str]:
    known = keys_by_id().get(("slurm.conf", "", key.lower()))
    if value in _DEFAULTS.get(key.lower(), ()) or (known and known.value == value):
        return
    text = f"{key}={comment(value)}"
    yield text if known is None else f"{text}: Corral writes {known.value}"


def _strange(existing: Existing, row: Row) -> Iterator[str]:
    shared = any(name == "shard" for name, _, _ in declared(row))
    carried_over = shared and all(any(shards_of(existing, row, node)) for node in row.names)
    for name, kind, count in declared(row):
        if name != "gpu" and not (name == "shard" and carried_over):
            text = ":".join(part for part in (name, kind, str(count)) if part)
            yield f"NodeName={comment(row.first.value)} Gres={comment(text)}"


def gpus_of(row: Row) -> tuple[tuple[str, int], ...]:
    """Type ("" for none given) and count of a node line's GPUs."""
    return tuple((kind, count) for name, kind, count in declared(row) if name == "gpu" and count)


def shards_of(existing: Existing, row: Row, node: str) -> tuple[int, ...]:
    """Shards of each GPU, by the types of ``gpus_of``; 0 for none.

    All are 0 where that is unclear: GPUs of a type that have not as many, several types and
    no line of gres.conf with the shards of each, or other shards there than on the node's line.
    """
    kinds = gpus_of(row)
    shards = [(kind, count) for name, kind, count in declared(row) if name == "shard" and count]
    total = sum(count for _, count in shards)
    lines = [line for line in existing.gres_for(node) if line.text("Name").lower() == "shard"]
    if any(files_of(line) for line in lines):
        each = _by_file(existing.gres_for(node), kinds)
    elif len(kinds) == 1 or lines:  # without File they are divided among all GPUs (gres.conf(5))
        gpus = sum(count for _, count in kinds)
        each = (total // gpus,) * len(kinds) if gpus and total % gpus == 0 else ()
    else:
        each = ()
    by_kind = {kind: count * n for (kind, count), n in zip(kinds, each, strict=False)}
    typed = all(by_kind.get(kind) == count for kind, count in shards if kind)
    right = typed and sum(by_kind.values()) == total and not any(n == 1 for n in each)
    return each if right and each else (0,) * len(kinds)


def _by_file(lines: list[Row], kinds: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
    """Shards of each GPU by its device file and that file's type; () where they do not match."""
    shards = dict[str, int]()
    types = dict[str, str]()
    for line in lines:
        name, files = line.text("Name").lower(), files_of(line)
        if name == "gpu":
            types |= dict.fromkeys(files, line.text("Type"))
        elif name == "shard":
            if len(files) != 1:
                return ()
            shards[files[0]] = count_of(line)
    if len(kinds) == 1:
        types = dict.fromkeys({**types, **shards}, kinds[0][0])
    each: list[int] = []
    for kind, count in kinds:
        counts = [shards.get(file, 0) for file, of in types.items() if of == kind]
        if len(counts) != count or len(set(counts)) != 1:
            return ()
        each.append(counts[0])
    return tuple(each) if shards.keys() <= types.keys() else ()


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


_HIGHEST_DAYS: Final = 999
_GROUP_AT_MOST: Final = 40
_LOOPBACK: Final = re.compile(r"localhost|127\.|::1")
_UP: Final = ("", "UNKNOWN", "IDLE")
_STATES: Final = {
    "CLOUD": "machines that ResumeProgram starts; Corral expects them to be there",
    "FUTURE": "machines that are not there yet; Corral expects them to be there",
}


@dataclass(frozen=True, slots=True)
class _Group:
    """Nodes that are alike.

    Attributes:
        names: in order of first appearance.
        gpus: type ("" for none given) and count of its GPUs.
        shards: parts of each GPU that jobs share, by its types, 0 for none.
        features: their features.
        partitions: names of their partitions.
        state: State= where it is not UNKNOWN.
        fields: other keys of their line.
    """

    names: tuple[str, ...]
    gpus: tuple[tuple[str, int], ...]
    shards: tuple[int, ...]
    features: tuple[str, ...]
    partitions: tuple[str, ...]
    state: str = ""
    fields: tuple[Adopted, ...] = ()


def cluster_file(existing: Existing, given: Existing | None = None) -> str:
    """A cluster file for the machines that the files speak of.

    Args:
        existing: at least a slurm.conf with nodes; hosts and facts give addresses.
        given: the files as they were, when ``existing`` is corrected: their text is reported.

    Returns:
        YAML text. What could not be carried over is at its end as comments, each with the
        reason. No password is in it. Whether it loads is for the caller to see.
    """
    fields = _Fields()
    text = _file(existing, given or existing, fields)
    while fields.refuse(text):  # a field that is left out can be one that another needs
        text = _file(existing, given or existing, fields)
    return text


class _Fields:
    """Fields of groups and partitions that are keys of lines, as they are written.

    Attributes:
        refused: those that rules of the cluster file refuse, such as a QOS that is in Slurm's
            database and that no entry declares.
    """

    def __init__(self) -> None:
        self.refused: dict[tuple[str, str], str] = {}
        self._written: dict[str, Adopted] = {}

    def lines(self, place: str, fields: tuple[Adopted, ...]) -> Iterator[str]:
        """The lines of an entry, ``partitions[0]``."""
        for field in fields:
            if (field.key, field.text) not in self.refused:
                self._written[f"{place}.{field.name}"] = field
                yield f"    {field.name}: {_value(field.value)}"

    def refuse(self, text: str) -> bool:
        """Refuse what rules report about it as an error; whether there is any more of it."""
        written, self._written = self._written, {}
        before = len(self.refused)
        for finding in load_text(text, "").findings if written else ():
            name = re.sub(r"\[[0-9]+\]$", "", finding.where)
            if finding.level is Level.ERROR and (field := written.get(name)):
                self.refused[field.key, field.text] = f"{name.partition('[')[0]}.{field.name}: " + (
                    finding.message
                )
        return len(self.refused) > before


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, cast('tuple[object, ...]', value)))}]"
    return _scalar(value) if isinstance(value, str) else json.dumps(value)


def _file(existing: Existing, given: Existing, fields: _Fields) -> str:
    groups = _groups(existing)
    ids = _group_names(groups)
    renamed: list[str] = []
    lines = [*_head(existing, renamed), *_machines(existing, groups, ids, renamed, fields)]
    lines += [*_partitions(existing, groups, ids, renamed, fields), *_licenses(existing)]
    lines += _storage(existing)
    lost = [*dict.fromkeys([*renamed, *left_out(given, existing, fields.refused)])]
    if lost:
        lines += ["", "# Not carried over:", *(f"#   {entry}" for entry in lost)]
    return "\n".join(lines) + "\n"


def _head(existing: Existing, renamed: list[str]) -> Iterator[str]:
    slurm = existing.slurm
    yield f"# Made by corral init --existing from {comment(slurm.source.name)}."
    yield "# CPUs and memory are not in it: Corral reads them from each machine, as slurmd -C does."
    yield "#"
    yield "#   corral lint FILE            what is wrong with this file"
    yield "#   corral up FILE --rehearse   try all of it in containers on this machine first"
    yield "#   corral plan FILE            what would be done to the machines"
    yield "corral: v1"
    yield f"name: {_scalar(_cluster_name(slurm.text('ClusterName'), renamed))}"
    yield "slurm:"
    if existing.version:
        yield f'  version: ">={existing.version.release}"'
    auth = slurm.text("AuthType", "auth/munge").rpartition("/")[2]
    if auth in ("munge", "slurm"):
        yield f"  auth: {auth}"
    accounting = slurm.text("AccountingStorageType").lower().endswith("slurmdbd")
    yield f"  accounting: {'true' if accounting else 'false'}"
    yield f"  rest: {'true' if 'jwt' in slurm.text('AuthAltTypes').lower() else 'false'}"
    settings = settings_of(existing)
    if settings:
        yield "  settings:"
        yield from (f"    {key}: {_scalar(value)}" for key, value in settings.items())


def _cluster_name(text: str, renamed: list[str]) -> str:
    """In lower case, as Slurm reads it itself (read_config.c)."""
    name = text.lower()
    if not name:
        renamed.append("ClusterName is missing: the cluster is called cluster here")
        return "cluster"
    if re.fullmatch(texts.CLUSTER_NAME.pattern, name) and len(name) <= _GROUP_AT_MOST:
        return name
    made = re.sub(r"[^a-z0-9_-]+", "-", name).strip("-_")[:_GROUP_AT_MOST].rstrip("-_") or "cluster"
    renamed.append(f"ClusterName={comment(text)}: called {made} here")
    return made


def _machines(
    existing: Existing,
    groups: list[_Group],
    ids: Mapping[_Group, str],
    renamed: list[str],
    fields: _Fields,
) -> Iterator[str]:
    addresses = _addresses(existing)
    controller, address = _controller(existing)
    apart = 0
    yield "groups:"
    if controller and controller not in existing.node_index:
        renamed.append(f"SlurmctldHost={comment(controller)}: a node here, in no partition")
        head = "controller" if "controller" not in ids.values() else "head"
        yield from _group_head(head, (controller,))
        yield from _whose((controller,), [address or controller])
        yield f"    addresses: {_scalar(address or controller)}"
        yield from _login()
        apart = 1
    for at, group in enumerate(groups, apart):
        yield from _group_head(ids[group], group.names)
        known = [addresses.get(name, name) for name in group.names]
        yield from _whose(group.names, known)
        by_name = "" if any(name in addresses for name in group.names) else "  # by name, as before"
        yield f"    addresses: {_scalar(fold_in_order(known))}{by_name}"
        yield from _gpu_lines(group, renamed)
        features = [name for name in group.features if _valid(texts.FEATURE, name)]
        if len(features) < len(group.features):
            nodes, taken = comment(fold_in_order(group.names)), set(features)
            renamed += [
                f"NodeName={nodes} Feature={comment(name)}"
                for name in group.features
                if name not in taken
            ]
        if features:
            yield f"    features: [{', '.join(map(_scalar, features))}]"
        yield from fields.lines(f"groups[{at}]", group.fields)
        if existing.partitions and not group.partitions:
            yield "    # in no partition: jobs never run there, and Corral makes it no Slurm node"
        if group.state:
            why = _STATES.get(group.state, "Corral brings them into service")
            yield f"    # State={comment(group.state)} in slurm.conf: {why}"
        yield from _login()
    if controller:
        yield f"controller: {_scalar(controller)}"


def _group_head(name: str, nodes: tuple[str, ...]) -> Iterator[str]:
    yield f"  - name: {name}"
    yield f"    provider: {OWNED}"
    yield f"    nodes: {_scalar(fold_in_order(nodes))}"


def _whose(names: tuple[str, ...], addresses: list[str]) -> Iterator[str]:
    """What only a person can know: which machine localhost is."""
    if any(_LOOPBACK.match(text) for text in (*names, *addresses)):
        yield "    # localhost: write the machine's own name (hostname -s) and its address"
    elif len(set(addresses)) < len(addresses):
        yield "    # several slurmd on one machine: Corral runs one; keep one node and its address"


def _login() -> Iterator[str]:
    yield "    ssh:"
    yield "      user: root                # root, or a user with sudo"


def _controller(existing: Existing) -> tuple[str, str]:
    """Name of the first controller, a node's where it is one, and its address."""
    if not existing.controllers:
        return "", ""
    name = existing.controllers[0]
    hosts = existing.slurm.begin("SlurmctldHost")
    written = hosts[0].value.partition("(")[2].rstrip(")") if hosts else ""
    address = written or existing.slurm.text("ControlAddr")
    if name in existing.node_index:
        return name, address
    short = name.partition(".")[0].lower()
    for node, row in existing.node_index.items():
        hostnames = expanded(row.text("NodeHostname"))
        if node.partition(".")[0].lower() == short or (len(row.names) == 1 and name in hostnames):
            return node, address
    return name, address


def _partitions(
    existing: Existing,
    groups: list[_Group],
    ids: Mapping[_Group, str],
    renamed: list[str],
    fields: _Fields,
) -> Iterator[str]:
    default = ""
    held: dict[str, list[str]] = {}
    for group in groups:
        for name in group.partitions:
            held.setdefault(name, []).append(ids[group])
    rows: dict[str, Row] = {}
    for row in existing.partitions:
        name = row.first.value
        if name not in held:
            renamed.append(f"PartitionName={comment(name)}: none of its nodes is declared")
            continue
        rows.setdefault(name, row)
        if switch(row.text("Default")):
            default = name  # of several the last one counts, as in slurmctld
    if not rows:
        yield "partitions:              # slurm.conf has none with nodes"
        yield "  - name: main"
        yield f"    groups: [{', '.join(ids.values())}]"
        yield "    default: true"
        return
    yield "partitions:"
    for at, (name, row) in enumerate(rows.items()):
        yield f"  - name: {_scalar(_partition_name(name, renamed))}"
        yield f"    groups: [{', '.join(held[name])}]"
        if name == default:
            yield "    default: true"
        yield f'    max_time: "{_time(row.text("MaxTime", "INFINITE"))}"'
        yield from fields.lines(f"partitions[{at}]", fields_of("partitionname", row))


def _licenses(existing: Existing) -> Iterator[str]:
    licenses = licenses_of(existing)
    if licenses:
        yield "licenses:"
        yield from (f"  - {{name: {_scalar(name)}, count: {n}}}" for name, n in licenses.items())


def _partition_name(name: str, renamed: list[str]) -> str:
    if _valid(texts.PARTITION_NAME, name):
        return name
    made = re.sub(r"[^A-Za-z0-9_.+-]+", "-", name).lstrip("-.+")[:63] or "partition"
    renamed.append(f"PartitionName={comment(name)}: called {made} here")
    return made


def _gpu_lines(group: _Group, renamed: list[str]) -> Iterator[str]:
    if not group.gpus:
        return
    several = len(group.gpus) > 1
    yield "    gpus:" if several else "    gpu:"
    for (kind, count), shards in zip(group.gpus, group.shards, strict=True):
        yield f"      {'- ' if several else ''}type: {_scalar(_gpu_type(kind, renamed))}"
        indent = "        " if several else "      "
        yield f"{indent}count: {count}"
        if shards:
            yield f"{indent}shards: {shards}"


def _gpu_type(kind: str, renamed: list[str]) -> str:
    """Without a type in slurm.conf the type is "gpu": --gres=gpu:2 asks for it as before."""
    if not kind or _valid(texts.GPU_TYPE, kind):
        return kind or "gpu"
    made = re.sub(r"[^A-Za-z0-9_.+-]+", "-", kind).strip("-.+_")[:63] or "gpu"
    renamed.append(f"Gres=gpu:{comment(kind)}: called gpu:{made} here")
    return made


def _valid(kind: texts.Kind, text: str) -> bool:
    return re.fullmatch(kind.pattern, text) is not None


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
    """Nodes that are alike in GPUs, features, partitions and state, in order of appearance."""
    names_by_key: dict[tuple[object, ...], list[str]] = {}
    partitions = _partitions_by_node(existing)
    for row in existing.nodes:
        features = tuple(f for f in (row.text("Feature") or row.text("Features")).split(",") if f)
        state = row.text("State").upper()
        fields = fields_of("nodename", row)
        for name in row.names:
            key = (
                gpus_of(row),
                shards_of(existing, row, name),
                tuple(dict.fromkeys(features)),
                partitions.get(name, ()),
                "" if state in _UP else state,
                fields,
            )
            names_by_key.setdefault(key, []).append(name)
    return [_Group(tuple(names), *key) for key, names in names_by_key.items()]  # type: ignore[arg-type]


def _partitions_by_node(existing: Existing) -> dict[str, tuple[str, ...]]:
    """Names of each node's partitions: each hostlist is read once.

    Raises:
        CorralError: USAGE, too many of them: the groups would take memory and time for each.
    """
    by_node: dict[str, dict[str, None]] = {}
    sets = existing.node_sets
    places = 0
    for row in existing.partitions:
        nodes: dict[str, None] = {}
        for name in expanded(row.text("Nodes")):
            if name.upper() == "ALL":
                nodes |= dict.fromkeys(existing.node_names)
            else:
                nodes |= dict.fromkeys(sets.get(name, (name,)))
        places += len(nodes)
        if places > NAMES_AT_MOST:
            raise CorralError(
                Code.USAGE,
                f"the partitions have more than {NAMES_AT_MOST} nodes together",
                hint="give a file with fewer partitions; those of the same nodes take as many each",
            )
        for name in nodes:
            by_node.setdefault(name, {})[row.first.value] = None
    return {name: tuple(partitions) for name, partitions in by_node.items()}


def _group_names(groups: list[_Group]) -> dict[_Group, str]:
    ids: dict[_Group, str] = {}
    taken: dict[str, int] = {}
    for group in groups:
        base = "cpu"
        if group.gpus:
            kind = re.sub(r"[^a-z0-9-]+", "-", group.gpus[0][0].lower()).lstrip("-0123456789")
            base = kind[:30].rstrip("-") or "gpu"
        ids[group] = _free_name(base, taken, group.features)
    return ids


def _free_name(base: str, taken: dict[str, int], features: tuple[str, ...]) -> str:
    """A group's name is a Slurm feature of its nodes: it must not be one already.

    ``taken``: how often each base was given; two bases never give the same name, as none ends in
    a number behind a dash unless it is a GPU type's own.
    """
    while True:
        at = taken[base] = taken.get(base, 0) + 1
        name = base if at == 1 else f"{base}-{at}"
        if name not in features and (at == 1 or name not in taken):
            taken.setdefault(name, 1)
            return name


def _addresses(existing: Existing) -> dict[str, str]:
    """Addresses by node: NodeAddr, facts, hosts, NodeHostname."""
    table: dict[str, str] = {}
    for row in existing.nodes:
        table |= _paired(row, "NodeHostname")
    for hosts in existing.hosts.values():
        for host in hosts:
            for spot in () if host.loopback or ":" in host.address.text else host.names:
                table.setdefault(spot.text, host.address.text)
    table |= {m.name: m.addresses[0] for m in existing.machines.values() if m.addresses}
    for row in existing.nodes:
        table |= _paired(row, "NodeAddr")
    return table


def _paired(row: Row, key: str) -> dict[str, str]:
    """A value for each node of a row; one value is for all of them, several slurmd on a machine."""
    values = expanded(row.text(key))
    if len(values) == 1:
        values *= len(row.names)
    return dict(zip(row.names, values, strict=True)) if len(values) == len(row.names) else {}


def _scalar(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z/][A-Za-z0-9_./-]*", text) and text.lower() not in (
        "yes",
        "no",
        "true",
        "false",
        "on",
        "off",
        "null",
        "y",
        "n",
    )
    return text if plain else json.dumps(text)
