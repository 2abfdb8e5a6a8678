"""Jobs of a proof: where they go, how they start, and limits that hold them back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, LiteralString

from corral.hosts.quote import NOTHING, Script, call, sh
from corral.hosts.transport import Result
from corral.inspect.jobs import HistoryColumns
from corral.plurals import plural
from corral.prove.context import (
    ProveContext,
    as_user,
    clip,
    failed,
    left_out,
    output_of,
    verdict_of,
)
from corral.prove.model import Evidence, Judgement, Verdict
from corral.prove.probe import DEVICES, lines
from corral.prove.survey import Survey, fenced, island, survey
from corral.slurm.records import Node
from corral.slurm.states.jobs import JobState
from corral.slurm.states.reasons import explain
from corral.spec.slurm.hostlist import expand, fold

_LIMIT: Final = re.compile(r"\b(?:(?:Assoc|QOS)[A-Z]\w+|AccountingPolicy|InvalidQOS)\b")
HINT: Final = (
    "sacctmgr show assoc where user={user}, and sacctmgr show qos, show the limit (a partition's "
    "QOS: scontrol show partition). Where the cluster file declares limits, corral up makes the "
    "user corral-proof, whom none holds back; one set by hand: lift it for that user, or give it a "
    "QOS with OverPartQOS"
)


def limit_of(text: str) -> str:
    """The first word of Slurm's for a limit that a text contains, "" for none."""
    match = _LIMIT.search(text)
    return match[0] if match else ""


def watched(ctx: ProveContext, script: Script, suffix: LiteralString) -> Script:
    """The script, which starts jobs of that name, with a line ``@ waits REASON`` while one waits.

    srun --immediate reports only that it got no nodes, and accounting forgets the reason.
    """
    return call("prove/jobs.sh", "watched", ctx.user, f"{ctx.job_name}{suffix}", str(script))


def held_back(text: str) -> str:
    """The limit for which jobs of a ``watched`` script waited last, "" for none."""
    reasons = [limit_of(rest) for key, rest in lines(text) if key == "waits"]
    return reasons[-1] if reasons else ""


def by_limit(judged: Judgement, reason: str, user: str) -> Judgement:
    """A failure whose cause is a limit, named."""
    if judged.verdict is not Verdict.FAIL or not reason:
        return judged
    text = f"a limit holds back the jobs of {user}: {explain(reason)}"
    if reason not in text:
        text += f" ({reason})"
    return replace(judged, summary=f"{text}; {judged.summary}", hint=HINT.format(user=user))


WAIT: Final = 20  # seconds a job of the proof may wait for its nodes; they were free a moment ago
MEMORY: Final = 64  # MiB for each job of the proof
_RECORDED: Final = HistoryColumns(("JobIDRaw", "State", "NodeList", "AllocTRES"))
_TASK: Final = call("prove/node.sh", "task_hello", DEVICES)


