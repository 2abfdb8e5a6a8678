"""Several nodes in one job: every rank runs, and every rank reaches the others over TCP."""

from __future__ import annotations

from typing import Final

from corral.agents import program
from corral.hosts.quote import Script, sh
from corral.hosts.transport import Result
from corral.prove.context import (
    ProveContext,
    failed,
    left_out,
    many,
    output_of,
    skipped,
    verdict_of,
)
from corral.prove.launch import Batch, batches, run_as_user, shown, srun
from corral.prove.model import Evidence, Figure, Judgement
from corral.prove.probe import PROBE, lines
from corral.prove.survey import Survey, survey

ALL_PAIRS: Final = 16  # up to so many ranks each one calls each other one; beyond that, a ring

# The job has no GPU, so its probe also shows which GPUs stay closed to it.


async def ranks(ctx: ProveContext) -> Judgement:
    """multinode.ranks."""
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
        problems, f"one job over {many(count, 'node')}, each rank answered", *evidence
    )


async def tcp(ctx: ProveContext) -> Judgement:
    """multinode.tcp."""
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
    # srun hands its stdin to all ranks, so the table of ports needs neither a second job nor a
    # shared folder. When srun ends early the wait ends too, and its message is in the output.
    task = sh(
        "{probe}; exec perl -e {rank} {all}",
        probe=PROBE,
        rank=program("proof-ranks.pl"),
        all=ALL_PAIRS,
    )
    table = "\n".join(f"{node.name} {node.address}" for node in batch.nodes)
    return sh(
        "d=$(mktemp -d /tmp/{name}.XXXXXX) && trap 'rm -rf \"$d\"' EXIT && trap '' PIPE &&"
        ' mkfifo "$d/in" && printf \'%s\\n\' {table} >"$d/nodes" && : >"$d/out" || exit 1\n'
        '{srun} <"$d/in" >"$d/out" 2>"$d/err" & p=$!\n'
        'exec 9>"$d/in"\n'
        'while kill -0 $p 2>/dev/null && [ "$(grep -c "^@ rank" "$d/out")" -lt {count} ]; do'
        " sleep 0.05; done\n"
        "awk 'NR == FNR {{ a[$1] = $2; next }}"
        ' $2 == "rank" {{ print $3, a[$4], $6 }}\' "$d/nodes" "$d/out" >&9\n'
        'echo end >&9; exec 9>&-; wait $p; s=$?; cat "$d/out"; cat "$d/err" >&2; exit $s',
        name=ctx.job_name,
        table=table,
        srun=srun(ctx, batch, task),
        count=len(batch.nodes),
    )
