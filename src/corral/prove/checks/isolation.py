"""Isolation: a job gets the GPUs, cores and memory it asked for, and cannot reach the others'."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from corral.agents import program
from corral.hosts.quote import Script, call
from corral.hosts.transport import Result
from corral.plurals import plural
from corral.prove.checks.ranks import called
from corral.prove.context import (
    ProveContext,
    failed,
    left_out,
    output_of,
    skipped,
    verdict_of,
)
from corral.prove.launch import (
    MEMORY,
    Batch,
    batches,
    launched,
    run_as_user,
    shown,
    srun,
)
from corral.prove.model import Evidence, Figure, Judgement
from corral.prove.probe import Probe, lines, parse_probes
from corral.prove.survey import Survey, fenced, survey
from corral.runtime.tasks import concurrently
from corral.slurm.records import Node
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of
from corral.spec.slurm.hostlist import fold

EPERM: Final = 1  # what the devices cgroup answers
# 0: opened. The driver answers the rest: no such device or address, no such device, I/O error.
LET_IN: Final = frozenset({0, 6, 19, 5})
WORDS: Final[Mapping[int, str]] = MappingProxyType(
    {0: "opens", 1: "not permitted", 2: "missing", 5: "I/O error", 6: "no driver", 13: "file mode"}
)
_SOURCES: Final = (
    "GPUs are declared as stand-ins: nothing computes on them",
    "GPUs are declared as this machine's",
)
HOG: Final = 4 * MEMORY  # MiB that the greedy job takes

_NEIGHBOUR: Final = call("prove/node.sh", "task_neighbour")
_OOM: Final = re.compile(r"(?:slurmstepd-)?(\S+?): error: Detected \d+ oom[_ ]kill", re.IGNORECASE)


async def devices(ctx: ProveContext) -> Judgement:
    runs = [run for run in await launched(ctx) if run.batch.gpu and run.batch.fenced]
    if not runs:
        return _none_idle(await survey(ctx), "has a GPU and cgroups", lambda n: bool(n.gpus))
    without: dict[str, Probe] = {}
    evidence: list[Evidence] = []
    for batch, result in await called(ctx):
        without |= parse_probes(result.stdout)
        evidence.append(_evidence(ctx, batch, result, gpus=0))
    problems: list[str] = []
    for run in runs:
        own = parse_probes(run.result.stdout)
        for name in run.batch.names:
            problems += judge_devices(name, own.get(name), without.get(name))
        evidence.append(_evidence(ctx, run.batch, run.result, gpus=1))
    names = [name for run in runs for name in run.batch.names]
    good = f"own GPU opens, all others refused, on {plural(len(names), 'node')}"
    return verdict_of(problems, good + gpu_source(ctx.spec, names), *evidence)


def gpu_source(spec: ClusterSpec, names: Collection[str]) -> str:
    """What the GPUs of these nodes are by the cluster file, as the end of a summary.

    "" for machines that are not containers: those have no GPUs but their own.
    """
    by_source: dict[str, list[str]] = {}
    for node in nodes_of(spec):
        group = node.group
        if node.name in names and group.gpu_kinds and group.capabilities.containers:
            words = _SOURCES[bool(group.computing_gpus)]
            by_source.setdefault(words, []).append(node.name)
    if len(by_source) < 2:  # noqa: PLR2004 - one kind
        return "".join(f"; {words}" for words in by_source)
    return "".join(f"; {words} ({fold(nodes)})" for words, nodes in by_source.items())


def _none_idle(seen: Survey, what: str, fits: Callable[[Node], bool]) -> Judgement:
    """No idle node can be tried: none is like that at all, or those that are have work."""
    if any(fenced(node) and fits(node) for node in seen.slurm.values()):
        return left_out(f"no idle node {what}")
    return skipped(f"no node {what}")


def _many_cores(node: Node) -> bool:
    return node.cores > 1


def judge_devices(node: str, own: Probe | None, without: Probe | None) -> list[str]:
    """A job with one GPU opens just that one, a job without opens none."""
    if own is None or without is None:
        return [f"{node} did not run the probe"]
    if not own.devices:
        return [f"{node} has no /dev/nvidia* device"]
    if len(own.gpus) != 1:
        return [f"{node} gave {len(own.gpus)} GPUs to a job that asked for one"]
    mine = _device(own.gpus[0], own.devices)
    problems: list[str] = []
    for path, errno in own.devices.items():
        if path == mine and errno not in LET_IN:
            problems.append(f"{node}: a job cannot open its own {path} ({_word(errno)})")
        if path != mine and errno != EPERM:
            problems.append(f"{node}: a job with {mine} reaches {path} ({_word(errno)})")
    for path, errno in without.devices.items():
        if errno != EPERM:
            problems.append(f"{node}: a job without GPUs reaches {path} ({_word(errno)})")
    return problems


def _device(gpu: int, paths: Mapping[str, int]) -> str:
    named = f"/dev/nvidia{gpu}"
    if named in paths:
        return named
    ordered = sorted(paths, key=lambda path: (len(path), path))
    return ordered[gpu] if gpu < len(ordered) else named


def _word(errno: int) -> str:
    return WORDS.get(errno, f"error {errno}")


async def cores(ctx: ProveContext) -> Judgement:
    problems: list[str] = []
    evidence: list[Evidence] = []
    count = 0
    for run in await launched(ctx):
        seen = parse_probes(run.result.stdout)
        several = [node for node in run.batch.nodes if node.cores > 1 and fenced(node)]
        count += len(several)
        for node in several:
            problems += judge_cores(node, seen.get(node.name))
        if several:
            evidence.append(_evidence(ctx, run.batch, run.result, gpus=int(run.batch.gpu)))
    if not count:
        return _none_idle(await survey(ctx), "has cgroups and more than one core", _many_cores)
    return verdict_of(problems, f"a one-core job keeps to it on {plural(count, 'node')}", *evidence)


def judge_cores(node: Node, seen: Probe | None) -> list[str]:
    """A job with one core cannot run on the node's other cores, even if it tries."""
    if seen is None:
        return [f"{node.name} did not run the probe"]
    most = max(node.threads, 1)
    if seen.allowed > most:
        return [f"{node.name}: a job with 1 core of {node.cores} runs on {seen.allowed} CPUs"]
    return []


