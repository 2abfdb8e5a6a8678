"""Several nodes in one job: every rank runs and reaches the others, by TCP and by MPI.

"Each rank believes it is alone" is how MPI fails under Slurm, and nodes rarely have mpicc or
mpi4py. So there are two programs without a compiler. One speaks PMI-2 over ``PMI_FD``, in perl: it
proves Slurm's half with no MPI at all. The other loads the nodes' MPI library by ctypes: Open MPI
by the addresses of its symbols, MPICH by the numbers of its handles, both unchanged since their
first ABI (MPI-5 has a standard one). PMIx without an MPI library is not tried: its client protocol
is not text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from corral.agents import program
from corral.hosts.quote import Script, call, sh
from corral.hosts.transport import Result
from corral.inspect.slurm import MPI
from corral.plurals import plural
from corral.prove.context import (
    ProveContext,
    failed,
    left_out,
    output_of,
    skipped,
    verdict_of,
)
from corral.prove.launch import (
    Batch,
    batches,
    run_as_user,
    shown,
    srun,
)
from corral.prove.model import Evidence, Figure, Judgement
from corral.prove.probe import PROBE, lines
from corral.prove.survey import Survey, survey

ALL_PAIRS: Final = 16  # up to so many ranks each one calls each other one; beyond that, a ring

# The job has no GPU, so its probe also shows which GPUs stay closed to it.


async def ranks(ctx: ProveContext) -> Judgement:
    runs = await _several(ctx)
    if not runs:
        return none_wide(await survey(ctx))
    problems: list[str] = []
    evidence: list[Evidence] = []
    for batch, result in runs:
        by_rank = parse_ranks(result.stdout)
        problems += judge_ranks(batch.names, by_rank)
        figures: dict[str, Figure] = {f"rank {r}": node for r, (node, _) in by_rank.items()}
        evidence.append(Evidence(ctx.controller, shown(batch, "hello"), output_of(result), figures))
    count = sum(len(batch.nodes) for batch, _ in runs)
    return verdict_of(
        problems, f"one job over {plural(count, 'node')}, each rank answered", *evidence
    )


async def tcp(ctx: ProveContext) -> Judgement:
    runs = await _several(ctx)
    if not runs:
        return none_wide(await survey(ctx))
    problems: list[str] = []
    evidence: list[Evidence] = []
    count = 0
    for batch, result in runs:
        by_rank = parse_ranks(result.stdout)
        if len(by_rank) < len(batch.nodes):
            return failed("the ranks did not all start", Evidence("", "srun", output_of(result)))
        got = parse_calls(result.stdout)
        expected = pairs(len(by_rank))
        count += len(expected)
        problems += judge_calls({r: node for r, (node, _) in by_rank.items()}, expected, got)
        figures: dict[str, Figure] = {"calls wanted": len(expected), "calls received": len(got)}
        command = shown(batch, "each rank calls the others over TCP")
        evidence.append(Evidence(ctx.controller, command, output_of(result), figures))
    return verdict_of(problems, f"{count} connections between ranks, all received", *evidence)


def pairs(count: int) -> set[tuple[int, int]]:
    """Who calls whom (caller, called): all pairs, or a ring and everyone the first."""
    return {
        (a, b)
        for a in range(count)
        for b in (range(count) if count <= ALL_PAIRS else {(a + 1) % count, 0})
        if a != b
    }


def parse_ranks(text: str) -> dict[int, tuple[str, int]]:
    """Rank to its node and to the number of ranks that it knows."""
    by_rank: dict[int, tuple[str, int]] = {}
    for key, rest in lines(text):
        match (key, rest.split()):
            case ("rank", [rank, node, count, _]) if rank.isdigit() and count.isdigit():
                by_rank[int(rank)] = node, int(count)
            case _:
                pass
    return by_rank


def parse_calls(text: str) -> set[tuple[int, int]]:
    """(caller, called) of each call that the called rank reports."""
    calls: set[tuple[int, int]] = set()
    for key, rest in lines(text):
        match (key, rest.split()):
            case ("call", [called_rank, caller, *_]) if called_rank.isdigit() and caller.isdigit():
                calls.add((int(caller), int(called_rank)))
            case _:
                pass
    return calls


def judge_ranks(nodes: tuple[str, ...], by_rank: dict[int, tuple[str, int]]) -> list[str]:
    """Ranks 0 to N-1 ran, one on each node, and all know that they are N."""
    problems = [f"rank {r} did not run" for r in range(len(nodes)) if r not in by_rank]
    ran = {node for node, _ in by_rank.values()}
    problems += [f"no rank ran on {name}" for name in nodes if name not in ran]
    for rank, (node, count) in by_rank.items():
        if count != len(nodes):
            problems.append(f"rank {rank} on {node} knows of {count} ranks")
    return problems


def judge_calls(
    node_of: dict[int, str], expected: set[tuple[int, int]], got: set[tuple[int, int]]
) -> list[str]:
    """Each expected call was received."""
    lost = sorted(expected - got)
    return [f"{node_of.get(a, a)} cannot reach {node_of.get(b, b)} over TCP" for a, b in lost]


def none_wide(seen: Survey) -> Judgement:
    """No job of several nodes can run: no partition has two nodes, or not enough are idle."""
    known = tuple(seen.slurm[name] for name in seen.compute if name in seen.slurm)
    if known and not any(batch.nodes[1:] for batch in batches(known, by_gpu=False)):
        return skipped("no partition has two nodes")
    return left_out("fewer than two idle nodes share a partition")


async def called(ctx: ProveContext) -> tuple[tuple[Batch, Result], ...]:
    """Run the job over each partition's nodes, once per proof."""
    return await ctx.once("ranks", lambda: _call(ctx))


