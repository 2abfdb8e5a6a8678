"""Storage: each node has the declared mounts, and what one writes the others read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from corral.errors import CorralError
from corral.hosts.framing import Inquiry, Sections
from corral.hosts.quote import Script, call, join, sh
from corral.hosts.transport import Result
from corral.inspect import storage as storage_questions
from corral.inspect.question import Answer, MachineState, Question, inquiry, text
from corral.inspect.rules import FolderFault, OwnerFault, folder_fault, owner_fault
from corral.prove.context import ProveContext, as_user, verdict_of
from corral.prove.model import Evidence, Figure, Judgement
from corral.runtime.tasks import concurrently
from corral.spec.models import Storage
from corral.spec.nodes import Node, sole_user


@dataclass(frozen=True, slots=True)
class Asked:
    """One file that a node should read: who wrote it, in which mount."""

    mount: str
    writer: str


async def shared(ctx: ProveContext) -> Judgement:
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
    return inquiry(
        Answer(path, text).by(
            sh("( {cat} ) 2>&1", cat=as_user(ctx.person, sh("cat {path}", path=path)))
        )
        for path in paths
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


ANSWER_S: Final = 20
_ROUND_S: Final = 120.0
"""Seconds for a node to answer."""


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder as one node should see it.

    Attributes:
        mount: where.
        sources: what may stand as its source in /proc/mounts, () where that does not matter.
        local: the folder of this machine that it must be, "" on a client.
        squash: whether root is nobody there; None where that is not declared.
        jobs: the folders of jobs are in it: no user may replace them.
        keeper: who may own it besides root, "" for nobody.
    """

    mount: str
    sources: tuple[str, ...] = ()
    local: str = ""
    squash: bool | None = None
    jobs: bool = False
    keeper: str = ""


def expected(ctx: ProveContext, node: Node) -> tuple[Folder, ...]:
    """What a node should see."""
    by_name = {entry.name: entry for entry in ctx.nodes}
    return tuple(
        replace(
            _folder(ctx, node, storage, by_name),
            jobs=number == 0,
            keeper=sole_user(ctx.spec),
        )
        for number, storage in enumerate(ctx.spec.storage)
        if storage.kind != "provider"
    )


def _folder(ctx: ProveContext, node: Node, storage: Storage, by_name: Mapping[str, Node]) -> Folder:
    if storage.kind == "existing" or storage.server is None or storage.path is None:
        return Folder(storage.mount)
    if node.name == storage.server:
        return Folder(storage.mount, local=storage.path)
    facts = ctx.facts.get(storage.server)
    hosts = {storage.server, by_name[storage.server].address, facts.address if facts else ""}
    sources = tuple(f"{host}:{storage.path}" for host in sorted(hosts - {""}))
    return Folder(storage.mount, sources, squash=storage.root_squash)


async def mounts(ctx: ProveContext) -> Judgement:
    folders_of = {node.name: expected(ctx, node) for node in ctx.nodes}
    states = await concurrently(*(_ask(ctx, n, f) for n, f in folders_of.items()))
    problems: list[str] = []
    evidence: list[Evidence] = []
    for (name, folders), state in zip(folders_of.items(), states, strict=True):
        problems += judge_node(folders, state)
        shown = str(state.error) if state.error else _shown(state)
        evidence.append(Evidence(name, "stat -f; /proc/mounts; a file of root's", shown))
    names = ", ".join(dict.fromkeys(f.mount for folders in folders_of.values() for f in folders))
    return verdict_of(problems, f"{names}: the right folder answers on each node", *evidence)


async def _ask(ctx: ProveContext, node: str, folders: tuple[Folder, ...]) -> MachineState:
    """A node's folders; a file of root's is made only in those that answer."""
    seen = await MachineState.ask(ctx.fleet, node, questions(folders), timeout=_ROUND_S)
    making = roots_files(ctx.token, folders, seen)
    if seen.error is not None or not making:
        return seen
    made = await MachineState.ask(ctx.fleet, node, making, timeout=_ROUND_S)
    return replace(made, sections={**seen.sections, **made.sections})


