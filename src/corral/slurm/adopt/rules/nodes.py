"""Rules about nodes, by the file alone and against the machines' facts."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from corral.slurm.adopt.machine import Machine
from corral.slurm.adopt.rule import E, Problem, Rule, W
from corral.slurm.adopt.source import Edit, Kind
from corral.slurm.adopt.view import Existing, Row, Setting, expanded
from corral.slurm.conf.real_memory import real_memory
from corral.slurm.version import SlurmVersion, talks_to
from corral.spec.findings import Level, shown

_MANUAL: Final = "slurm.conf(5)"
_LAYOUT: Final = ("Sockets", "CoresPerSocket", "ThreadsPerCore", "Boards", "SocketsPerBoard")
_WASTE_PERCENT: Final = 90


def _of(existing: Existing, row: Row) -> list[Machine]:
    return [existing.machines[name] for name in row.names if name in existing.machines]


def about(row: Row) -> str:
    """What a finding about a node line is about."""
    return f"NodeName={row.first.value}"


def _put(row: Row, key: str, value: str) -> tuple[Edit, ...]:
    """Edits that give a row a value: in its own setting, else at its end."""
    own = row.get(key)
    if own and own.placed is row.first.placed:
        return (own.becomes(value),)
    return (row.adds(f"{key}={value}"),)


def _least(machines: list[Machine], field: str) -> int:
    return min((getattr(m, field) for m in machines if getattr(m, field)), default=0)


def real_memory_missing(existing: Existing) -> Iterator[Problem]:
    """RealMemory is unset, so it is 1 MiB."""
    for row in existing.nodes:
        setting = row.get("RealMemory")
        declared = row.number("RealMemory") if setting else None
        # What is not a number, slurmctld refuses: another rule's.
        if (setting and (declared is None or declared > 1)) or _no_hardware(row):
            continue
        memory = _least(_of(existing, row), "memory_mib")
        value = str(real_memory(memory)) if memory else ""
        hint = f"write RealMemory={value or 'MIB'}"
        hint += ", 97 % of what was reported" if value else ", 97 % of what slurmd -C reports"
        now = setting.value if setting else "not set, so it is 1"
        yield Problem(
            setting.spot if setting else row.first.spot,
            f"RealMemory is {now} MiB: a job that asks "
            'for memory is refused with "Memory specification can not be satisfied"',
            hint,
            (setting.becomes(value) if setting else row.adds(f"RealMemory={value}"),)
            if value
            else (),
            where=about(row),
        )


def _no_hardware(row: Row) -> bool:
    """Cloud and future nodes report what they are when they appear."""
    return row.text("State").upper() in ("CLOUD", "FUTURE") or bool(row.broken)


def real_memory_high(existing: Existing) -> Iterator[Problem]:
    """RealMemory is more than a machine reports, or so close that an update breaks it."""
    for row in existing.nodes:
        setting, configured = row.get("RealMemory"), row.number("RealMemory")
        least = _least(_of(existing, row), "memory_mib")
        if not setting or configured is None or not least:
            continue
        value = real_memory(least)
        if configured > least:
            yield Problem(
                setting.spot,
                f"RealMemory={configured} is more than the {least} MiB that the machine has: the "
                'node becomes INVAL with "Low RealMemory"',
                f"write RealMemory={value}",
                _put(row, "RealMemory", str(value)),
                where=about(row),
            )
        elif configured * 2 < least:
            yield Problem(
                setting.spot,
                f"RealMemory={configured} leaves more than half of {least} MiB unused",
                f"write RealMemory={value}",
                _put(row, "RealMemory", str(value)),
                level=Level.WARNING,
                where=about(row),
            )


def cpus(existing: Existing) -> Iterator[Problem]:
    """CPU counts that the machine does not have."""
    for row in existing.nodes:
        machines = _of(existing, row)
        has = _least(machines, "cpus")
        setting = row.get("CPUs") or row.get("Procs")
        layout = _layout(row)
        if not has or (layout is None and setting is None):
            continue
        count = layout.threads if layout else row.number(setting.key) if setting else None
        if count is None:
            continue
        at = setting or next(s for key in _LAYOUT if (s := row.get(key)))
        if count > has:
            yield Problem(
                at.spot,
                f"{count} CPUs are declared, and {_worst(machines)} has {has}: the node becomes "
                'INVAL with "Low socket*core*thread count, Low CPUs"',
                _hint(machines),
                _cpu_edits(row, machines, setting),
                where=about(row),
            )
        elif count * 100 < has * _WASTE_PERCENT and not row.get("CoreSpecCount"):
            yield Problem(
                at.spot,
                f"{count} CPUs are declared, and the machine has {has}: the rest is never used",
                _hint(machines),
                _cpu_edits(row, machines, setting),
                level=Level.WARNING,
                where=about(row),
            )


def _worst(machines: list[Machine]) -> str:
    return min((m for m in machines if m.cpus), key=lambda m: m.cpus).name


def _shape(machines: list[Machine]) -> dict[str, str]:
    """The layout that all of a row's machines have; CPUs alone where they differ."""
    shapes = {(m.cpus, m.sockets, m.cores, m.threads) for m in machines if m.cpus}
    if len(shapes) == 1:
        count, sockets, cores, threads = shapes.pop()
        if sockets * cores * threads == count:
            return {
                "CPUs": str(count),
                "Sockets": str(sockets),
                "CoresPerSocket": str(cores),
                "ThreadsPerCore": str(threads),
            }
    return {"CPUs": str(_least(machines, "cpus"))}


