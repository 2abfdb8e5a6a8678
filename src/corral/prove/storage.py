"""Storage: what the job user writes on one node is read on the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corral.errors import CorralError
from corral.hosts.framing import Inquiry, Sections
from corral.hosts.quote import Script, join, sh
from corral.hosts.transport import Result
from corral.prove.context import ProveContext, as_user, verdict_of
from corral.prove.model import Evidence, Figure, Judgement


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
        asked = {n: _read(ctx, plan[n]) for n in nodes}
        results = await ctx.fleet.each({n: inquiry.script for n, inquiry in asked.items()})
    finally:
        removing = {n: as_user(ctx.person, _remove(ctx, n, mounts)) for n in nodes}
        await ctx.fleet.each(removing)
    problems: list[str] = []
    evidence: list[Evidence] = []
    for name in nodes:
        problems += judge_written(name, wrote[name])
        result = results[name]
        read = asked[name].read(result.stdout) if isinstance(result, Result) else result
        faults = judge_read(ctx.token, name, plan[name], read)
        problems += [problem for problem in faults.values() if problem]
        figures: dict[str, Figure] = {
            f"{file.mount} from {file.writer}": faults[file] or "same" for file in plan[name]
        }
        command = "; ".join(f"cat {_path(ctx.token, file)}" for file in plan[name])
        evidence.append(Evidence(name, command, _output(wrote[name], read), figures))
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
    return [] if answer.ok else [f"{node} cannot write: {answer.tail or 'no reason given'}"]


def judge_read(
    token: str, node: str, files: tuple[Asked, ...], answer: Sections | CorralError
) -> Mapping[Asked, str]:
    """For each file: "" when it holds what was written, else what is wrong."""
    if isinstance(answer, CorralError):
        return dict.fromkeys(files, f"{node} cannot be reached ({answer.message})")
    texts = answer.texts()
    faults: dict[Asked, str] = {}
    for file in files:
        got = texts.get(_path(token, file))
        right = got == content(token, file.mount, file.writer)
        where = f"{file.mount} of {file.writer} on {node}"
        seen = "no complete answer" if got is None else got[:120] or "nothing"
        faults[file] = "" if right else f"reads {where}: {seen}"
    return faults


def _path(token: str, file: Asked) -> str:
    return f"{file.mount}/.corral-prove-{token}-{file.writer}"


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


def _read(ctx: ProveContext, files: tuple[Asked, ...]) -> Inquiry:
    """Each file as the user reads it; framed by root, whose script no user sees."""
    paths = [_path(ctx.token, file) for file in files]
    return Inquiry(
        {
            path: sh("( {cat} ) 2>&1", cat=as_user(ctx.person, sh("cat {path}", path=path)))
            for path in paths
        }
    )


def _remove(ctx: ProveContext, node: str, mounts: tuple[str, ...]) -> Script:
    return sh("rm -f {paths}", paths=[_path(ctx.token, Asked(mount, node)) for mount in mounts])


def _output(*answers: Result | Sections | CorralError) -> str:
    return "\n".join(map(_text, answers)).strip()


def _text(answer: Result | Sections | CorralError) -> str:
    if isinstance(answer, Sections):
        return answer.shown()
    if isinstance(answer, CorralError):
        return str(answer)
    return f"{answer.stdout}\n{answer.stderr}".strip()
