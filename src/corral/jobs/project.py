"""The project of a script: found and opened once, from / down, so that nobody swaps it meanwhile.

Each folder of the path is opened from the one before it, and what is read later is read below that
descriptor. A path that is looked up again by its name may have become a link of somebody else's.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from corral.errors import Code, CorralError
from corral.jobs.tree import HOPS, TRIES, Handle, Passed, Tree

IGNORE_FILE: Final = ".corralignore"
PROJECT_MARKS: Final = (IGNORE_FILE, ".git", "pyproject.toml", "uv.lock", "requirements.txt")
SETTLED_S: Final = 1.0
"""Seconds for which a link on the way to a project must have been in its place."""
_WAY: Final = os.O_PATH | os.O_CLOEXEC


def absolute(path: Path) -> Path:
    """The path from the root on; a link to a script keeps its place."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def ways_to(file: Path) -> list[Tree]:
    """Each folder that a file with an absolute path is in; see ``ways``."""
    return _ways(file.parent, file, "file")


def ways(folder: Path) -> list[Tree]:
    """Each folder of an absolute path, / first, opened from the one before it.

    A link is followed where it is this user's or root's, or leads to a folder of its owner's; and
    within a project where it stays in the project, as for all that is read of it.

    Raises:
        CorralError: NOT_FOUND, there is none; USAGE, a link that is not to be followed.
    """
    return _ways(folder, folder, "folder")


def _ways(folder: Path, asked: Path, kind: str) -> list[Tree]:
    """As ``ways``; a link that was made or renamed just now is waited for, and seen to stay."""
    for _ in range(TRIES):
        trees = _walked(folder, asked, kind)
        youngest = min((link.age for link in trees[-1].passed), default=SETTLED_S)
        if youngest >= SETTLED_S:
            return trees
        time.sleep(SETTLED_S - max(youngest, 0))
        if trees[-1].steady:
            return trees
    raise CorralError(
        Code.NOT_GOOD,
        f"a link on the way to {asked} is replaced again and again",
        hint=f"name the {kind} by its path without links",
    )


def _walked(folder: Path, asked: Path, kind: str) -> list[Tree]:
    trees = [Tree(Path("/"), Handle(os.open("/", _WAY)))]
    fence: Tree | None = None
    try:
        for name in folder.parts[1:]:
            last = trees[-1]
            own = {0, os.geteuid(), last.owner}
            if fence is None and not private(last) and _marked(last, own):
                fence = last
            if fence is None:
                trees.append(_below(last, name))
                continue
            end = fence.followed(str((last.root / name).relative_to(fence.root)))
            if end is None:
                raise _leads_out(asked, fence.root, kind)
            trees.append(Tree(last.root / name, fence.opened(end[0]), fence.passed))
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND,
            f"{asked} cannot be read: {error.strerror}",
            hint=f"name a {kind} of this machine that you can read",
        ) from error
    return trees


def project_of(trees: Sequence[Tree]) -> Tree | None:
    """The project that the last of these folders is in: the nearest one with a mark; or None.

    A mark of another user, above the script's own folder, is a trap: all that this user may read
    below would be uploaded (as in CVE-2022-24765).
    """
    owners = {0, os.geteuid(), trees[-1].owner}
    for tree in reversed(trees):
        if private(tree):
            return None
        if _marked(tree, owners):
            return tree
    return None


def private(tree: Tree) -> bool:
    """A folder that is nobody's project: a home, the temporary folder, and all above them."""
    homes = (Path.home(), Path(tempfile.gettempdir()), Path("/home"), Path("/root"))
    return any(home.is_relative_to(name) for home in homes for name in tree.names)


def named(path: Path) -> tuple[Tree, str]:
    """A file that a user named: its project or own folder, and its path in there without links.

    A project that somebody else wrote decides where its links lead; who names ``train.py`` does not
    mean to upload a key of theirs.

    Raises:
        CorralError: USAGE, a link leads out of that; NOT_FOUND, there is no such file.
    """
    path = absolute(path)
    trees = ways_to(path)
    tree = project_of(trees) or trees[-1]
    return tree, file_in(tree, path)


def file_in(tree: Tree, path: Path) -> str:
    """The path in a folder of the file that an absolute path below it means.

    Raises:
        CorralError: USAGE, it is a link that leads out; NOT_FOUND, it cannot be read.
    """
    try:
        target = tree.followed(str(path.relative_to(tree.root)))
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND, f"{path} cannot be read: {error.strerror}", hint="check its permissions"
        ) from error
    if target is None:
        raise _leads_out(path, tree.root, "file")
    return target[0]


def _marked(tree: Tree, owners: set[int]) -> bool:
    for mark in PROJECT_MARKS:
        try:
            if os.stat(mark, dir_fd=tree.handle, follow_symlinks=False).st_uid in owners:
                return True
        except OSError:
            continue
    return False


def _leads_out(path: Path, root: Path, kind: str) -> CorralError:
    real = os.path.realpath(path)
    if os.path.exists(real):  # noqa: PTH110
        return CorralError(
            Code.USAGE,
            f"{path} leads to {real} by a link, out of {root}",
            hint=f"name the {kind} itself, if that is what you mean: {real}",
        )
    return CorralError(Code.NOT_FOUND, f"no {kind} {path}", hint=f"name a {kind} of this machine")


def _below(above: Tree, name: str) -> Tree:
    handle, passed = _entered(above.folder, name, HOPS)
    return Tree(above.root / name, handle, (*above.passed, *passed))


def _entered(at: Handle, name: str, hops: int) -> tuple[Handle, tuple[Passed, ...]]:
    """What a name in a folder means, and the links on the way to it."""
    here = Handle(os.open(name, _WAY | os.O_NOFOLLOW, dir_fd=at.number))
    about = os.fstat(here.number)
    if not stat.S_ISLNK(about.st_mode):
        if not stat.S_ISDIR(about.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return here, ()
    if hops == 0:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    target = os.readlink("", dir_fd=here.number)
    end = Handle(os.open("/", _WAY)) if target.startswith("/") else at
    passed = [Passed(at, name, here, about, time.time())]
    for part in PurePosixPath(target).parts:
        if part != "/":
            end, more = _entered(end, part, hops - 1)
            passed += more
    if about.st_uid not in (0, os.geteuid(), os.fstat(end.number).st_uid):
        raise CorralError(
            Code.USAGE,
            f"{name} is a link to {target} that another user (uid {about.st_uid}) made",
            hint=f"name the folder itself, if that is what you mean: {target}",
        )
    return end, tuple(passed)
