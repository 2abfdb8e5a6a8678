"""Storage: what the job user writes on one node is read on the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corral.errors import CorralError
from corral.hosts.quote import Script, join, sh
from corral.hosts.transport import Result
from corral.prove.context import ProveContext, as_user, verdict_of
from corral.prove.model import Evidence, Figure, Judgement
from corral.prove.survey import sections


@dataclass(frozen=True, slots=True)
class Asked:
    """One file that a node should read: who wrote it, in which mount."""

    mount: str
    writer: str


async def shared(ctx: ProveContext) -> Judgement:
    """storage.shared."""
    nodes = tuple(node.name for node in ctx.nodes)
    mounts = tuple(item.mount for item in ctx.spec.storage)
    plan = {name: reading(mounts, nodes, name) for name in nodes}
    try:
        writing = {n: as_user(ctx.person, _write(ctx, n, mounts)) for n in nodes}
        wrote = await ctx.fleet.each(writing)
        read = await ctx.fleet.each({n: as_user(ctx.person, _read(ctx, plan[n])) for n in nodes})
    finally:
        removing = {n: as_user(ctx.person, _remove(ctx, n, mounts)) for n in nodes}
        await ctx.fleet.each(removing)
    problems: list[str] = []
    evidence: list[Evidence] = []
    for name in nodes:
        problems += judge_written(name, wrote[name])
        told = judge_read(ctx.token, name, plan[name], read[name])
        problems += [problem for problem in told.values() if problem]
        figures: dict[str, Figure] = {
            f"{one.mount} from {one.writer}": told[one] or "same" for one in plan[name]
        }
        command = "; ".join(f"cat {_path(ctx.token, one)}" for one in plan[name])
        evidence.append(Evidence(name, command, _said(wrote[name], read[name]), figures))
    good = f"{', '.join(mounts)}: written on each node, read on the others"
    return verdict_of(problems, good, *evidence)


def reading(mounts: tuple[str, ...], nodes: tuple[str, ...], reader: str) -> tuple[Asked, ...]:
    """Which files a node reads: of the first node and of the one before it, in each mount."""
    before = nodes[nodes.index(reader) - 1]
    writers = dict.fromkeys((nodes[0], before))
    return tuple(Asked(mount, w) for mount in mounts for w in writers if w != reader) or tuple(
        Asked(mount, reader) for mount in mounts
    )


def content(token: str, mount: str, writer: str) -> str:
    """What a node writes; nobody else can have written it."""
    return f"{token} {mount} {writer}"


def judge_written(node: str, answer: Result | CorralError) -> list[str]:
    """The node could write into every mount."""
    if isinstance(answer, CorralError):
        return [f"{node} cannot be reached ({answer.message})"]
    return [] if answer.ok else [f"{node} cannot write: {answer.tail or 'no reason told'}"]


def judge_read(
    token: str, node: str, wanted: tuple[Asked, ...], answer: Result | CorralError
) -> Mapping[Asked, str]:
    """For each file: "" when it holds what was written, else what is wrong."""
    if isinstance(answer, CorralError):
        return dict.fromkeys(wanted, f"{node} cannot be reached ({answer.message})")
    found = sections(answer.stdout)
    told: dict[Asked, str] = {}
    for index, one in enumerate(wanted):
        got = found.get(_letter(index), "")
        right = got == content(token, one.mount, one.writer)
        where = f"{one.mount} of {one.writer} on {node}"
        told[one] = "" if right else f"reads {where}: {got[:120] or 'nothing'}"
    return told


def _letter(index: int) -> str:
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return letters


def _path(token: str, one: Asked) -> str:
    return f"{one.mount}/.corral-prove-{token}-{one.writer}"


def _write(ctx: ProveContext, node: str, mounts: tuple[str, ...]) -> Script:
    return join(
        [
            sh(
                "printf '%s\\n' {text} >{path} || bad=1",
                text=content(ctx.token, mount, node),
                path=_path(ctx.token, Asked(mount, node)),
            )
            for mount in mounts
        ]
        + [sh('exit "${{bad:-0}}"')]
    )


def _read(ctx: ProveContext, wanted: tuple[Asked, ...]) -> Script:
    return join(
        sh("echo @@{letter}; cat {path} 2>&1", letter=_letter(i), path=_path(ctx.token, one))
        for i, one in enumerate(wanted)
    )


def _remove(ctx: ProveContext, node: str, mounts: tuple[str, ...]) -> Script:
    return sh("rm -f {paths}", paths=[_path(ctx.token, Asked(mount, node)) for mount in mounts])


def _said(*answers: Result | CorralError) -> str:
    return "\n".join(
        str(a) if isinstance(a, CorralError) else f"{a.stdout}\n{a.stderr}".strip() for a in answers
    ).strip()
