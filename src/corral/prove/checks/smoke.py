"""Smoke checks: is every part there, and do all nodes agree? All judge one survey. Pure judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final

from corral.inspect.facts import Facts
from corral.inspect.machine import CLOCK, DIRECTORY, NAME_S, NAMES, NO_ANSWER
from corral.inspect.question import MachineState
from corral.inspect.rules import (
    NameFault,
    NameProblem,
    UnitState,
    clock_offset,
    differing_files,
    directory_problems,
    memory_short,
    memory_unused,
    name_problems,
    no_real_memory,
    unit_state,
    version_fault,
)
from corral.inspect.services import UNITS
from corral.inspect.slurm import CONFIG, IN_USE, INNER_S, MADE_FROM, VERSIONS
from corral.plurals import plural
from corral.prove.context import ProveContext, clip, failed, passed, verdict_of, warned
from corral.prove.model import Evidence, Figure, Judgement
from corral.prove.survey import Survey, not_read, survey, units_of
from corral.slurm import records
from corral.slurm.tres import of_type
from corral.spec.nodes import Node
from corral.spec.slurm.hostlist import fold

UNKNOWN: Final = "?"
NOT_SEEN: Final = "not seen"
CLOCK_WARN: Final = 2.0
CLOCK_FAIL: Final = 30.0  # munge and auth/slurm refuse at 300 s (F02): fail long before


async def reached(ctx: ProveContext) -> Judgement:
    seen = await survey(ctx)
    return judge_reached(seen.nodes.values(), ctx.unread)


async def nodes(ctx: ProveContext) -> Judgement:
    return judge_nodes(await survey(ctx))


async def services(ctx: ProveContext) -> Judgement:
    seen = await survey(ctx)
    return judge_services(seen, {name: units_of(ctx, name) for name in seen.nodes})


async def names(ctx: ProveContext) -> Judgement:
    addresses = {name: facts.address for name, facts in ctx.facts.items() if facts}
    # Where the tailnet is in user space, its address is on no interface of the node itself.
    alone = {n for n, f in ctx.facts.items() if f and f.mesh.member and not f.mesh.kernel}
    return judge_names(await survey(ctx), addresses, alone)


async def versions(ctx: ProveContext) -> Judgement:
    return judge_versions(await survey(ctx))


async def clocks(ctx: ProveContext) -> Judgement:
    return judge_clocks((await survey(ctx)).nodes.values())


async def config(ctx: ProveContext) -> Judgement:
    return judge_config(await survey(ctx))


async def directory(ctx: ProveContext) -> Judgement:
    return judge_directory((await survey(ctx)).nodes.values())


async def registered(ctx: ProveContext) -> Judgement:
    return judge_registered(await survey(ctx), ctx.nodes, ctx.facts)


def judge_reached(seen: Collection[MachineState], unread: Mapping[str, str]) -> Judgement:
    """Every node answered, and none much later than the others."""
    shown = [
        Evidence(
            host.node,
            "all questions of the smoke checks",
            f"answered in {host.seconds:.2f} s",
            {"seconds": round(host.seconds, 2)},
        )
        for host in seen
        if host.error is None
    ]
    problems = [f"{node} {why}" for node, why in unread.items()]
    slowest = max((host.seconds for host in seen), default=0.0)
    good = f"{plural(len(seen), 'node')} answered, the slowest in {slowest:.1f} s"
    return verdict_of(problems, good, *shown)


def judge_nodes(seen: Survey) -> Judgement:
    """Every compute node is known to slurmctld and can run jobs."""
    if not seen.slurm:
        return _silent(seen)
    problems: list[str] = []
    for name in seen.compute:
        node = seen.slurm.get(name)
        if node is None:
            problems.append(f"{name} is not known to slurmctld")
        elif not node.usable:
            why = f" ({node.why_out})" if node.why_out else ""
            problems.append(f"{name} is {str(node.state).lower()}{why}")
    figures: dict[str, Figure] = {name: str(node.state) for name, node in seen.slurm.items()}
    shown = Evidence(seen.controller, "scontrol show nodes -o", clip(seen.slurm_output), figures)
    good = f"{plural(len(seen.compute), 'node')} up: {fold(seen.compute)}"
    return verdict_of(problems, good, shown)


def judge_services(seen: Survey, units_by_node: Mapping[str, tuple[str, ...]]) -> Judgement:
    """Every unit a node needs is active; munge where munge authenticates."""
    problems = _unreachable(seen.nodes.values())
    munge = settings(seen.nodes[seen.controller]).get("AuthType") == "auth/munge"
    shown: list[Evidence] = []
    count = 0
    for host in _reached(seen):
        states = {name: unit.shown for name, unit in host.by_key(UNITS).items()}
        units = (*units_by_node[host.node], *(("munge",) if munge else ()))
        for unit in units:
            answer = host.by_key(UNITS).get(unit)
            count += 1
            if answer is None or unit_state(answer.state) is not UnitState.ACTIVE:
                problems.append(f"{unit} on {host.node} is {states.get(unit, NOT_SEEN)}")
        figures: dict[str, Figure] = {unit: states.get(unit, NOT_SEEN) for unit in units}
        command = f"systemctl is-active {' '.join(units)}"
        shown.append(Evidence(host.node, command, clip(host.text(UNITS)), figures))
    return verdict_of(problems, f"{count} services active", *shown)


def judge_directory(seen: Collection[MachineState]) -> Judgement:
    """On every node a server answers to the node's password, and SSSD knows the groups."""
    problems = _unreachable(seen)
    shown: list[Evidence] = []
    for host in seen:
        if host.error is not None:
            continue
        answers = host.get(DIRECTORY) or ()
        faults = directory_problems(host)
        servers = [fault for fault in faults if not fault.group]
        # One server is enough; SSSD asks the next one.
        good = any(answer.good and answer.server for answer in answers)
        counted = faults if not good else [fault for fault in faults if fault.group]
        problems += [f"on {host.node} {fault.text}" for fault in counted]
        if not answers:
            problems.append(f"{host.node} has no answer of the directory")
        figures: dict[str, Figure] = {"servers that do not answer": len(servers)}
        shown_answers = "\n".join(answer.shown for answer in answers)
        shown.append(Evidence(host.node, "ldapsearch; getent group", clip(shown_answers), figures))
    return verdict_of(problems, f"the directory answers on {plural(len(seen), 'node')}", *shown)