def _hint(machines: list[Machine]) -> str:
    return "write " + " ".join(f"{key}={value}" for key, value in _shape(machines).items())


def _cpu_edits(row: Row, machines: list[Machine], setting: Setting | None) -> tuple[Edit, ...]:
    shape = _shape(machines)
    if len(shape) == 1 and _layout(row):
        return ()  # unlike machines on one line: only a person can part them
    own = row.first.placed
    edits: list[Edit] = []
    if setting and setting.placed is own:
        edits.append(setting.replaced_by(f"CPUs={shape.pop('CPUs')}"))
    for key, value in shape.items():
        current = row.get(key)
        if current and current.placed is own:
            edits.append(current.becomes(value))
        elif key == "CPUs" or len(shape) > 1:
            edits.append(row.adds(f"{key}={value}"))
    return tuple(edits)


@dataclass(frozen=True, slots=True)
class _Layout:
    """How many sockets, cores and hardware threads a node line makes."""

    sockets: int
    cores: int
    threads: int


def _layout(row: Row) -> _Layout | None:
    """What the row's sockets, cores and threads make; None when it has none of them.

    As ``_parse_nodename`` of read_config.c counts: SocketsPerBoard wins over Sockets, and missing
    sockets follow from CPUs.
    """
    if not any(row.get(key) for key in _LAYOUT):
        return None
    boards = row.number("Boards") or 1
    per_board = row.number("SocketsPerBoard")
    sockets = boards * per_board if per_board else row.number("Sockets")
    cores, threads = row.number("CoresPerSocket") or 1, row.number("ThreadsPerCore") or 1
    if not sockets:
        count = row.number("CPUs") or row.number("Procs") or 0
        fits = count >= cores * threads and count % (cores * threads) == 0
        sockets = count // (cores * threads) if fits else boards
    return _Layout(sockets, sockets * cores, sockets * cores * threads)


def cpu_layout(existing: Existing) -> Iterator[Problem]:
    """CPUs that no product of sockets, cores and threads gives."""
    for row in existing.nodes:
        setting = row.get("CPUs") or row.get("Procs")
        count = row.number(setting.key) if setting else None
        layout = _layout(row)
        if not setting or count is None or layout is None:
            continue
        if count not in (layout.threads, layout.cores, layout.sockets):
            yield Problem(
                setting.spot,
                f"{setting.key}={count} is neither sockets x cores x threads ({layout.threads}) "
                f"nor cores ({layout.cores}): Slurm sets it to {layout.threads}",
                f"write CPUs={layout.threads}, or the layout that slurmd -C reports",
                (setting.replaced_by(f"CPUs={layout.threads}"),)
                if setting.placed is row.first.placed
                else (),
                where=about(row),
            )


