"""Rules about GPUs: GresTypes, Gres of nodes, gres.conf, and the machines' devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from corral import tables
from corral.errors import CorralError
from corral.slurm.adopt.rule import E, Problem, Rule, W
from corral.slurm.adopt.source import Kind
from corral.slurm.adopt.view import Existing, Row, Setting, named
from corral.slurm.tres import gres_count, gres_of
from corral.slurm.version import has
from corral.spec.findings import Level, shown
from corral.spec.slurm.hostlist import expand
from corral.spec.slurm.releases import Feature, QuotedRelease, since


class AutoDetect(tables.Row):
    """A word of AutoDetect in gres.conf, and the first release with it."""

    word: str
    since: QuotedRelease


AUTODETECT: Final = tables.read_table(
    "corral.slurm.adopt", "autodetect.yaml", tuple[AutoDetect, ...]
)
_SOURCE: Final = "gres.conf(5), Slurm's gres.c"


def declared(row: Row) -> list[tuple[str, str, int]]:
    """What Gres= of a node line states: name, type ("" for none) and count of each part."""
    return gres_of(row.text("Gres"))


def files_of(row: Row) -> list[str]:
    """The device files of a line of gres.conf."""
    try:
        return expand(row.text("File") or row.text("Files") or row.text("MultipleFiles"))
    except CorralError:
        return []


def count_of(row: Row) -> int:
    """How many of its kind a line of gres.conf gives."""
    count = gres_count(row.text("Count"))
    return len(files_of(row)) or 1 if count is None else count


def _names(existing: Existing) -> list[str]:
    return [word for word in existing.slurm.text("GresTypes").lower().split(",") if word]


def _mentioned(existing: Existing) -> dict[str, Setting]:
    """Names of resources that files speak of, with the place of the first one."""
    settings: dict[str, Setting] = {}
    for row in existing.nodes:
        for name, _, _ in declared(row):
            settings.setdefault(name, row.settings["gres"])
    for row in existing.gres:
        name = row.get("Name")
        if name:
            settings.setdefault(name.value.lower(), name)
    return settings


def gres_types(existing: Existing) -> Iterator[Problem]:
    """GresTypes lacks a resource that other lines name."""
    if not existing.slurm.begin("ClusterName") and not existing.controllers:
        return
    if existing.slurm.lost and not existing.slurm.get("GresTypes"):
        return
    # With GresTypes and without devices slurmctld sets nodes INVAL that run now.
    known = bool(existing.confs[Kind.GRES]) or any(m.devices for m in existing.machines.values())
    types, setting = _names(existing), existing.slurm.get("GresTypes")
    lacking = [name for name in _mentioned(existing) if name not in types]
    if not lacking and not types and any(m.devices for m in existing.machines.values()):
        lacking = ["gpu"]
    for name in lacking:
        value = ",".join([*types, name])
        yield Problem(
            setting.spot if setting else existing.slurm.near("NodeName"),
            f"GresTypes {'lacks ' + shown(name) if setting else 'is missing'}: --gres={name} is "
            'refused with "Invalid generic resource (gres) specification", whatever gres.conf has',
            f"write GresTypes={value}",
            (
                (
                    setting.becomes(value)
                    if setting
                    else existing.slurm.adds(f"GresTypes={value}", "NodeName")
                ),
            )
            if known
            else (),
            where="GresTypes",
        )


def on_nodes(existing: Existing) -> Iterator[Problem]:
    """gres.conf or the machine has GPUs, and the node line does not declare them."""
    for row in existing.nodes:
        if "gpu" in [name for name, _, _ in declared(row)] or not row.names:
            continue
        value, why = _should(existing, row)
        if value:
            yield Problem(
                row.first.spot,
                f"no Gres= on the node, though {why}: gres.conf alone has no effect",
                f"write Gres={value}",
                (row.adds(f"Gres={value}"),),
                where=f"NodeName={row.first.value}",
            )
    yield from _offered_nowhere(existing)


def _offered_nowhere(existing: Existing) -> Iterator[Problem]:
    """A gres.conf without NodeName, which is one machine's own: it does not state which one's."""
    offered = {name for row in existing.nodes for name, _, _ in declared(row)}
    if len(existing.node_names) < 2 or existing.slurm.lost:  # noqa: PLR2004  # one node is its own
        return
    for line in existing.gres:
        name = line.text("Name").lower()
        if name and not line.names and not line.broken and name not in offered:
            yield Problem(
                line.first.spot,
                f"gres.conf names {name}, and no node has Gres={name}: no job can ask for it. "
                "Without NodeName= the line is for the machine the file is on",
                f"write Gres={name}:COUNT on the NodeName lines of the machines that have it",
                level=Level.WARNING,
                where="gres.conf",
            )
            return


def _should(existing: Existing, row: Row) -> tuple[str, str]:
    """What Gres= of a row should state, and why; "" where nothing is known or nodes are unlike."""
    values: set[str] = set()
    for name in row.names:
        kinds: Counter[str] = Counter()
        for line in _lines_of(existing, name):
            kinds[line.text("Type")] += count_of(line)
        parts = [":".join(p for p in ("gpu", t, str(c)) if p) for t, c in kinds.items()]
        machine = existing.machines.get(name)
        if not parts and machine and machine.devices:
            parts = [f"gpu:{len(machine.devices)}"]
        values.add(",".join(parts))
    if len(values) != 1 or values == {""}:
        return "", ""
    named = any(True for _ in _lines_of(existing, row.names[0]))
    return values.pop(), "gres.conf names its GPUs" if named else "the machine has GPUs"


def _lines_of(existing: Existing, node: str) -> Iterator[Row]:
    """Lines about a node's GPUs.

    Each node reads its own gres.conf (gres.conf(5)): lines without NodeName do not describe other
    machines: they count where there is one node, and where the machine has those devices.
    """
    machine = existing.machines.get(node)
    own = [line for line in existing.gres_for(node) if line.text("Name").lower() == "gpu"]
    files = [file for line in own for file in files_of(line)]
    here = machine is not None and sorted(files) == sorted(machine.devices) != []
    single = len(existing.node_names) == 1
    yield from (line for line in own if line.names or single or here)


def without_file(existing: Existing) -> Iterator[Problem]:
    """Gres= with devices, and no gres.conf."""
    if existing.confs[Kind.GRES] or not existing.complete or existing.slurm.lost:
        return
    for row in existing.nodes:
        if not any(name == "gpu" for name, _, _ in declared(row)):
            continue
        yield Problem(
            row.settings["gres"].spot,
            f"Gres={row.text('Gres')}, and there is no gres.conf: slurmd reports no GPU and the "
            'node becomes INVAL with "gres/gpu count reported lower than configured", unless each '
            "node has a gres.conf that is not here",
            "write a gres.conf with Name=gpu File=/dev/nvidia[0-N], or AutoDetect=nvidia (24.11 "
            "and newer), the same on all machines",
            where=f"NodeName={row.first.value}",
        )
        return


def counts(existing: Existing) -> Iterator[Problem]:
    """Gres= of a node and gres.conf do not agree."""
    if not existing.gres:
        return
    reported: set[int] = set()
    for node, row in named(existing.nodes):
        if id(row) in reported or any(line.text("AutoDetect") for line in existing.gres_for(node)):
            continue
        problem = _count_problem(existing, node, row)
        if problem:
            reported.add(id(row))
            yield problem


def _count_problem(existing: Existing, node: str, row: Row) -> Problem | None:
    given: Counter[tuple[str, str]] = Counter()
    for line in existing.gres_for(node):
        given[line.text("Name").lower(), line.text("Type").lower()] += count_of(line)
    typed = {name: {t for n, t in given if n == name} for name, _ in given}
    for name, kind, count in declared(row):
        if name not in typed and name != "gpu":
            continue  # a resource without devices needs no line
        total = sum(c for (n, _), c in given.items() if n == name)
        has = given[name, kind.lower()] if kind else total
        if kind and name in typed and kind.lower() not in typed[name] and typed[name] != {""}:
            there = ", ".join(sorted(typed[name]))
            message = f"Gres= has {name}:{kind}, and gres.conf calls the type {shown(there)}"
            hint = f"write the same type in both: {there}"
        elif (has or total) < count:
            message = (
                f"Gres= has {count} {name}, and gres.conf has {has or total} for {node}: the node "
                f'becomes INVAL with "gres/{name} count reported lower than configured"'
            )
            hint = f"write {name}:{has or total}, or name the other devices in gres.conf"
        else:
            continue
        spot = row.settings["gres"].spot
        level = None
        if not any(line.names for line in existing.gres_for(node)):
            message += ", unless it has its own gres.conf"
            level = Level.WARNING
        return Problem(spot, message, hint, level=level, where=f"NodeName={row.first.value}")
    return None


def styles(existing: Existing) -> Iterator[Problem]:
    """Lines about one node that Slurm refuses side by side."""
    reported: set[tuple[str, int]] = set()
    for node in existing.node_names or ("",):
        lines = [r for r in existing.gres_for(node) if r.text("Name")]
        for name in {row.text("Name").lower() for row in lines}:
            same = [row for row in lines if row.text("Name").lower() == name]
            for problem in _unlike(name, same):
                key = (problem.message, problem.spot.start)
                if key not in reported:
                    reported.add(key)
                    yield problem


def _unlike(name: str, rows: list[Row]) -> Iterator[Problem]:
    for key in ("Type", "File"):
        without = [r for r in rows if not r.get(key) and not (key == "File" and files_of(r))]
        if without and len(without) < len(rows):
            yield Problem(
                without[0].first.spot,
                f'some {name} records have "{key}=" and others do not: slurmd refuses to start',
                f"write {key}= on all of them, or on none",
            )
    seen: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = (row.text("Type").lower(), row.text("Links"), ",".join(files_of(row)))
        again = seen.setdefault(key, row)
        if again is not row:
            yield Problem(
                row.first.spot,
                f'the same record is above in line {_line(again)}: "duplicate records for {name}"',
                "leave one of them out",
                row.first.placed.commented_out(),
            )
    files = Counter(file for row in seen.values() for file in files_of(row))
    for row in list(seen.values())[1:]:
        twice = [f for f in files_of(row) if files[f] > 1]
        if twice:
            spot = (row.get("File") or row.get("Files") or row.first).spot
            yield Problem(
                spot,
                f"{twice[0]} is in another record too",
                "name a device once",
                level=Level.WARNING,
            )


def _line(row: Row) -> int:
    return row.first.placed.source.place(row.first.placed.at)[0]


def autodetect(existing: Existing) -> Iterator[Problem]:
    """AutoDetect with plain records, unknown words, libraries that are missing."""
    plain = [
        r for r in existing.gres if r.text("Name").lower() == "gpu" and not r.get("AutoDetect")
    ]
    for row in existing.gres:
        setting = row.get("AutoDetect")
        if setting is None:
            continue
        # Slurm looks for the words within the value (_handle_autodetect_flags): "nvml:" is nvml.
        known = next((row for row in AUTODETECT if row.word in setting.value.lower()), None)
        word = known.word if known else ""
        if known is None:
            yield Problem(
                setting.spot,
                f"no release knows AutoDetect={shown(setting.value)}",
                f"one of: {', '.join(row.word for row in AUTODETECT)}",
                level=Level.ERROR,
            )
        elif existing.version and existing.version.release < known.since:
            yield Problem(
                setting.spot,
                f"AutoDetect={word} came with Slurm {known.since}: {existing.version.release} logs "
                f'"unknown autodetect flag" and finds no GPU',
                "write Name=gpu File=/dev/nvidia[0-N] instead",
                level=Level.ERROR,
            )
        elif word == "nvml":
            yield from _nvml(existing, setting)
        mixed = [p for p in plain if not p.names or not row.names or set(p.names) & set(row.names)]
        if word != "off" and mixed:
            yield Problem(
                mixed[0].first.spot,
                f"a plain record with AutoDetect={word}: slurmd drops what it detected unless "
                "Type, File and Count are the same",
                "use one of the two on a node",
            )


def _nvml(existing: Existing, setting: Setting) -> Iterator[Problem]:
    without = [
        m.name for m in existing.machines.values() if m.plugins and "gpu_nvml.so" not in m.plugins
    ]
    who = f"; {without[0]} has no gpu_nvml.so" if without else ""
    new = existing.version is not None and has(existing.version, Feature.AUTODETECT_NVIDIA)
    first = since(Feature.AUTODETECT_NVIDIA)
    yield Problem(
        setting.spot,
        f"Slurm of Debian, Ubuntu and OpenHPC is built without NVML, and finds no GPU{who}",
        f"write AutoDetect=nvidia (Slurm {first} and newer)"
        if new
        else "write Name=gpu File=/dev/nvidia[0-N]; AutoDetect=nvidia with "
        f"Slurm {first} and newer",
        (setting.becomes("nvidia"),) if new and without else (),
        level=Level.ERROR if without else None,
    )


def records(existing: Existing) -> Iterator[Problem]:
    """Counts and files within one record."""
    nodes = set(existing.node_names)
    for row in existing.gres:
        files, count = files_of(row), row.get("Count")
        both = row.get("File") and row.get("MultipleFiles")
        if count and files and count_of(row) != len(files) and not row.get("MultipleFiles"):
            value = str(len(files))
            name = row.text("Name").lower()
            if name not in ("shard", "mps"):
                yield Problem(
                    count.spot,
                    f"Count={count.value} with {value} device file{'s' * (len(files) > 1)}: "
                    "slurmd refuses to start",
                    f"write Count={value}, or leave Count out",
                    (count.becomes(value),),
                )
        if both:
            yield Problem(
                row.first.spot, "File and MultipleFiles exclude each other", "keep one of them"
            )
        unknown = [n for n in row.names if nodes and n not in nodes]
        if unknown and not existing.slurm.lost:
            spot = row.settings["nodename"].spot
            yield Problem(
                spot,
                f"{shown(unknown[0])} is not a node of slurm.conf",
                "name declared nodes",
                level=Level.WARNING,
            )


def devices(existing: Existing) -> Iterator[Problem]:
    """Device files that a machine does not have, and GPUs that nobody names."""
    for node, row in named(existing.nodes):
        machine = existing.machines.get(node)
        if machine is None:
            continue
        lines = [r for r in existing.gres_for(node) if r.text("Name").lower() == "gpu"]
        for line in lines:
            lost = [f for f in files_of(line) if f not in machine.devices]
            if lost:
                setting = line.get("File") or line.get("Files") or line.first
                yield Problem(
                    setting.spot,
                    f"{node} has no {lost[0]}: slurmd waits 20 s and ends with "
                    '"can\'t stat gres.conf file"',
                    f"it has: {', '.join(machine.devices) or 'no GPU device file'}; is the driver "
                    "loaded before slurmd starts?",
                    where=f"NodeName={node}",
                )
        gpus = sum(count for name, _, count in declared(row) if name == "gpu")
        if gpus and gpus != len(machine.devices):
            yield Problem(
                row.settings["gres"].spot,
                f"Gres= has {gpus} GPUs, and {node} has {len(machine.devices)}",
                f"write gpu:{len(machine.devices)}"
                if machine.devices
                else "look at the machine: nvidia-smi",
                level=Level.ERROR if gpus > len(machine.devices) else Level.WARNING,
                where=f"NodeName={node}",
            )


RULES: Final = (
    Rule("gres-types-missing", E, Kind.SLURM, "GresTypes lacks a resource that is declared.",
         "GresTypes=gpu", gres_types, "F11", "gres.html"),
    Rule("gres-not-on-node", E, Kind.SLURM, "gres.conf or the machine has GPUs, the node line not.",
         "Gres=gpu:TYPE:COUNT", on_nodes, "F11", "gres.html"),
    Rule("gres-conf-missing", W, Kind.SLURM, "Gres= with GPUs, and no gres.conf.",
         "gres.conf with File= or AutoDetect=", without_file, "F10", _SOURCE),
    Rule("gres-mismatch", E, Kind.SLURM, "Gres= and gres.conf differ in type or count.",
         "the same in both", counts, "F10", _SOURCE),
    Rule("gres-conflict", E, Kind.GRES, "Records that Slurm refuses side by side.",
         "one style per node", styles, "F14", _SOURCE),
    Rule("gres-autodetect", W, Kind.GRES, "AutoDetect that is mixed, unknown, or without library.",
         "AutoDetect=nvidia or File=", autodetect, "F12, F14", _SOURCE),
    Rule("gres-record", E, Kind.GRES, "Count and File of a record differ.",
         "File alone", records, "F10", _SOURCE),
    Rule("device-missing", E, Kind.GRES, "A machine lacks a device file, or has more GPUs.",
         "the machine's devices", devices, "F10, F13", "facts"),
)  # fmt: skip
