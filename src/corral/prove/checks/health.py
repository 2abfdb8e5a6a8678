"""What each node's own health check sees now, as a check of the proof."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

from corral.durations import interval_seconds
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script, sh
from corral.plurals import plural
from corral.prove.check import Check
from corral.prove.context import ProveContext, clip, verdict_of, warned
from corral.prove.model import Evidence, Figure, Judgement
from corral.roles.slurm.health import PROGRAM, health_checks
from corral.runtime.tasks import concurrently

HealthWord = Literal["ok", "warn", "fail", "none"]
_WORDS: Final = ("ok", "warn", "fail", "none")
CHECK_ONLY: Final[Script] = sh("{program} --look", program=PROGRAM)
TIMEOUT: Final = 60.0


@dataclass(frozen=True, slots=True)
class HealthLine:
    """What one check of one node reports: ok, warn, fail, or none (nothing to look at there)."""

    node: str
    check: str
    word: HealthWord
    text: str


def parse_health(node: str, text: str) -> tuple[HealthLine, ...]:
    """The lines of a node's program.

    Raises:
        CorralError: PARSE_FAILED, there is none.
    """
    results: list[HealthLine] = []
    for line in text.splitlines():
        word, _, rest = line.partition("\t")
        check, _, message = rest.partition("\t")
        if word in _WORDS and check in health_checks():
            results.append(HealthLine(node, check, word, message))
    if not results:
        raise CorralError(
            Code.PARSE_FAILED,
            "its health check printed nothing that can be read",
            node,
            tail=text,
            hint=f"run {PROGRAM} --look there; corral up FILE writes it again",
        )
    return tuple(results)


async def run_health_checks(
    fleet: Fleet, nodes: tuple[str, ...]
) -> tuple[tuple[HealthLine, ...] | CorralError, ...]:
    """Run the program on nodes, all at once; it changes nothing.

    Returns:
        Each node's results, in the order of ``nodes``; the error where one did not answer.
    """
    return tuple(await concurrently(*(_check_node(fleet, node) for node in nodes)))


async def _check_node(fleet: Fleet, node: str) -> tuple[HealthLine, ...] | CorralError:
    try:
        answer = await fleet.run(node, CHECK_ONLY, timeout=TIMEOUT)
        return parse_health(node, answer.stdout or answer.tail)
    except CorralError as error:
        return error


def common(lines: tuple[HealthLine, ...], nodes: int) -> tuple[str, ...]:
    """Sentences about what fails on most nodes: then the cause is seldom a node's own."""
    fails = Counter(line.check for line in lines if line.word == "fail")
    return tuple(
        f"{check} fails on {count} of {nodes} nodes: look for one cause that they share"
        for check, count in fails.items()
        if count > 1 and count * 2 >= nodes
    )


async def _measure(ctx: ProveContext) -> Judgement:
    answers = await run_health_checks(ctx.fleet, ctx.compute)
    problems: list[str] = []
    evidence: list[Evidence] = []
    seen: list[HealthLine] = []
    for node, answer in zip(ctx.compute, answers, strict=True):
        if isinstance(answer, CorralError):
            problems.append(f"{node}: {answer.message}")
            evidence.append(Evidence(node, str(CHECK_ONLY), clip(answer.tail or answer.message)))
            continue
        seen += answer
        problems += [f"{node}: {line.check}: {line.text}" for line in answer if line.word == "fail"]
        figures: dict[str, Figure] = dict(Counter(f"checks_{line.word}" for line in answer))
        text = "\n".join(f"{line.word}\t{line.check}\t{line.text}" for line in answer)
        evidence.append(Evidence(node, str(CHECK_ONLY), clip(text), figures))
    warnings = [f"{line.node}: {line.check}: {line.text}" for line in seen if line.word == "warn"]
    problems = [*common(tuple(seen), len(ctx.compute)), *problems]
    if warnings and not problems:
        return warned("; ".join(warnings[:6]), *evidence)
    good = f"{len({line.check for line in seen})} checks pass on {plural(len(ctx.compute), 'node')}"
    return verdict_of(problems, good, *evidence)


def _on(ctx: ProveContext) -> str:
    return "" if interval_seconds(ctx.spec.health.every) else "health.every is off"


HEALTH_CHECKS: Final = (
    Check(
        id="health.nodes",
        title="Each node's own health check passes",
        group="health",
        proves="GPUs, ECC, links, mounts, clock, disks, memory and leftovers of each node are as "
        "its health check wants them; Slurm runs the same program every few minutes.",
        how="Runs corral-health --look on every compute node, which changes nothing.",
        breaks="Whatever the health check looks at: a GPU that is gone, a full disk, a folder that "
        "is not mounted.",
        hint="the summary names node and check; docs/guide/health.md describes what each one means "
        "and what to do (F87)",
        measure=_measure,
        applies=_on,
    ),
)