@dataclass(frozen=True, slots=True)
class Batch:
    """Nodes that one job can span: of one partition and island, all with or all without GPUs."""

    partition: str
    nodes: tuple[Node, ...]
    gpu: bool

    @property
    def fenced(self) -> bool:
        """True where jobs are fenced from each other by cgroups."""
        return all(fenced(node) for node in self.nodes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return tuple(node.name for node in self.nodes)


@dataclass(frozen=True, slots=True)
class Launched:
    """One batch's first job: what its srun printed, read."""

    batch: Batch
    command: str
    result: Result

    @property
    def hello(self) -> dict[str, tuple[str, str]]:
        """Node to job id and the host name it printed."""
        by_node: dict[str, tuple[str, str]] = {}
        for key, rest in lines(self.result.stdout):
            match (key, rest.split()):
                case ("hello", [job, node, host]):
                    by_node[node] = job, host
                case _:
                    pass
        return by_node


def batches(nodes: tuple[Node, ...], *, by_gpu: bool = True) -> tuple[Batch, ...]:
    """Share nodes out to as few partitions as possible; nodes in no partition are left out."""
    left = list(nodes)
    parts: list[Batch] = []
    while left:
        counts: dict[str, int] = {}
        for node in left:
            for name in node.partitions:
                counts[name] = counts.get(name, 0) + 1
        if not counts:
            break
        best = max(counts, key=lambda name: counts[name])
        mine = [node for node in left if best in node.partitions]
        left = [node for node in left if best not in node.partitions]
        kinds = (True, False) if by_gpu else (None,)
        for kind in kinds:
            some = [n for n in mine if kind is None or (n.gpus > 0) is kind]
            alike: dict[tuple[str, bool], list[Node]] = {}
            for node in some:
                alike.setdefault((island(node), fenced(node)), []).append(node)
            parts += [Batch(best, tuple(same), kind is True) for same in alike.values()]
    return tuple(parts)


def srun(
    ctx: ProveContext,
    batch: Batch,
    task: Script,
    *,
    gpus: int = 0,
    suffix: LiteralString = "",
    more: Script = NOTHING,
) -> Script:
    """An srun that starts ``task`` (shell text) once on each node of the batch, one core each."""
    count = len(batch.nodes)
    return sh(
        "timeout -k 5 {limit} srun -Q -J {name} -p {partition} -w {nodes} -N {count} -n {count}"
        " --ntasks-per-node=1 -c 1 --mem={memory}M -t 2 --immediate={wait} --gres={gres} {more}"
        " sh -c {task}",
        limit=round(WAIT + ctx.slack) + 40,
        name=f"{ctx.job_name}{suffix}",
        partition=batch.partition,
        nodes=fold(batch.names),
        count=count,
        memory=MEMORY,
        wait=round(WAIT + ctx.slack),
        gres=f"gpu:{gpus}" if gpus else "none",
        more=more,
        task=str(task),
    )


def shown(batch: Batch, what: str, *, gpus: int = 0) -> str:
    """The srun as one would type it, for evidence."""
    gres = f" --gres=gpu:{gpus}" if gpus else ""
    return f"srun -p {batch.partition} -w {fold(batch.names)} -N {len(batch.nodes)}{gres} {what}"


async def run_as_user(ctx: ProveContext, script: Script) -> Result:
    """Run a script as the job user on the controller; it may wait for nodes."""
    return await ctx.control(as_user(ctx.user, script), timeout=WAIT + 60)


async def launched(ctx: ProveContext) -> tuple[Launched, ...]:
    """The first job of each batch, once per proof."""
    return await ctx.once("launch", lambda: _launch(ctx))


async def _launch(ctx: ProveContext) -> tuple[Launched, ...]:
    runs: list[Launched] = []
    for batch in batches((await survey(ctx)).free):
        gpus = 1 if batch.gpu else 0
        script = srun(ctx, batch, _TASK, gpus=gpus, suffix="-launch")
        result = await run_as_user(ctx, watched(ctx, script, "-launch"))
        runs.append(Launched(batch, shown(batch, "hostname", gpus=gpus), result))
    return tuple(runs)


async def launch(ctx: ProveContext) -> Judgement:
    done = await launched(ctx)
    reason = held_back("\n".join(run.result.stdout for run in done))
    return by_limit(judge_launch(await survey(ctx), done), reason, ctx.user)


def judge_launch(seen: Survey, done: tuple[Launched, ...]) -> Judgement:
    """Every free node ran its share and printed its own host name."""
    if seen.usable and not seen.free:
        return left_out("other jobs run on all nodes; prove again when some are idle")
    if not seen.slurm:
        return failed(f"slurmctld did not answer: {clip(seen.slurm_output)[-200:] or 'no output'}")
    if not done:
        return failed("no node can run jobs", Evidence(seen.controller, "sinfo", seen.slurm_output))
    problems: list[str] = []
    evidence: list[Evidence] = []
    count = 0
    for run in done:
        hello = run.hello
        for name in run.batch.names:
            _, host = hello.get(name, ("", ""))
            count += 1
            if not host:
                problems.append(f"{name} did not run its share of the job")
            elif host.partition(".")[0] != name:
                problems.append(f"{name} calls itself {host}")
        figures = {name: host for name, (_, host) in hello.items()}
        evidence.append(Evidence(seen.controller, run.command, output_of(run.result), figures))
    covered = {name for run in done for name in run.batch.names}
    lost = [node.name for node in seen.free if node.name not in covered]
    problems += [f"{name} is in no partition" for name in lost]
    free = {node.name for node in seen.free}
    busy = [node.name for node in seen.usable if node.name not in free]
    good = f"srun ran on {count} of {plural(len(seen.compute), 'node')}"
    left = f"other jobs run on {fold(busy)}" if busy else ""
    judged = verdict_of(problems, f"{good}; {left}" if left else good, *evidence)
    return replace(judged, uncovered=left)


async def accounting(ctx: ProveContext) -> Judgement:
    done = await launched(ctx)
    jobs = {job: run.batch for run in done for job, _ in run.hello.values()}
    if not jobs:
        return left_out("no job of this proof ran")
    command = f"sacct -n -P -X -j {','.join(jobs)} -o {_RECORDED.format}"
    script = call(
        "prove/jobs.sh",
        "records_wait",
        ",".join(jobs),
        _RECORDED.format,
        len(jobs),
        round(15 + ctx.slack),
    )
    result = await ctx.control(script)
    shown_by = Evidence(ctx.controller, command, output_of(result))
    if not result.ok:
        return failed("sacct does not answer", shown_by)
    return judge_accounting(result.stdout, jobs, shown_by)


def judge_accounting(text: str, jobs: Mapping[str, Batch], shown_by: Evidence) -> Judgement:
    """Each job is recorded as COMPLETED with its nodes, and with its GPUs where it had some."""
    records = {str(record.id): record for record in _RECORDED.read(text)}
    problems: list[str] = []
    for job, batch in jobs.items():
        record = records.get(job)
        if record is None:
            problems.append(f"job {job} is not recorded")
            continue
        if record.state != JobState.COMPLETED:
            problems.append(f"job {job} is recorded as {record.state}")
        if set(expand(record.nodes) if record.nodes else ()) != set(batch.names):
            problems.append(f"job {job} is recorded on {record.nodes or 'no node'}")
        if batch.gpu and record.gpus != len(batch.nodes):
            problems.append(f"job {job} is recorded without its GPUs ({record.tres})")
    figures = {
        job: f"{record.state} {record.nodes} {record.tres}"
        if (record := records.get(job))
        else "missing"
        for job in jobs
    }
    evidence = Evidence(shown_by.node, shown_by.command, shown_by.output, figures)
    good = f"job {', '.join(jobs)} recorded with nodes and resources"
    return verdict_of(problems, good, evidence)