def cpus_missing(existing: Existing) -> Iterator[Problem]:
    """Neither CPUs nor sockets or cores: Slurm counts one core."""
    for row in existing.nodes:
        counted = ("CPUs", "Procs", *(key for key in _LAYOUT if key != "ThreadsPerCore"))
        if _no_hardware(row) or any(row.get(key) for key in counted):
            continue
        threads = row.number("ThreadsPerCore") or 1
        count = "one CPU, so" if threads == 1 else f"one core with {threads} CPUs, so"
        machines = _of(existing, row)
        known = bool(_least(machines, "cpus"))
        yield Problem(
            row.first.spot,
            f"no CPUs and no Sockets or CoresPerSocket: Slurm counts {count} one job with one "
            "task fills the node",
            _hint(machines) if known else "write the NodeName line that slurmd -C prints there",
            tuple(e for key, value in _shape(machines).items() for e in _put(row, key, value))
            if known
            else (),
            where=about(row),
        )


def old_names(existing: Existing) -> Iterator[Problem]:
    """Procs is an old name of CPUs."""
    for row in existing.all_nodes:
        setting = row.get("Procs")
        if setting and setting.placed is row.first.placed:
            gone = row.get("CPUs") is not None
            yield Problem(
                setting.spot,
                "Procs is an old name of CPUs" + (", which is there too and wins" if gone else ""),
                "write CPUs",
                () if gone else (setting.renamed("CPUs"),),
                where=about(row),
            )


def states(existing: Existing) -> Iterator[Problem]:
    """Nodes that never come up because of what the file declares."""
    for row in existing.nodes:
        setting = row.get("State")
        word = setting.value.upper() if setting else ""
        if setting and word in ("DOWN", "DRAIN", "FAIL", "FAILING"):
            yield Problem(
                setting.spot,
                f"State={setting.value} in the file: the nodes are {word} again whenever slurmctld "
                "starts without its saved state",
                "write State=UNKNOWN and use scontrol update nodename=... state=drain reason=...; "
                "nodes that are gone: leave their line out",
                where=about(row),
            )


def names(existing: Existing) -> Iterator[Problem]:
    """Names that cannot be read, are declared twice, or do not exist."""
    seen: dict[str, Row] = {}
    for row in existing.nodes:
        if row.broken:
            yield Problem(row.first.spot, row.broken, "write it as node[0-2,7]", where=about(row))
        for name in row.names:
            if name in seen:
                yield Problem(
                    row.first.spot,
                    f"node {shown(name)} is declared twice: slurmctld refuses to start",
                    "take it out of one of the lines",
                    where=about(row),
                )
                break
            seen[name] = row
        address = row.get("NodeAddr")
        count = len(expanded(address.value)) if address else 0
        shared = count == 1 and (row.get("NodeHostname") or row.get("Port"))
        if address and count not in (0, len(row.names)) and not row.broken and not shared:
            yield Problem(
                address.spot,
                f"NodeAddr has {count} addresses for {len(row.names)} nodes",
                "write one address for each node, in the same order",
                where=about(row),
            )


