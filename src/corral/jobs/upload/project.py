"""A project's folder, opened once and read without ever leaving it, whatever is swapped.

Each folder of the path is opened from the one before it, and what is read later is read below that
descriptor. A path that is looked up again by its name may have become a link of somebody else's.

A name is looked up part by part from a descriptor of the folder, and no part may be a link: a path
that is checked first and opened then leads elsewhere when somebody swaps one of its folders.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import posixpath
import stat
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from corral.errors import Code, CorralError, cannot_read
from corral.jobs.upload.ignore import IgnoreRules
from corral.shards import folder_below, parts_of, plain_file

HOPS: Final = 40
"""Links that one path may go through, as in Linux (MAXSYMLINKS)."""

_PROC: Final = Path("/proc/self/fd")
_F_GETPATH: Final = 50
"""fcntl(2) of macOS: the path of a descriptor, at most ``_PATH_MAX`` bytes."""
_PATH_MAX: Final = 1024
TRIES: Final = 3
_PIECE: Final = 1 << 20
# Of a name that became another kind of thing, or none, between two calls.
_SWAPPED: Final = (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.EINVAL, errno.ENXIO)


@dataclass(frozen=True, slots=True)
class Entry:
    """What is at a path of the folder.

    Attributes:
        path: relative to the folder, with slashes.
        mode: kind and permissions, as in ``st_mode``.
        size: bytes.
        link: where a link leads, "" for everything else.
    """

    path: str
    mode: int
    size: int
    link: str = ""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, not a link to one."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a plain file; hard links are plain files."""
        return stat.S_ISREG(self.mode)


@dataclass(frozen=True, slots=True)
class Content:
    """A file's content by its digest, its size, and whether its owner may run it."""

    digest: str
    size: int
    executable: bool


class Handle:
    """A descriptor that is closed with its last reference."""

    def __init__(self, number: int) -> None:
        self.number = number
        weakref.finalize(self, os.close, number)

    @property
    def path(self) -> str:
        """A path that means it; where there is no /proc (macOS) the one that it has now."""
        return f"/proc/{os.getpid()}/fd/{self.number}" if _PROC.is_dir() else self.real

    @property
    def real(self) -> str:
        """Its path now, without links."""
        if _PROC.is_dir():
            return os.readlink(self.path)  # noqa: PTH115
        return os.fsdecode(fcntl.fcntl(self.number, _F_GETPATH, bytes(_PATH_MAX)).rstrip(b"\0"))


@dataclass(frozen=True, slots=True)
class Passed:
    """A link on the way to a folder, as it was when it was followed.

    Attributes:
        folder: where it is.
        name: its name there.
        link: the link itself; None where the system opens no links (macOS).
        about: its inode then; a rename changes the time of its last change.
        at: the time then.
    """

    folder: Handle
    name: str
    link: Handle | None
    about: os.stat_result
    at: float

    @property
    def age(self) -> float:
        """Seconds since it was made or renamed, when it was followed."""
        return self.at - self.about.st_ctime

    @property
    def steady(self) -> bool:
        """Whether it is still in its place, and was all the time."""
        try:
            there = os.stat(self.name, dir_fd=self.folder.number, follow_symlinks=False)
        except OSError:
            return False
        now = self.about if self.link is None else os.fstat(self.link.number)
        same = there.st_ino == now.st_ino and there.st_ctime_ns == now.st_ctime_ns
        return same and now.st_ctime_ns == self.about.st_ctime_ns


