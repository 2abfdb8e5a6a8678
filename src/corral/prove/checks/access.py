"""Access: only those with a job on a node log in to it, and their session belongs to that job."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from corral.agents import program
from corral.errors import CorralError
from corral.hosts.framing import Inquiry, Sections
from corral.hosts.quote import Script, call, sh
from corral.hosts.transport import Result, check
from corral.inspect.jobs import running_jobs
from corral.inspect.question import Answer, inquiry, text
from corral.plurals import plural
from corral.prove.context import ProveContext, as_user, failed, left_out, verdict_of
from corral.prove.launch import (
    MEMORY,
    WAIT,
    Batch,
    batches,
    by_limit,
    limit_of,
)
from corral.prove.model import Evidence, Judgement
from corral.prove.probe import lines
from corral.prove.survey import survey
from corral.spec.nodes import guarded_of
from corral.spec.slurm.hostlist import expand, fold

EPERM: Final = "1"
REFUSED_BY: Final = "pam_slurm_adopt"
SESSION: Final = call("prove/node.sh", "session_probe", program("proof-devices.pl"))


def login(user: str, script: Script = SESSION) -> Script:
    """Log in as a user through this node's own sshd and PAM, without touching the user's keys.

    A separate sshd (inetd mode, the machine's configuration) accepts a key that lives as long as
    the script.
    """
    return call(
        "prove/node.sh",
        "login_once",
        user,
        # Quoted twice: ssh hands the words to a shell on the other side.
        str(sh("{s}", s=str(script))),
    )


async def adopt(ctx: ProveContext) -> Judgement:
    nodes = tuple(node for node in guarded_of(ctx.spec) if node not in ctx.without)
    busy = await _busy(ctx, nodes)
    asked = {n: _without_job(ctx, n) for n in nodes}
    results = await ctx.fleet.each({n: inquiry.script for n, inquiry in asked.items()})
    before = {
        n: asked[n].read(r.stdout) if isinstance(r, Result) else r for n, r in results.items()
    }
    problems = [p for n in nodes for p in judge_closed(n, before[n], busy=n in busy)]
    evidence = [_shown(n, "ssh before any job", before[n]) for n in nodes]
    free = tuple(node for node in (await survey(ctx)).free if node.name in nodes)
    if not free:
        return failed("; ".join(problems), *evidence) if problems else left_out("no idle node")
    for batch in batches(free):
        batch_problems, shown = await _entered(ctx, batch)
        problems += batch_problems
        evidence += shown
    good = f"refused without a job, part of the job with one, on {plural(len(free), 'node')}"
    limit = limit_of(" ".join(problems))
    return by_limit(verdict_of(problems, good, *evidence), limit, ctx.person)


async def _busy(ctx: ProveContext, nodes: tuple[str, ...]) -> set[str]:
    """Nodes where the job user has jobs already: it may log in there."""
    question = running_jobs(ctx.person)
    answer = check(await ctx.control(question.shell), "reading the job user's jobs")
    jobs = question.parse(answer.stdout)
    from_slurm = [name for job in jobs for name in _names(job.nodes)]
    return set(from_slurm) & set(nodes)


def _names(hostlist: str) -> Iterable[str]:
    return expand(hostlist) if hostlist[:1].isalnum() else ()


_USER: Final = Answer("user", text)
_EXEMPT: Final = Answer("exempt", text)


def _without_job(ctx: ProveContext, name: str) -> Inquiry:
    groups = {node.name: node.group for node in ctx.nodes}
    group = groups[name]
    exempt = group.ssh.user if group.capabilities.owned else "root"
    return inquiry((_USER.by(login(ctx.person)), _EXEMPT.by(login(exempt))))


def judge_closed(node: str, answer: Sections | CorralError, *, busy: bool) -> list[str]:
    """Refused by pam_slurm_adopt, and Corral's own login user let in."""
    if isinstance(answer, CorralError):
        return [f"{node} cannot be reached ({answer.message})"]
    texts = answer.texts()
    if set(texts) != {_USER.name, _EXEMPT.name}:
        return [f"{node}: incomplete response: who may log in there is unknown"]
    shown, exempt = _USER.read(texts), _EXEMPT.read(texts)
    problems: list[str] = []
    if not busy and "@ in " in shown:
        problems.append(f"{node} lets a user in who has no job there")
    elif not busy and REFUSED_BY not in shown:
        why = shown.strip()[-200:] or "no output"
        problems.append(f"{node} refuses, but not by {REFUSED_BY}: {why}")
    if "@ in " not in exempt:
        problems.append(f"{node} locks Corral's own login user out")
    return problems


async def _entered(ctx: ProveContext, batch: Batch) -> tuple[list[str], list[Evidence]]:
    """One job on all nodes; where a limit of the user forbids that, one after the other.

    The user logs in, so the job is the user's own, and within the user's limits.
    """
    first, evidence = await _with_job(ctx, batch)
    if not limit_of(" ".join(first)):
        return first, evidence
    problems: list[str] = []
    for node in batch.nodes:
        node_problems, shown = await _with_job(ctx, Batch(batch.partition, (node,), gpu=False))
        problems += node_problems
        evidence += shown
        if limit_of(" ".join(node_problems)):
            break
    return problems, evidence


async def _with_job(ctx: ProveContext, batch: Batch) -> tuple[list[str], list[Evidence]]:
    started = await ctx.control(as_user(ctx.person, _start(ctx, batch)), timeout=WAIT + 30)
    job = started.stdout.strip()
    if not started.ok or not job.isdigit():
        shown = Evidence(ctx.controller, "sbatch", started.tail)
        await _end(ctx)
        return [f"no job starts on {fold(batch.names)}: {started.tail[-200:]}"], [shown]
    try:
        answers = await ctx.fleet.each({n: login(ctx.person) for n in batch.names})
    finally:
        await asyncio.shield(_end(ctx))
    problems = [p for n, a in answers.items() for p in judge_adopted(n, a, job, gpu=batch.gpu)]
    return problems, [_shown(n, f"ssh while job {job} runs", a) for n, a in answers.items()]


def judge_adopted(node: str, answer: Result | CorralError, job: str, *, gpu: bool) -> list[str]:
    """Let in, inside the job's cgroup, with no more GPUs than the job's one."""
    if isinstance(answer, CorralError):
        return [f"{node} cannot be reached ({answer.message})"]
    report = lines(answer.stdout)
    if not any(key == "in" for key, _ in report):
        return [f"{node} refuses a user who has a job there: {answer.stdout.strip()[-200:]}"]
    problems: list[str] = []
    if ("cgroup", f"job_{job}") not in report:
        problems.append(f"{node}: the session is outside of the job's cgroup")
    opened = [rest for key, rest in report if key == "dev" and not rest.endswith(f" {EPERM}")]
    if len(opened) > int(gpu):
        problems.append(f"{node}: the session reaches {len(opened)} GPUs, its job has {int(gpu)}")
    return problems


def _start(ctx: ProveContext, batch: Batch) -> Script:
    """A job on all nodes of the batch; prints its number when it runs."""
    count = len(batch.nodes)
    return call(
        "prove/jobs.sh",
        "job_running",
        WAIT,
        *("-J", f"{ctx.job_name}-adopt", "-p", batch.partition, "-w", fold(batch.names)),
        *("-N", count, "-n", count, "--ntasks-per-node=1", "-c", 1, f"--mem={MEMORY}M", "-t", 3),
        f"--gres={'gpu:1' if batch.gpu else 'none'}",
    )


async def _end(ctx: ProveContext) -> None:
    """End the check's jobs, and wait until they are gone."""
    script = call("prove/jobs.sh", "jobs_cancel", ctx.person, f"{ctx.job_name}-adopt")
    await ctx.control(script)


def _shown(node: str, what: str, answer: Result | Sections | CorralError) -> Evidence:
    if isinstance(answer, Sections):
        text = answer.shown()
    else:
        text = str(answer) if isinstance(answer, CorralError) else answer.stdout.strip()
    return Evidence(node, what, text[-2000:])