def judge_names(
    seen: Survey, addresses: Mapping[str, str], alone: Collection[str] = ()
) -> Judgement:
    """Every node resolves every node's name to the same address, never to 127.x.

    Those ``alone`` find themselves by another address than others find them by.
    """
    problems = _unreachable(seen.nodes.values())
    shown: list[Evidence] = []
    for host in _reached(seen):
        expected = {n: a for n, a in addresses.items() if n != host.node or n not in alone}
        for problem in name_problems(host, tuple(seen.nodes), expected):
            later = problem.fault is NameFault.ALSO_LOOPBACK
            # Programs take the first address.
            if not later or problem.expected not in ("", problem.addresses[0]):
                problems.append(_named(host.node, problem))
        table = {
            name: str(resolved.addresses[0]) if resolved.addresses else NO_ANSWER
            for name, resolved in host.by_key(NAMES).items()
            if resolved.addresses or resolved.late
        }
        command = f"getent ahostsv4 {' '.join(seen.nodes)}"
        shown.append(Evidence(host.node, command, clip(host.text(NAMES)), dict(table)))
    return verdict_of(problems, f"every node finds all {len(seen.nodes)} names", *shown)


def _named(at: str, problem: NameProblem) -> str:
    match problem.fault:
        case NameFault.UNANSWERED:
            return f"{at} could not look up {problem.name} within {NAME_S} s"
        case NameFault.MISSING:
            return f"{at} cannot resolve {problem.name}"
        case NameFault.LOOPBACK:
            return f"{at} resolves {problem.name} to {problem.addresses[0]}"
        case NameFault.ALSO_LOOPBACK | NameFault.OTHER | NameFault.LATER:
            return f"{at} resolves {problem.name} to {problem.addresses[0]}, not {problem.expected}"