async def _call(ctx: ProveContext) -> tuple[tuple[Batch, Result], ...]:
    wide = batches((await survey(ctx)).free, by_gpu=False)
    return tuple([(batch, await run_as_user(ctx, _script(ctx, batch))) for batch in wide])


async def _several(ctx: ProveContext) -> list[tuple[Batch, Result]]:
    return [(batch, result) for batch, result in await called(ctx) if batch.nodes[1:]]


def _script(ctx: ProveContext, batch: Batch) -> Script:
    task = sh(
        "{probe}; exec perl -e {rank} {all}",
        probe=PROBE,
        rank=program("proof-ranks.pl"),
        all=ALL_PAIRS,
    )
    table = "\n".join(f"{node.name} {node.address}" for node in batch.nodes)
    return call(
        "prove/jobs.sh",
        "ranks_run",
        ctx.job_name,
        len(batch.nodes),
        table,
        str(srun(ctx, batch, task)),
    )


@dataclass(frozen=True, slots=True)
class Hello:
    """What one rank reported.

    Attributes:
        node: where it ran.
        size: how many ranks it knows of.
        heard: by PMI-2 the node of the next rank; by MPI the sum over all ranks.
        library: openmpi or mpich; "" by PMI-2.
    """

    node: str
    size: int
    heard: str
    library: str = ""


async def hello(ctx: ProveContext) -> Judgement:
    wide = [b for b in batches((await survey(ctx)).free, by_gpu=False) if b.nodes[1:]]
    if not wide:
        return none_wide(await survey(ctx))
    listed = await run_as_user(ctx, MPI.shell)
    kinds = MPI.parse(listed.stdout)
    if not listed.ok or "MPI" not in listed.stdout:
        shown_by = Evidence(ctx.controller, str(MPI.shell), output_of(listed))
        return failed("srun does not list its kinds of MPI", shown_by)
    problems: list[str] = []
    listed_kinds = {"kinds": " ".join(kinds)}
    evidence = [Evidence(ctx.controller, str(MPI.shell), output_of(listed), listed_kinds)]
    good: list[str] = []
    for batch in wide:
        for kind, run in plan(kinds, await _libraries(ctx, batch)):
            task = (
                sh("exec perl -e {text}", text=program("proof-pmi2.pl"))
                if run == "pmi2"
                else _program()
            )
            script = srun(ctx, batch, task, suffix="-mpi", more=_option(kind))
            result = await run_as_user(ctx, script)
            hellos = parse(result.stdout)
            problems += judge(batch.names, kind, hellos, done=result.ok)
            command = shown(batch, f"--mpi={kind} (hello by {run})")
            figures = {f"rank {r}": f"{h.node} of {h.size}: {h.heard}" for r, h in hellos.items()}
            evidence.append(Evidence(ctx.controller, command, output_of(result), figures))
            library = next((h.library for h in hellos.values() if h.library), "")
            by = f"{kind} ({library})" if library else kind
            good.append(f"{by} over {plural(len(batch.nodes), 'node')}")
    if not good:
        return skipped("Slurm has neither PMI-2 nor PMIx, or the nodes no MPI for what it has")
    return verdict_of(problems, "; ".join(good), *evidence)


