"""Mounts: each node has the declared folder of the declared server, and it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from corral.errors import CorralError
from corral.hosts.quote import Script, join, sh
from corral.hosts.transport import Result
from corral.inspect.rules import FolderFault, folder_fault
from corral.inspect.storage import FAILED, answer
from corral.prove.context import ProveContext, output_of, verdict_of
from corral.prove.model import Evidence, Judgement
from corral.prove.probe import lines
from corral.spec.models import Storage
from corral.spec.nodes import Node, sole_user
from corral.state.job_folders import CHECKS, held

ANSWER_S: Final = 20


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
    """storage.mounts."""
    folders_of = {node.name: expected(ctx, node) for node in ctx.nodes}
    answers = await ctx.fleet.each({n: look(ctx.token, n, f) for n, f in folders_of.items()})
    problems: list[str] = []
    evidence: list[Evidence] = []
    for name, folders in folders_of.items():
        answer = answers[name]
        problems += judge_node(name, folders, answer)
        text = str(answer) if isinstance(answer, CorralError) else output_of(answer)
        evidence.append(Evidence(name, "stat -f; /proc/mounts; a file of root's", text))
    names = ", ".join(dict.fromkeys(f.mount for folders in folders_of.values() for f in folders))
    return verdict_of(problems, f"{names}: the right folder answers on each node", *evidence)


def look(token: str, node: str, folders: tuple[Folder, ...]) -> Script:
    """Ask one node. SIGKILL: nothing else ends a process that waits for an NFS server."""
    return join([_look(f"{token}-{node}", i, folder) for i, folder in enumerate(folders)])


def _look(name: str, index: int, folder: Folder) -> Script:
    root = sh(
        'f="$p/.corral-prove-root-"{name}; if (: >"$f") 2>/dev/null; then '
        'echo "@ root {i} $(stat -c %u "$f")"; rm -f "$f"; else echo "@ root {i} refused"; fi',
        name=name,
        i=index,
    )
    return sh(
        'p={path}; m=$p; {answer}; echo "@ answer {i} $a"; '
        'echo "@ mounted {i} $(awk -v p="$p" \'$2 == p && $3 != "autofs" {{ m = $1 }} '
        "END {{ print m }}' /proc/mounts)\"; {local} "
        "case $a in *{failed}) ;; *) {root}; {jobs} ;; esac",
        path=folder.mount,
        answer=answer(ANSWER_S),
        failed=Script(FAILED),
        i=index,
        local=sh(
            'if [ "$(stat -c %d:%i "$p/.")" = "$(stat -c %d:%i {local}/.)" ]; '
            'then echo "@ local {i}"; fi;',
            local=folder.local,
            i=index,
        )
        if folder.local
        else Script(""),
        root=sh(":") if folder.squash is None else root,
        jobs=sh(
            "{c}{h} 2>&1 | sed 's/^/@ held {i} /'",
            c=CHECKS,
            h=held(folder.mount, folder.keeper),
            i=index,
        )
        if folder.jobs
        else sh(":"),
    )


def judge_node(node: str, folders: tuple[Folder, ...], answer: Result | CorralError) -> list[str]:
    """What is wrong with a node's folders."""
    if isinstance(answer, CorralError):
        return [f"{node} cannot be reached ({answer.message})"]
    report: dict[tuple[str, str], list[str]] = {}
    for key, rest in lines(answer.stdout):
        index, *words = rest.split()
        report[key, index] = words
    return [
        f"{node}: {folder.mount} {problem}"
        for i, folder in enumerate(folders)
        for problem in _judge(
            folder, {key: words for (key, at), words in report.items() if at == str(i)}
        )
    ]


def _judge(  # noqa: PLR0911  # one line for each thing that can be wrong
    folder: Folder, report: Mapping[str, list[str]]
) -> list[str]:
    words = " ".join(report.get("answer", [FAILED]))
    match folder_fault(words):
        case FolderFault.SILENT:
            return ["does not answer: its server is down or unreachable"]
        case FolderFault.STALE:
            return ["is a stale handle"]
        case FolderFault.UNREADABLE:
            return [f"cannot be read: {words.removesuffix(FAILED).strip() or 'no output'}"]
        case None:
            pass
    source = " ".join(report.get("mounted", []))
    if folder.local and "local" not in report:
        return [f"is not {folder.local} of this machine"]
    if folder.sources and source not in folder.sources:
        return [f"is {source or 'not mounted'}, not {folder.sources[0]}"]
    owner = " ".join(report.get("root", []))
    if folder.squash is True and owner == "0":
        return ["does not squash root, and root_squash is declared"]
    if folder.squash is False and owner != "0":
        return [f"squashes root ({owner or 'no output'}), and root_squash is declared false"]
    if "held" in report:
        why = " ".join(report["held"])
        return [f"can be replaced by a user, and with it the code of jobs: {why}"]
    return []
