"""NCCL over the GPUs of all nodes: right results, and as fast as their hardware should be.

The program is that of ``corral bench run``, with its comparison. What it is compared with is
recognised: GPUs by the nodes' facts, links by what the job's ranks use. A node whose link does not
show its rate (a virtual card, a veth) is not recognised, and its speed is not judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Final

from corral.agents import program
from corral.errors import Code, CorralError
from corral.hosts.quote import Script, call, join, sh
from corral.plurals import plural
from corral.prove.check import ALL_CORES, Check
from corral.prove.checks.tcpxo import FABRIC as TCPXO
from corral.prove.context import (
    ProveContext,
    as_user,
    failed,
    left_out,
    output_of,
    passed,
    skipped,
    warned,
)
from corral.prove.fabric.comparison import Known, compared, with_declared
from corral.prove.fabric.corral_benchmark import read_program
from corral.prove.fabric.hardware import Link, Machine, known_hardware, recognised
from corral.prove.fabric.model import Table
from corral.prove.fabric.transport import SOCKETS
from corral.prove.fabric.verdict import Outcome, Verdict
from corral.prove.launch import WAIT, Batch, batches, by_limit, held_back, watched
from corral.prove.model import Evidence, Figure, Judgement
from corral.prove.probe import lines
from corral.prove.survey import survey
from corral.roles.machine.nccl_plugin import of_fabrics
from corral.slurm.records import Node
from corral.spec.models import ClusterSpec
from corral.spec.providers import packages_with
from corral.spec.slurm.hostlist import expand, fold
from corral.tables import read_table

COLLECTIVES: Final = "all_reduce,all_gather"
MINUTES: Final = 10
FAST_GBPS: Final = 25.0
_MANY: Final = (64 << 20, 1 << 30)
_FEW: Final = (16 << 20, 64 << 20)
"""Sizes: from 1 GiB on a fast network is at its plateau; below 25 Gb/s that takes minutes."""
_WORSE: Final = (Outcome.PASS, Outcome.UNKNOWN, Outcome.WARN, Outcome.FAIL)


@cache
def virtual_nics() -> frozenset[str]:
    """Drivers of interfaces whose rate is not that of a cable; "": no device (a veth, a bridge)."""
    packages = ("corral.prove.checks", *packages_with("virtual_nics.yaml"))
    tables = [read_table(package, "virtual_nics.yaml", tuple[str, ...]) for package in packages]
    return frozenset({"", *chain.from_iterable(tables)})


async def nccl(ctx: ProveContext) -> Judgement:
    seen = await survey(ctx)
    elsewhere = _on_tcpxo(ctx.spec)
    real = tuple(n for n in seen.free if _gpus(ctx, n) and n.name not in elsewhere)
    if not real:
        return left_out("no node with GPUs is free")
    wide = [b for b in batches(real) if len(b.nodes) * gpus_of_each(ctx, b) > 1]
    if not wide:
        several = sum(len(_gpus(ctx, node)) for node in real) > 1
        single = "core for its GPUs" if several else "GPU between them"
        return skipped(f"the free nodes have one {single}: there is nobody to send to")
    judged: list[Judgement] = []
    for batch in wide:
        script = script_of(ctx, batch, gpus_of_each(ctx, batch))
        limit = MINUTES * 60 + WAIT + 30
        result = await ctx.control(command_of(ctx, script), timeout=limit)
        shown = Evidence(ctx.controller, _shown(ctx, batch), output_of(result))
        judgement = judge_run(ctx, batch, result.stdout, result.stderr, shown)
        judged.append(by_limit(judgement, held_back(result.stdout), ctx.user))
    return together(judged)


def gpus_of_each(ctx: ProveContext, batch: Batch) -> int:
    """GPUs that a job takes of each node: as many as the node with the fewest has.

    Each is a rank with a core: of a node with fewer cores than GPUs no more than it has cores.
    """
    return min(min(len(_gpus(ctx, node)), max(node.cpus, 1)) for node in batch.nodes)


def _gpus(ctx: ProveContext, node: Node) -> tuple[str, ...]:
    """Names of a node's real GPUs that jobs may have; stand-ins have no name."""
    facts = ctx.facts.get(node.name)
    named = tuple(gpu.name for gpu in facts.gpus if gpu.name) if facts else ()
    return named[: node.gpus]