def _evidence(ctx: ProveContext, batch: Batch, run: Result, *, gpus: int) -> Evidence:
    figures: dict[str, Figure] = {}
    for node, probe in parse_probes(run.stdout).items():
        figures[f"{node} CPUs given"] = probe.given
        figures[f"{node} CPUs reached"] = probe.allowed
        for path, errno in probe.devices.items():
            figures[f"{node} {path}"] = _word(errno)
    what = "sh -c 'taskset -pc 0-4095 $$; open each /dev/nvidia*'"
    return Evidence(ctx.controller, shown(batch, what, gpus=gpus), output_of(run), figures)


async def memory(ctx: ProveContext) -> Judgement:
    usable = tuple(n for n in (await survey(ctx)).free if fenced(n))
    if not usable:
        return _none_idle(await survey(ctx), "has cgroups", lambda _: True)
    roomy = batches(tuple(n for n in usable if n.cores > 1), by_gpu=False)
    tight = batches(tuple(n for n in usable if n.cores == 1), by_gpu=False)
    runs = [(batch, _memory_script(ctx, batch, neighbour=True)) for batch in roomy]
    runs += [(batch, _memory_script(ctx, batch, neighbour=False)) for batch in tight]
    if not runs:
        return failed("no idle node is in a partition")
    results = await concurrently(*(run_as_user(ctx, script) for _, script in runs))
    problems: list[str] = []
    evidence: list[Evidence] = []
    for (batch, _), result in zip(runs, results, strict=True):
        problems += judge_memory(batch.names, full_output_of(result), neighbour=batch in roomy)
        what = f"perl -e '$x = q(a) x ({HOG} << 20)'"
        command = f"{shown(batch, what)} --mem={MEMORY}M"
        evidence.append(Evidence(ctx.controller, command, output_of(result)))
    alone = f"; no room for a neighbour on {len(usable) - sum(len(b.nodes) for b in roomy)}"
    good = f"the greedy job is killed, its neighbour lives, on {plural(len(usable), 'node')}"
    return verdict_of(problems, good + (alone if tight else ""), *evidence)


def full_output_of(result: Result) -> str:
    """Both streams, uncut."""
    return f"{result.stdout}\n{result.stderr}"


def judge_memory(nodes: Iterable[str], text: str, *, neighbour: bool) -> list[str]:
    """On each node the greedy job was killed, and the job next to it ended normally."""
    report = lines(text)
    exits = dict(rest.split(" ", 1) for key, rest in report if key == "hog" and " " in rest)
    alive = {rest for key, rest in report if key == "alive"}
    oom = {name.rpartition("-")[2] or name for name in _OOM.findall(text)} | set(_OOM.findall(text))
    problems: list[str] = []
    for name in nodes:
        end = exits.get(name, "")
        if end == "0":
            problems.append(f"{name}: a job took {HOG} MiB though it asked for {MEMORY}")
        elif name not in oom and end != "137":
            problems.append(
                f"{name}: the greedy job was not killed for memory ({end or 'no output'})"
            )
        if neighbour and name not in alive:
            problems.append(f"{name}: the job next to the greedy one did not survive")
    return problems


def _memory_script(ctx: ProveContext, batch: Batch, *, neighbour: bool) -> Script:
    greedy = call(
        "prove/node.sh",
        "task_memory",
        program("proof-memory.pl"),
        HOG,
    )
    hog = srun(ctx, batch, greedy, suffix="-hog")
    if not neighbour:
        return hog
    return call(
        "prove/jobs.sh",
        "neighbour_run",
        ctx.job_name,
        len(batch.nodes),
        str(srun(ctx, batch, _NEIGHBOUR, suffix="-neighbour")),
        str(hog),
    )
