"""What git knows of a project, without running anything that the project names.

A checkout is hostile input. Its configuration may name programs (core.fsmonitor, filters, the
uploadpack of a partial clone), a committed folder may be a separate repository (safe.bareRepository
is off by default), and a repository above the project may be another user's (CVE-2022-24765). So
git never looks for a repository here and reads no repository's configuration: it gets a repository
folder made for the one question, with the project's index and objects and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts import process
from corral.jobs.upload.project import Tree, absolute, ways_to

LIST_S: Final = 60.0
TAGS_S: Final = 10.0
_TEXT_BYTES: Final = 1 << 20
_USAGE: Final = 129
"""git's exit status for an option that it does not know."""
_SHA256: Final = 64
"""Digits of a commit of a repository whose object format is SHA-256."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository with a work tree.

    Attributes:
        tree: the work tree, open.
        folder: HEAD and index: ``.git``, or what it points to in a worktree or submodule.
        common: objects and references; ``folder`` but in a worktree.
    """

    tree: Tree
    folder: Path
    common: Path

    @property
    def root(self) -> Path:
        """The work tree, as it is shown."""
        return self.tree.root


def repository_of(tree: Tree) -> Repository | None:
    """The repository whose work tree is this folder, None where it is not such a folder."""
    folder = _pointed(tree)
    if folder is None or not (folder / "HEAD").is_file():
        return None
    return Repository(tree, folder, _common(folder))


def _pointed(tree: Tree) -> Path | None:
    """Below the open folder, whatever its name means by now."""
    mark = Path(tree.current, ".git")
    if mark.is_dir():
        return mark
    text = _text(mark)
    if not text.startswith("gitdir:"):
        return None
    return Path(tree.current, text.removeprefix("gitdir:").strip())


def _common(folder: Path) -> Path:
    text = _text(folder / "commondir").strip()
    return folder / text if text else folder


def _text(file: Path) -> str:
    """A small plain file, "" where there is none; a FIFO would block."""
    if not file.is_file() or file.stat().st_size > _TEXT_BYTES:
        return ""
    return file.read_text(errors="replace")


async def tracked_names(repository: Repository) -> list[str]:
    """Names below the work tree that git tracks or would track: no ignore file leaves them out.

    git reads all ignore files: nested ones, ``.git/info/exclude``, the user's own.

    Raises:
        CorralError: MISSING_TOOL, no git here; COMMAND_FAILED, git refused or gave no answer.
    """
    # A conflict names a file several times; --deduplicate came with git 2.31.
    words = ("ls-files", "-z", "-co", "--exclude-standard")
    with _apart(repository, "") as env:
        out = await _run(repository, words, env, LIST_S)
    return list(dict.fromkeys(os.fsdecode(out).split("\0")))


async def commit_tags(script: Path) -> dict[str, str]:
    """Commit and branch of the project of a script; nothing where there is no git or no commit.

    A file that differs from the commit is reported by ``corral.git_dirty``.
    """
    repository = await asyncio.to_thread(_around, script)
    if repository is None:
        return {}
    try:
        head = ("--git-dir", str(repository.folder), "rev-parse")
        commit = (await _run(repository, (*head, "HEAD"), _environment(), TAGS_S)).decode().strip()
        branch = await _run(repository, (*head, "--abbrev-ref", "HEAD"), _environment(), TAGS_S)
        below = str(absolute(script).parent.relative_to(repository.root))
        # A submodule's status would read the submodule's own configuration.
        words = ("status", "--porcelain", "--ignore-submodules=all", "--", below)
        with _apart(repository, commit) as env:
            changed = await _run(repository, words, env, TAGS_S)
    except CorralError:
        return {}
    return {
        "mlflow.source.git.commit": commit,
        "mlflow.source.git.branch": branch.decode(errors="replace").strip(),
        "corral.git_dirty": "true" if changed.strip() else "false",
    }


def _around(script: Path) -> Repository | None:
    """The repository that a script is in; None for one that is only on the cluster."""
    try:
        trees = ways_to(absolute(script))
    except CorralError:
        return None
    return next(filter(None, map(repository_of, reversed(trees))), None)


@contextmanager
def _apart(repository: Repository, commit: str) -> Generator[dict[str, str]]:
    """The environment of a git that sees a repository's index and objects, and no settings."""
    folder = Path(tempfile.mkdtemp(prefix="corral-git-"))
    try:
        for name in ("objects", "refs", "info"):
            (folder / name).mkdir()
        (folder / "HEAD").write_text(f"{commit or 'ref: refs/heads/none'}\n")
        (folder / "info/exclude").write_text(_text(repository.common / "info/exclude"))
        if len(commit) == _SHA256:
            (folder / "config").write_text(
                "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectFormat = sha256\n"
            )
        yield {
            **_environment(),
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": ".",
            "GIT_INDEX_FILE": str(repository.folder / "index"),
            "GIT_OBJECT_DIRECTORY": str(repository.common / "objects"),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment() -> dict[str, str]:
    """This process's environment without any of git's settings."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return {
        **kept,
        "GIT_CONFIG_GLOBAL": "/dev/null",  # git 2.32 and later
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",  # else status writes the index of a repository in use
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }


async def _own_ignores() -> tuple[str, ...]:
    """The user's own ignore file, where a setting names another than git's default."""
    words = ("config", "--global", "--type=path", "--get", "core.excludesFile")
    try:
        ended = await process.run(["git", "-C", "/", *words], timeout=TAGS_S)
    except TimeoutError:
        return ()
    file = ended.out.strip()
    return ("-c", f"core.excludesFile={file}") if ended.status == 0 and file else ()


async def _run(
    repository: Repository, words: tuple[str, ...], env: Mapping[str, str], limit: float
) -> bytes:
    argv = ["git", *await _own_ignores(), *words]
    hint = f"git -C {repository.root} status shows what is wrong; or write a .corralignore there"
    try:
        ended = await process.run(argv, timeout=limit, env=env, folder=repository.tree.current)
    except TimeoutError as error:
        raise CorralError(
            Code.COMMAND_FAILED,
            f"git gave no answer in {limit:.0f} s about {repository.root}",
            hint=hint,
        ) from error
    if ended.status == _USAGE:
        version = (await process.run(["git", "version"], timeout=TAGS_S)).out.strip()
        raise CorralError(
            Code.MISSING_TOOL,
            f"{version} does not take what Corral asks of it: git {' '.join(words[:1])}",
            tail=ended.err.strip(),
            hint=f"install git 2.25 or newer, or write a .corralignore in {repository.root}",
        )
    if ended.status != 0:
        raise CorralError(
            Code.COMMAND_FAILED,
            f"git cannot read the repository of {repository.root}",
            tail=ended.err.strip(),
            hint=hint,
        )
    return ended.stdout