def judge_versions(seen: Survey) -> Judgement:
    """Installed and running Slurm have one version on all nodes."""
    problems = _unreachable(seen.nodes.values())
    reported: list[tuple[str, str]] = []
    shown: list[Evidence] = []
    for host in _reached(seen):
        mine: dict[str, Figure] = {}
        for program, version in (host.get(VERSIONS) or {}).items():
            if program in ("slurmctld", "slurmd"):
                mine[program] = version or UNKNOWN
        if host.node == seen.controller:
            mine["slurmctld running"] = settings(host).get("SLURM_VERSION", UNKNOWN)
        if host.node in seen.compute:
            mine.setdefault("slurmd", "missing")
            registered_as = seen.slurm.get(host.node)
            mine["slurmd running"] = (registered_as.version if registered_as else "") or UNKNOWN
        reported += [(f"{what} on {host.node}", str(version)) for what, version in mine.items()]
        shown.append(Evidence(host.node, "slurmd -V; slurmctld -V", host.text(VERSIONS), mine))
    counted = Counter(version for _, version in reported if version != UNKNOWN)
    usual = counted.most_common(1)[0][0] if counted else UNKNOWN
    problems += [f"{what} could not be read" for what, v in reported if v == UNKNOWN]
    known = [(what, version) for what, version in reported if version != UNKNOWN]
    problems += [f"{what} is {v}, not {usual}" for what, v in known if version_fault(v, usual)]
    return verdict_of(problems, f"Slurm {usual} everywhere", *shown)


def judge_clocks(seen: Iterable[MachineState]) -> Judgement:
    """Clocks are close; only what the round trip cannot explain counts as skew."""
    seen = list(seen)
    problems = _unreachable(seen)
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    shown: list[Evidence] = []
    for host in seen:
        if host.error:
            continue
        offset = clock_offset(host)
        if offset is None:
            problems.append(f"{host.node} reported no time: {host.text(CLOCK)!r}")
            continue
        low[host.node], high[host.node] = offset.least, offset.most
        figures: dict[str, Figure] = {
            "offset_s": round((low[host.node] + high[host.node]) / 2, 3),
            "uncertain_s": round((host.received - host.sent) / 2, 3),
        }
        shown.append(Evidence(host.node, "date +%s.%N", host.text(CLOCK), figures))
    if problems or not low:
        return failed("; ".join(problems) or "no clock was read", *shown)
    ahead, behind = max(low, key=lambda n: low[n]), min(high, key=lambda n: high[n])
    skew = max(low[ahead] - high[behind], 0.0)
    unsure = max(high.values()) - min(low.values())
    if skew >= CLOCK_WARN:
        text = f"{ahead} is at least {skew:.1f} s ahead of {behind}"
        return (failed if skew >= CLOCK_FAIL else warned)(text, *shown)
    if unsure >= CLOCK_FAIL:
        return warned(f"the answers were too slow to compare clocks within {unsure:.0f} s", *shown)
    return passed(f"clocks within {max(unsure, 0.001):.3f} s", *shown)


def judge_config(seen: Survey) -> Judgement:
    """What each node works from equals what slurmctld runs: hash of the settings, and files."""
    problems = _unreachable(seen.nodes.values())
    shown: list[Evidence] = []
    digests = _hashes(seen.nodes[seen.controller])
    for host in _reached(seen):
        state = settings(host).get("HASH_VAL", "")
        apart = host.get(MADE_FROM)
        if apart and apart.digest:
            # Separate files, made from slurmctld's (roles.slurm.pods): from the current ones?
            if not apart.is_of(digests.get("slurm.conf", "")):
                problems.append(f"slurm.conf on {host.node} is not made from slurmctld's")
            continue
        if CONFIG.name in host.cut:
            problems.append(f"scontrol on {host.node} got no answer within {INNER_S} s")
            continue
        if state != "Match":
            problems.append(f"settings on {host.node}: {state or 'slurmctld did not report them'}")
        problems += [
            f"{path} on {host.node} differs from slurmctld's"
            for path in differing_files(host.by_key(IN_USE), digests)
        ]
        text = f"{host.text(CONFIG)}\n{host.text(IN_USE)}"
        figures: dict[str, Figure] = {"HASH_VAL": state}
        command = "scontrol show config; sha256sum <where slurmd reads>/*.conf"
        shown.append(Evidence(host.node, command, clip(text), figures))
    if "slurm.conf" not in digests:
        problems.append(f"no slurm.conf was found on {seen.controller}")
    return verdict_of(problems, f"same settings on {plural(len(seen.nodes), 'node')}", *shown)