def hostnames(existing: Existing) -> Iterator[Problem]:
    """A machine that calls itself something else, or has another address."""
    for row in existing.nodes:
        hosts = expanded(row.text("NodeHostname")) or row.names
        addresses = expanded(row.text("NodeAddr"))
        for at, name in enumerate(row.names):
            machine = existing.machines.get(name)
            if machine is None:
                continue
            host = hosts[at] if at < len(hosts) else name
            if machine.hostname and machine.hostname.partition(".")[0] != host.partition(".")[0]:
                yield Problem(
                    row.first.spot,
                    f"{name} calls itself {shown(machine.hostname)}: slurmd finds no line for it",
                    f"hostnamectl set-hostname {host} there, or write NodeHostname",
                    where=about(row),
                )
            address = addresses[at] if at < len(addresses) else ""
            if machine.addresses and _is_address(address) and address not in machine.addresses:
                yield Problem(
                    row.settings["nodeaddr"].spot,
                    f"NodeAddr of {name} is {address}, and the machine has "
                    f"{', '.join(machine.addresses)}",
                    f"write its address: {machine.addresses[0]}",
                    where=about(row),
                )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def users(existing: Existing) -> Iterator[Problem]:
    """SlurmUser with unlike numeric ids."""
    user = existing.slurm.text("SlurmUser", "root")
    ids = {m.name: m.uids[user] for m in existing.machines.values() if user in m.uids}
    if len(set(ids.values())) > 1:
        setting = existing.slurm.get("SlurmUser")
        uids = ", ".join(f"{node}: {uid}" for node, uid in ids.items())
        yield Problem(
            setting.spot if setting else existing.slurm.spot,
            f"user {user} has unlike numeric ids ({uids}): nodes refuse the controller with "
            '"Security violation"',
            "give it one numeric id on all machines: usermod -u, while Slurm is stopped",
            where="SlurmUser",
        )


def versions(existing: Existing) -> Iterator[Problem]:
    """Machines whose Slurm do not understand each other."""
    known = {m.name: SlurmVersion.parse(m.slurm) for m in existing.machines.values() if m.slurm}
    if len(set(known.values())) < 2 or not existing.slurm:  # noqa: PLR2004  # one is not a mix
        return
    oldest, newest = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    talk = talks_to(known[newest], known[oldest])
    yield Problem(
        existing.slurm.spot,
        f"{newest} has Slurm {known[newest]} and {oldest} has {known[oldest]}"
        + ("" if talk else ": they do not understand each other"),
        "one package source and one version for all machines; slurmdbd, slurmctld, slurmd in turn",
        level=Level.WARNING if talk else Level.ERROR,
    )


RULES: Final = (
    Rule("real-memory-missing", E, Kind.SLURM, "RealMemory is unset, which is 1 MiB.",
         "RealMemory=97 % of what slurmd -C reports", real_memory_missing, "F08", _MANUAL),
    Rule("real-memory-wrong", E, Kind.SLURM, "RealMemory is more than a machine has, or half.",
         "RealMemory=97 % of what slurmd -C reports", real_memory_high, "F07", "facts"),
    Rule("cpus-wrong", E, Kind.SLURM, "CPUs, sockets, cores or threads are not the machine's.",
         "what slurmd -C reports", cpus, "F09", "facts"),
    Rule("cpu-layout", W, Kind.SLURM, "CPUs is not a product of sockets, cores and threads.",
         "what slurmd -C reports", cpu_layout, "F09", "Slurm's read_config.c"),
    Rule("cpus-missing", W, Kind.SLURM, "Neither CPUs nor sockets or cores: one core.",
         "the NodeName line of slurmd -C", cpus_missing, "F09", "Slurm's read_config.c"),
    Rule("procs-old-name", W, Kind.SLURM, "Procs, an old name of CPUs.", "CPUs", old_names,
         "", "Slurm's read_config.c"),
    Rule("node-state", W, Kind.SLURM, "State=DOWN or DRAIN in the file.", "State=UNKNOWN", states,
         "", _MANUAL),
    Rule("node-names", E, Kind.SLURM, "A hostlist that is none, a node declared twice, addresses "
         "that do not pair with names.", "each node once", names, "",
         "Slurm's read_config.c"),
    Rule("host-differs", E, Kind.SLURM, "A machine has another host name or address.",
         "its own", hostnames, "F05, F53", "facts"),
    Rule("slurm-uid-differs", E, Kind.SLURM, "SlurmUser has unlike numeric ids.",
         "one id", users, "F17", "facts"),
    Rule("slurm-version-mix", W, Kind.SLURM, "Machines have unlike versions of Slurm.",
         "one version", versions, "F19", "upgrades.html"),
)  # fmt: skip