def command_of(ctx: ProveContext, script: Script) -> Script:
    """The job as its user starts it, with the reason where it waits."""
    return as_user(ctx.user, watched(ctx, script, "-nccl"))


def script_of(ctx: ProveContext, batch: Batch, gpus: int) -> Script:
    """An srun with one rank for each GPU, or for each node where there are none (gloo)."""
    first = batch.nodes[0]
    ranks = max(gpus, 1)
    smallest, largest = sizes(ctx, batch)
    arguments = (
        f"--collectives={COLLECTIVES}",
        f"--smallest={smallest}",
        f"--largest={largest}",
        "--factor=4",
        "--seconds=1",
    )
    address = sh(
        "export MASTER_ADDR={address} MASTER_PORT={port} USE_LIBUV=0",
        address=first.address,
        port=20000 + int(ctx.token, 16) % 10000,
    )
    task = join(
        [
            address,
            ctx.rank_setup(batch.partition, len(batch.nodes)),
            call("prove/node.sh", "task_collectives", "/sys", _program(), *arguments),
        ]
    )
    return sh(
        "timeout -k 5 {limit} srun -Q -J {name}-nccl -p {partition} -w {nodes} -N {count}"
        " --ntasks-per-node={ranks} --cpus-per-task={cpus} --cpu-bind=none --mem=0 --exclusive"
        " --distribution=block --kill-on-bad-exit=1 -t {minutes} --immediate={wait}"
        " --gres={gres} sh -c {task}",
        limit=MINUTES * 60 + WAIT,
        name=ctx.job_name,
        partition=batch.partition,
        nodes=fold(batch.names),
        count=len(batch.nodes),
        ranks=ranks,
        cpus=max(1, min(node.cpus for node in batch.nodes) // ranks),
        minutes=MINUTES,
        wait=round(WAIT + ctx.slack),
        gres=f"gpu:{gpus}" if gpus else "none",
        task=str(task),
    )


def sizes(ctx: ProveContext, batch: Batch) -> tuple[int, int]:
    """The smallest and the largest buffer, in bytes."""
    if _plugin(ctx.spec, batch):
        return _MANY
    data = ctx.spec.network.data
    declared = data.gbps * data.nics if data and data.gbps else 0.0
    if len(batch.nodes) == 1 or declared >= FAST_GBPS:
        return _MANY
    if data and data.fabric != "ethernet":
        return _MANY
    facts = [ctx.facts.get(name) for name in batch.names]
    fastest = [max((nic.speed_mbps for nic in f.nics), default=0) if f else 0 for f in facts]
    return _MANY if not declared and min(fastest) >= FAST_GBPS * 1000 else _FEW


@dataclass(frozen=True, slots=True)
class Shown:
    """What one node's rank reports of the node: rates in Gb/s and layers of its ports."""

    product: str = ""
    ports: tuple[tuple[float, str], ...] = ()
    interface: str = ""
    gbps: float = 0.0
    driver: str = ""

    def machine(self, gpus: tuple[str, ...]) -> Machine:
        """The node, for ``recognised``."""
        if self.ports:
            layers: dict[str, Link] = {"InfiniBand": "infiniband", "Ethernet": "roce"}
            links: set[Link | None] = {layers.get(layer) for _, layer in self.ports}
            rates = {rate for rate, _ in self.ports}
            link = links.pop() if len(links) == 1 else None
            rate = rates.pop() if len(rates) == 1 else 0.0
            if link is None:
                return Machine(gpus, product=self.product)
            return Machine(gpus, link, len(self.ports), rate, self.product)
        if self.driver in virtual_nics():
            return Machine(gpus, product=self.product)
        return Machine(gpus, "ethernet", 1, self.gbps, self.product)


def parse_shown(text: str) -> dict[str, Shown]:
    """What each node showed."""
    nodes: dict[str, Shown] = {}
    for key, rest in lines(text):
        node, _, words = rest.partition(" ")
        known = nodes.get(node, Shown())
        match (key, words.split()):
            case ("product", _):
                nodes[node] = replace(known, product=words.strip())
            case ("port", [_, rate, *layer]) if rate.isdigit():
                port = float(rate), " ".join(layer)
                nodes[node] = replace(known, ports=(*known.ports, port))
            case ("interface", [name, mbps, *driver]):
                gbps = int(mbps) / 1000 if mbps.isdigit() else 0.0
                driving = " ".join(driver)
                nodes[node] = replace(known, interface=name, gbps=gbps, driver=driving)
            case _:
                pass
    return nodes


def judge_run(
    ctx: ProveContext, batch: Batch, text: str, errors: str, evidence: Evidence
) -> Judgement:
    """The tables compared with what is known of such nodes.

    Args:
        ctx: the cluster file and the facts of its nodes.
        batch: who took part.
        text: what the job printed.
        errors: its error output.
        evidence: what to show.
    """
    without = [rest.strip() for key, rest in lines(text) if key == "notorch"]
    if without:
        nodes = fold(sorted(set(without)))
        return skipped(f"python3 has no PyTorch on {nodes}: corral bench run can use an image")
    try:
        reading, _ = read_program(text.splitlines())
    except CorralError as error:
        if error.code is not Code.PARSE_FAILED:
            raise
        last = next((line for line in reversed(errors.splitlines()) if line.strip()), "")
        return failed(f"NCCL failed over {fold(batch.names)}: {last or error.message}", evidence)
    ranks = {rank.device for table in reading.tables for rank in table.members}
    if "cpu" in ranks:
        names = fold(batch.names)
        return skipped(f"PyTorch of python3 uses no GPU on {names}: a build without CUDA?")
    shown = parse_shown(text)
    machines = [
        shown.get(node.name, Shown()).machine(_all_gpus(ctx, node.name)) for node in batch.nodes
    ]
    hardware = recognised(machines)
    if hardware and reading.transport.network not in ("", SOCKETS) and not _rdma(hardware):
        hardware = ""  # its references are of sockets, and NCCL found something faster
    known = Known(hardware=hardware, nodes=len(batch.nodes), fabric=_plugin(ctx.spec, batch))
    gpus = gpus_of_each(ctx, batch)
    known = with_declared(known, ctx.spec.network.data, nodes=len(batch.nodes), gpus=gpus)
    return judge_tables(compared(reading, known), hardware, reading.transport.network, evidence)


def _rdma(hardware: str) -> bool:
    return bool(known_hardware()[hardware].fabric)


def _all_gpus(ctx: ProveContext, node: str) -> tuple[str, ...]:
    facts = ctx.facts.get(node)
    return tuple(gpu.name for gpu in facts.gpus if gpu.name) if facts else ()


def judge_tables(
    tables: tuple[tuple[Table, Verdict], ...], hardware: str, network: str, evidence: Evidence
) -> Judgement:
    """The worst verdict of the collectives; a speed that nothing is known about is not judged."""
    table, _ = tables[0]
    figures: dict[str, Figure] = {
        "hardware": hardware or "unknown",
        "network": network or "unknown",
        "ranks": table.ranks,
        "nodes": table.nodes,
    }
    for each, verdict in tables:
        name = each.collective.value if each.collective else "unknown"
        figures[f"{name} GB/s"] = round(verdict.busbw, 3)
        figures[f"{name} verdict"] = verdict.outcome.value
        figures[f"{name} wrong"] = each.wrong
        if verdict.reference:
            figures[f"{name} reference GB/s"] = round(verdict.reference.busbw, 3)
    measured = replace(evidence, figures=figures)
    rates = ", ".join(_rate(each, verdict) for each, verdict in tables)
    where = f"{plural(table.ranks, 'GPU')} on {plural(table.nodes, 'node')}"
    kind = f" ({known_hardware()[hardware].title})" if hardware else ""
    worst = max((verdict for _, verdict in tables), key=lambda v: _WORSE.index(v.outcome))
    text = f"{rates} over {where}{kind}"
    match worst.outcome:
        case Outcome.FAIL:
            return failed(f"{worst.collective}: {worst.reasons[0]}; {text}", measured)
        case Outcome.WARN:
            return warned(f"{worst.collective}: {worst.reasons[0]}; {text}", measured)
        case _:
            return passed(text, measured)


def _rate(table: Table, verdict: Verdict) -> str:
    name = table.collective.value if table.collective else "unknown"
    if verdict.reference is None:
        return f"{name} {verdict.busbw:.4g} GB/s (nothing is known to compare it with)"
    share = verdict.busbw / verdict.reference.busbw
    return f"{name} {verdict.busbw:.4g} GB/s ({share:.0%} of {verdict.reference.busbw:.4g})"


def together(judged: list[Judgement]) -> Judgement:
    """The verdict over all batches: the worst, with the evidence of all."""
    order = ["skip", "pass", "warn", "fail"]
    worst = max(judged, key=lambda judgement: order.index(judgement.verdict.value))
    return replace(
        worst,
        summary="; ".join(judgement.summary for judgement in judged),
        evidence=tuple(shown for judgement in judged for shown in judgement.evidence),
        uncovered="; ".join(j.uncovered for j in judged if j.uncovered),
    )


def _program() -> str:
    return program("benchmarks/collectives.py")


def _shown(ctx: ProveContext, batch: Batch) -> str:
    gpus = gpus_of_each(ctx, batch)
    return (
        f"srun -p {batch.partition} -w {fold(batch.names)} -N {len(batch.nodes)} "
        f"--ntasks-per-node={gpus} --gres=gpu:{gpus} python3 collectives.py "
        f"--collectives={COLLECTIVES}"
    )


def applies(ctx: ProveContext) -> str:
    """Why there is nothing to measure; "" where nodes have GPUs that compute."""
    declared = {
        name for group in ctx.spec.groups if group.gpu_kinds for name in expand(group.nodes)
    }
    if not declared & set(ctx.compute):
        return "no node declares a GPU"
    computing = _computing(ctx.spec) & set(ctx.compute)
    if not computing:
        return "the GPUs of these nodes are stand-ins"
    if computing <= _on_tcpxo(ctx.spec):
        return "multinode.tcpxo-speed measures these nodes"
    named = {
        name
        for name, facts in ctx.facts.items()
        if name in computing and facts and any(gpu.name for gpu in facts.gpus)
    }
    return "" if named else "nvidia-smi names no GPU on any node"


def _computing(spec: ClusterSpec) -> set[str]:
    return {name for g in spec.groups if g.computing_gpus for name in expand(g.nodes)}


def _plugin(spec: ClusterSpec, batch: Batch) -> str:
    """The fabric of these nodes whose NCCL has a plugin, "" for none."""
    names = set(batch.names)
    return of_fabrics([g.fabric for g in spec.groups if g.fabric and names & set(expand(g.nodes))])


def _on_tcpxo(spec: ClusterSpec) -> set[str]:
    return {name for g in spec.groups if g.fabric == TCPXO for name in expand(g.nodes)}


NCCL_CHECKS: Final = (
    Check(
        id="multinode.nccl",
        title="NCCL is right and fast over all GPUs",
        group="multinode",
        proves="all_reduce and all_gather over all GPUs of a partition's nodes give right results. "
        "Nodes that are recognised by GPUs, links and rate (corral bench hardware), or whose rate "
        "is declared (network.data.gbps): the speed too (several nodes warn below 90 and fail "
        "below 70 % of the reference). Otherwise the figure is kept and not judged.",
        how="One srun with a rank for each GPU, by PyTorch of the nodes' python3, with the "
        "program, the environment and the comparison of corral bench run; skipped where "
        "they have no PyTorch.",
        breaks="NCCL that falls back to sockets; a slow port, cable or node; damaged data.",
        hint="F59 names a fall-back to sockets, F45 its environment; corral bench run "
        "measures pairs of nodes and names the slow one, corral doctor --log reads NCCL's own log",
        measure=nccl,
        applies=applies,
        needs=("smoke.launch",),
        cores=ALL_CORES,
    ),
)