def _shown(state: MachineState) -> str:
    return "\n".join(f"{name}:\n{answer}" for name, answer in state.sections.items())


def questions(folders: tuple[Folder, ...]) -> tuple[Question[object], ...]:
    """What a node is asked about its folders."""
    paths = [folder.mount for folder in folders]
    jobs = next((folder for folder in folders if folder.jobs), Folder(""))
    return (
        storage_questions.mounts(paths, ANSWER_S),
        storage_questions.mount_sources(paths),
        storage_questions.same_folders(
            (folder.mount, folder.local) for folder in folders if folder.local
        ),
        storage_questions.owners(jobs.mount, jobs.keeper, below=False),
    )


def _root_of(folder: Folder) -> Answer[str]:
    """To whom a file belongs that root makes in a folder, or "refused"."""
    return Answer(f"root:{folder.mount}", str.strip)


def roots_files(
    token: str, folders: tuple[Folder, ...], state: MachineState
) -> tuple[Question[str], ...]:
    """Makes and removes a file as root in each folder that answered, where squashing is declared.

    A write to a server that does not answer would wait for it.
    """
    answers = state.by_key(storage_questions.MOUNTS)
    return tuple(
        _root_of(folder).by(
            call(
                "prove/node.sh",
                "file_as_root",
                f"{folder.mount}/.corral-prove-root-{token}-{state.node}",
            )
        )
        for folder in folders
        if folder.squash is not None
        and folder_fault(answers.get(folder.mount, storage_questions.NO_FOLDER_ANSWER)) is None
    )


def judge_node(folders: tuple[Folder, ...], state: MachineState) -> list[str]:
    """What is wrong with a node's folders."""
    if state.error is not None:
        return [f"{state.node} cannot be reached ({state.error.message})"]
    return [
        f"{state.node}: {folder.mount} {problem}"
        for folder in folders
        if (problem := _judge(folder, state))
    ]


def _judge(folder: Folder, state: MachineState) -> str:
    answer = state.by_key(storage_questions.MOUNTS).get(
        folder.mount, storage_questions.NO_FOLDER_ANSWER
    )
    match folder_fault(answer):
        case FolderFault.SILENT:
            return "does not answer: its server is down or unreachable"
        case FolderFault.STALE:
            return "is a stale handle"
        case FolderFault.UNREADABLE:
            return f"cannot be read: {answer.error or 'no output'}"
        case None:
            return (
                _judge_source(folder, state)
                or _judge_root(folder, state)
                or _judge_owners(folder, state)
            )


def _judge_source(folder: Folder, state: MachineState) -> str:
    if folder.local and folder.mount not in (state.get(storage_questions.SAME_FOLDERS) or ()):
        return f"is not {folder.local} of this machine"
    source = state.by_key(storage_questions.MOUNT_SOURCES).get(folder.mount, "")
    if folder.sources and source not in folder.sources:
        return f"is {source or 'not mounted'}, not {folder.sources[0]}"
    return ""


def _judge_root(folder: Folder, state: MachineState) -> str:
    owner = state.get(_root_of(folder))
    if folder.squash is True and owner == "0":
        return "does not squash root, and root_squash is declared"
    if folder.squash is False and owner != "0":
        return f"squashes root ({owner or 'no output'}), and root_squash is declared false"
    return ""


def _judge_owners(folder: Folder, state: MachineState) -> str:
    unsafe = state.get(storage_questions.OWNERS) if folder.jobs else None
    if not unsafe:
        return ""
    if owner_fault(unsafe[0]) is OwnerFault.REPLACEABLE:
        return f"can be replaced by a user, and with it the code of jobs: {unsafe[0].shown}"
    return f"cannot be judged, a user may be able to replace it: {unsafe[0].shown}"