def _hashes(controller: MachineState) -> dict[str, str]:
    """The sha256 of each file of the folder that slurmctld reads, by its name."""
    folder = PurePosixPath(settings(controller).get("SLURM_CONF", "")).parent
    files = controller.by_key(IN_USE).items()
    return {path.name: digest for path, digest in files if path.parent == folder}


def judge_registered(
    seen: Survey, declared: Iterable[Node], facts: Mapping[str, Facts | None]
) -> Judgement:
    """CPUs, memory and GPUs of each node are those of the machine and of the cluster file."""
    if not seen.slurm:
        return _silent(seen)
    problems: list[str] = []
    figures: dict[str, Figure] = {}
    for node in declared:
        known = seen.slurm.get(node.name)
        if node.name not in seen.compute:
            continue
        if known is None:
            problems.append(f"{node.name} is not registered")
            continue
        gpus = node.group.gpu_count
        figures[node.name] = f"{known.cpus} CPUs, {known.memory} MiB, {known.gpus} GPUs"
        if known.gpus != gpus:
            problems.append(f"{node.name} has {known.gpus} GPUs in Slurm, {gpus} declared")
        elif len(node.group.gpu_kinds) > 1:
            problems += _types_problems(node, known)
        if no_real_memory(known):
            problems.append(f"{node.name} has no RealMemory")
        machine = facts.get(node.name)
        if machine:
            problems += _machine_problems(node, known, machine)
    shown = Evidence(seen.controller, "scontrol show nodes -o", clip(seen.slurm_output), figures)
    return verdict_of(problems, "CPUs, memory and GPUs as the machines have them", shown)


def _types_problems(node: Node, known: records.Node) -> list[str]:
    counts = {gpu.type: of_type(known.gres, gpu.type) for gpu in node.group.gpu_kinds}
    return [
        f"{node.name} has {counts[gpu.type]} GPUs of type {gpu.type} in Slurm, {gpu.count} declared"
        for gpu in node.group.gpu_kinds
        if counts[gpu.type] != gpu.count
    ]


def _machine_problems(node: Node, known: records.Node, machine: Facts) -> list[str]:
    problems: list[str] = []
    if known.cpus != machine.cpus:
        problems.append(
            f"{node.name} has {known.cpus} CPUs in Slurm, {machine.cpus} on the machine"
        )
    # A node in a container is given a share of its host's memory, and sees all of it. A missing
    # RealMemory is reported separately.
    alone = not node.group.capabilities.containers and not no_real_memory(known)
    unused = alone and memory_unused(machine.memory_mib, known.memory)
    if unused or memory_short(machine.memory_mib, known.memory):
        memory = f"{known.memory} MiB in Slurm, {machine.memory_mib} on the machine"
        problems.append(f"{node.name} has {memory}")
    return problems


def settings(host: MachineState) -> Mapping[str, str]:
    """What ``scontrol show config`` prints on that node."""
    return host.get(CONFIG) or {}


def _silent(seen: Survey) -> Judgement:
    """Slurmctld reported no node at all: nothing is known of them."""
    lines = seen.slurm_output.strip().splitlines()
    text = f"slurmctld did not answer: {lines[-1] if lines else 'scontrol printed nothing'}"
    shown = Evidence(seen.controller, "scontrol show nodes -o", clip(seen.slurm_output))
    return failed(text, shown)


def _reached(seen: Survey) -> list[MachineState]:
    return [host for host in seen.nodes.values() if host.error is None]


def _unreachable(seen: Iterable[MachineState]) -> list[str]:
    return [f"{host.node} {not_read(host.error)}" for host in seen if host.error]