class Tree:
    """The folder, open.

    Args:
        root: its name, for people.
        folder: the folder's handle; it need not be readable.
        passed: links on the way to it.
    """

    def __init__(self, root: Path, folder: Handle, passed: tuple[Passed, ...] = ()) -> None:
        self.root = root
        self.folder = folder
        self.passed = passed

    @property
    def handle(self) -> int:
        """The folder's descriptor."""
        return self.folder.number

    @property
    def owner(self) -> int:
        """Whose it is."""
        return os.fstat(self.handle).st_uid

    @property
    def steady(self) -> bool:
        """Whether no link on the way to it was swapped since it was opened."""
        return all(link.steady for link in self.passed)

    @property
    def current(self) -> str:
        """A path that means the folder, whatever its name means by now; for children too."""
        return self.folder.path

    @property
    def names(self) -> tuple[PurePosixPath, ...]:
        """Absolute paths that mean the folder: as it was named, and without links."""
        return tuple({PurePosixPath(self.root), PurePosixPath(self.folder.real)})

    def opened(self, path: str) -> Handle:
        """A folder below; no part of its path may be a link.

        Raises:
            OSError: a part is a link or no folder.
        """
        return Handle(folder_below(self.handle, "" if path == "." else path))

    def entry(self, path: str) -> Entry | None:
        """What is there; where a folder on the way is a link, that link. None for nothing.

        Raises:
            OSError: it cannot be looked up.
        """
        parts = parts_of(path)
        at = os.dup(self.handle)
        try:
            for number, name in enumerate(parts, 1):
                here = "/".join(parts[:number])
                about = os.stat(name, dir_fd=at, follow_symlinks=False)
                if stat.S_ISLNK(about.st_mode):
                    return Entry(here, about.st_mode, 0, os.readlink(name, dir_fd=at))
                if number == len(parts):
                    return Entry(here, about.st_mode, about.st_size)
                above, at = at, folder_below(at, name)
                os.close(above)
        except OSError as error:
            if error.errno in _SWAPPED:
                return None
            raise
        finally:
            os.close(at)
        return None

    def walk(self, out: IgnoreRules, below: str = "") -> Iterator[str]:
        """Names of all that is not a folder, in order, without what the patterns leave out.

        A folder that cannot be read is given itself, with a slash at its end.

        Args:
            out: patterns over paths relative to ``below``.
            below: a folder of the tree; "" for all.
        """
        todo = [below]
        while todo:
            top = todo.pop()
            try:
                entries = self._listed(top)
            except OSError as error:
                if error.errno == errno.EACCES:
                    yield f"{top}/"
                continue  # it was swapped or removed
            folders: list[str] = []
            for name, is_folder in entries:
                path = f"{top}/{name}" if top else name
                inside = path[len(below) :].lstrip("/")
                if out.match_file(f"{inside}/" if is_folder else inside):
                    continue
                if is_folder:
                    folders.append(path)
                else:
                    yield path
            todo += reversed(folders)

    def _listed(self, folder: str) -> list[tuple[str, bool]]:
        at = folder_below(self.handle, folder)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            path_only, at = at, os.open(".", flags, dir_fd=at)
            os.close(path_only)
            with os.scandir(at) as entries:
                return sorted((e.name, e.is_dir(follow_symlinks=False)) for e in entries)
        finally:
            os.close(at)

    def content(self, path: str, limit: int) -> Content:
        """Read a plain file and digest it; not more than ``limit`` bytes and one.

        Raises:
            OSError: it is not a plain file, or is below a link.
        """
        digest, size = hashlib.sha256(), 0
        with os.fdopen(plain_file(self.handle, path), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            while size <= limit and (piece := file.read(_PIECE)):
                digest.update(piece)
                size += len(piece)
        return Content(digest.hexdigest(), size, bool(mode & stat.S_IXUSR))

    def data(self, path: str, limit: int) -> bytes:
        """A plain file's bytes, ``limit`` and one at most.

        Raises:
            OSError: it is not a plain file, or is below a link.
        """
        with os.fdopen(plain_file(self.handle, path), "rb") as file:
            return file.read(limit + 1)

    def followed(self, path: str) -> tuple[str, tuple[Entry, ...]] | None:
        """The file that a path means, and the links on the way; None where it leads out.

        Raises:
            OSError: it cannot be looked up.
        """
        links: dict[str, Entry] = {}
        for _ in range(HOPS):
            end = landed(path, {p: e.link for p, e in links.items()}, self.names)
            entry = self.entry(end) if end else None
            if entry is None:
                return None
            if not entry.link:
                return end, tuple(links.values())
            links[entry.path] = entry
        return None


def landed(path: str, links: Mapping[str, str], names: tuple[PurePosixPath, ...]) -> str:
    """Where a path of a folder ends when the links in it are followed; "" where it leads out.

    Pure: a link that is swapped meanwhile changes nothing.

    Args:
        path: relative to the folder.
        links: all links of the folder, by path.
        names: absolute paths that mean the folder.
    """
    at: list[str] = []
    todo = list(reversed(path.split("/")))
    hops = 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                return ""
            at.pop()
            continue
        at.append(part)
        target = links.get("/".join(at))
        if target is None:
            continue
        at.pop()
        hops += 1
        if target.startswith("/"):
            inside = _below(target, names)
            if inside is None:
                return ""
            at, target = [], inside
        if hops > HOPS:
            return ""
        todo += reversed(target.split("/"))
    return "/".join(at) or "."


def relative(link: Entry, end: str) -> str:
    """Target of a link that stays in the folder: as it is, or relative where it was absolute."""
    if not link.link.startswith("/"):
        return link.link
    return posixpath.relpath(end, posixpath.dirname(link.path) or ".")


def _below(target: str, names: tuple[PurePosixPath, ...]) -> str | None:
    for name in names:
        if PurePosixPath(target).is_relative_to(name):
            return str(PurePosixPath(target).relative_to(name))
    return None


IGNORE_FILE: Final = ".corralignore"
PROJECT_MARKS: Final = (IGNORE_FILE, ".git", "pyproject.toml", "uv.lock", "requirements.txt")
SETTLED_S: Final = 1.0
"""Seconds for which a link on the way to a project must have been in its place."""
_O_PATH: Final[int | None] = getattr(os, "O_PATH", None)
"""Opens a folder that may only be searched, and a link itself. Linux alone has it: elsewhere
folders must be readable, and a link is known by its inode and the time of its last change."""
_ON_THE_PATH: Final = (os.O_RDONLY if _O_PATH is None else _O_PATH) | os.O_CLOEXEC


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
    trees = [Tree(Path("/"), Handle(os.open("/", _ON_THE_PATH)))]
    fence: Tree | None = None
    try:
        for name in folder.parts[1:]:
            last = trees[-1]
            own = {0, os.geteuid(), last.owner}
            if fence is None and not private(last) and _marked(last, own):
                fence = last
            if fence is None:
                trees.append(_path_below(last, name))
                continue
            end = fence.followed(str((last.root / name).relative_to(fence.root)))
            if end is None:
                raise _leads_out(asked, fence.root, kind)
            trees.append(Tree(last.root / name, fence.opened(end[0]), fence.passed))
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND,
            cannot_read(asked, error),
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
        CorralError: USAGE, a link leads out of that; NOT_FOUND, the file does not exist.
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
            Code.NOT_FOUND, cannot_read(path, error), hint="check its permissions"
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
    return CorralError(
        Code.NOT_FOUND, f"{kind} {path} does not exist", hint=f"name a {kind} of this machine"
    )


def _path_below(above: Tree, name: str) -> Tree:
    handle, passed = _entered(above.folder, name, HOPS)
    return Tree(above.root / name, handle, (*above.passed, *passed))


def _met(at: Handle, name: str) -> tuple[Handle | None, os.stat_result]:
    """The folder or the link that a name in a folder is, open; None for a link that cannot be.

    Raises:
        OSError: it is neither, or is not there.
    """
    if _O_PATH is not None:
        here = Handle(os.open(name, _ON_THE_PATH | os.O_NOFOLLOW, dir_fd=at.number))
        about = os.fstat(here.number)
    else:
        about = os.stat(name, dir_fd=at.number, follow_symlinks=False)
        here = None
        if stat.S_ISDIR(about.st_mode):
            flags = _ON_THE_PATH | os.O_NOFOLLOW | os.O_DIRECTORY
            here = Handle(os.open(name, flags, dir_fd=at.number))
    if not stat.S_ISLNK(about.st_mode) and not stat.S_ISDIR(about.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return here, about


def _entered(at: Handle, name: str, hops: int) -> tuple[Handle, tuple[Passed, ...]]:
    """What a name in a folder means, and the links on the way to it."""
    here, about = _met(at, name)
    if here is not None and stat.S_ISDIR(about.st_mode):
        return here, ()
    if hops == 0:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    target = (
        os.readlink(name, dir_fd=at.number) if here is None else os.readlink("", dir_fd=here.number)
    )
    end = Handle(os.open("/", _ON_THE_PATH)) if target.startswith("/") else at
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