def plan(kinds: tuple[str, ...], libraries: frozenset[str]) -> list[tuple[str, str]]:
    """(``--mpi`` value, program) of each hello.

    PMI-2 is asked by its own words, so it needs no MPI. Open MPI speaks PMIx only (5 and later),
    MPICH PMI-2; a library that only some nodes have does not count.
    """
    runs = [("pmi2", "pmi2")] if "pmi2" in kinds else []
    if libraries == frozenset({"openmpi"}) and "pmix" in kinds:
        runs.append(("pmix", "openmpi"))
    if libraries == frozenset({"mpich"}) and "pmi2" in kinds:
        runs.append(("pmi2", "mpich"))
    return runs


def parse(text: str) -> dict[int, Hello]:
    """Rank to what it reported."""
    hellos: dict[int, Hello] = {}
    for key, rest in lines(text):
        match (key, rest.split()):
            case ("pmi2", [rank, node, size, heard]) if rank.isdigit() and size.isdigit():
                hellos[_free(hellos, int(rank))] = Hello(node, int(size), heard)
            case ("mpi", [rank, node, size, total, library]) if rank.isdigit() and size.isdigit():
                hellos[_free(hellos, int(rank))] = Hello(node, int(size), total, library)
            case _:
                pass
    return hellos


def judge(nodes: tuple[str, ...], kind: str, hellos: dict[int, Hello], *, done: bool) -> list[str]:
    """All ranks ran, know of each other, and what went from rank to rank is right."""
    count = len(nodes)
    alone = [h.node for h in hellos.values() if h.size == 1]
    if alone and count > 1:
        return [f"--mpi={kind}: each rank sees only itself ({', '.join(sorted(alone))})"]
    problems = [
        f"--mpi={kind}: {n} did not run its rank"
        for n in nodes
        if n not in {h.node for h in hellos.values()}
    ]
    for rank, answer in sorted(hellos.items()):
        if answer.size != count:
            problems.append(
                f"--mpi={kind}: rank {rank} on {answer.node} knows of {answer.size} ranks"
            )
            continue
        after = hellos.get((rank + 1) % count)
        expected = str(count * (count - 1) // 2) if answer.library else after.node if after else ""
        if answer.heard != expected:
            what = "adds the ranks up to" if answer.library else "reads from its neighbour"
            problems.append(f"--mpi={kind}: rank {rank} on {answer.node} {what} {answer.heard}")
    if not done and not problems:
        problems.append(f"--mpi={kind}: srun failed after its ranks had reported")
    return problems


def _free(hellos: dict[int, Hello], rank: int) -> int:
    """Ranks that all believe to be rank 0 are kept apart."""
    while rank in hellos:
        rank += 1
    return rank


def _option(kind: str) -> Script:
    return sh("--mpi={kind}", kind=kind)


async def _libraries(ctx: ProveContext, batch: Batch) -> frozenset[str]:
    """The MPI libraries of a batch's nodes; "none" among them where a node has none."""
    task = call("prove/node.sh", "task_library", _text())
    result = await run_as_user(ctx, srun(ctx, batch, task, suffix="-mpi"))
    report = lines(result.stdout)
    names = {rest.split()[1] for key, rest in report if key == "has"}
    return frozenset(names | {"none" for key, _ in report if key == "nompi"})


def _program() -> Script:
    return call("prove/node.sh", "task_mpi", _text())


@cache
def _text() -> str:
    return program("benchmarks/mpi.py")
