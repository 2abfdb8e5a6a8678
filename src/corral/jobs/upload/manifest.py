"""What of this machine is sent with a job: a folder, which of its files, their digests."""

from __future__ import annotations

import asyncio
import errno
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError, cannot_read
from corral.jobs.upload.git import Repository, repository_of, tracked_names
from corral.jobs.upload.ignore import IgnoreRules
from corral.jobs.upload.project import (
    IGNORE_FILE,
    TRIES,
    Content,
    Entry,
    Tree,
    absolute,
    file_in,
    landed,
    named,
    private,
    project_of,
    relative,
    ways,
    ways_to,
)
from corral.runtime.threads import abandonable

LOCKS: Final = ("uv.lock", "requirements.txt")
MOST_BYTES: Final = 256 << 20
MOST_FILES: Final = 50_000
MOST_REPOSITORIES: Final = 200
PLAIN_BYTES: Final = 64 << 20
PLAIN_FILES: Final = 2_000
_NONE: Final = "none"
_SHOWN: Final = 3
_NOTES: Final = 5
_TEXT_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Packed:
    """One file that is uploaded.

    Attributes:
        path: its path, relative to the folder, with slashes.
        tree: the folder here; its content is read below it, through no link.
        digest: SHA-256 of its content; "" for a link.
        size: bytes.
        executable: its owner may run it.
        link: where a symbolic link inside the folder leads, "" for a file.
        source: the file's path below the root; "" where it is ``path``.
    """

    path: str
    tree: Tree
    digest: str = ""
    size: int = 0
    executable: bool = False
    link: str = ""
    source: str = ""

    @property
    def file(self) -> Path:
        """The file here, as it is shown."""
        return self.tree.root / (self.source or self.path)

    def read(self) -> bytes:
        """Its content, which is the one that was packed.

        Raises:
            CorralError: NOT_GOOD, it has changed since, or is not a plain file of the folder any
                more.
        """
        try:
            data = self.tree.data(self.source or self.path, self.size)
        except OSError:
            data = b""
        if len(data) != self.size or hashlib.sha256(data).hexdigest() != self.digest:
            raise changed(self.file)
        return data

    @property
    def blob(self) -> str:
        """Its name in the store: links to one file share its mode, so that is a part of it."""
        return f"{self.digest[:2]}/{self.digest}{'x' if self.executable else ''}"


@dataclass(frozen=True, slots=True)
class Named:
    """A file of this machine that is read for a job: its folder, and its path in there.

    Attributes:
        tree: the folder.
        inside: the path, without links.
        path: as it is shown.
    """

    tree: Tree
    inside: str
    path: Path

    def read(self) -> bytes:
        """Its content.

        Raises:
            CorralError: NOT_FOUND.
        """
        try:
            return self.tree.data(self.inside, _TEXT_BYTES)
        except OSError as error:
            raise _unreadable(self.path, error) from error


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is sent with a job.

    Attributes:
        root: the folder here; None when only the script goes.
        files: what of it is uploaded.
        program: the script, relative to the root.
        inside: the folder to run in, relative to the root; None: the job's own.
        lock: the lock of a Python environment in the root, None for none.
        notes: what a user should know about the choice.
    """

    root: Path | None
    files: tuple[Packed, ...]
    program: str
    inside: str | None = None
    lock: Named | None = None
    notes: tuple[str, ...] = ()


NO_FILES: Final = Manifest(None, (), "")
"""A job that takes nothing of this machine along."""


async def pack(script: Path, folder: str | None = None, *, here: Path | None = None) -> Manifest:
    """Choose the folder that is sent with a script, and read it.

    Without ``folder`` it is the project the script is in: the nearest folder above it with one of
    ``PROJECT_MARKS``; else the script's own folder, unless that is large or somebody's home.

    Args:
        script: a file of this machine.
        folder: the folder to send, "none" for the script alone.
        here: the current folder; the job runs in the same one of the folder that was sent.

    Raises:
        CorralError: USAGE, the folder is too large or does not hold the script, or the script is a
            link that leads out of it; NOT_FOUND, a file cannot be read; NOT_GOOD, one changed
            while it was read.
    """
    script, here = absolute(script), here or Path.cwd()
    if folder == _NONE:
        return await asyncio.to_thread(_alone, script)
    trees = await asyncio.to_thread(ways_to, script)
    tree = await asyncio.to_thread(_given, script, folder) if folder else project_of(trees)
    if tree is None:
        return await _plain(script, trees[-1], here)
    files = await _listed(tree)
    return await abandonable(_parcel, tree, files, script, here)


def outline(script: Path, folder: str | None = None, *, here: Path | None = None) -> Manifest:
    """Where ``pack`` would put the script and which folder the job would run in; reads no files.

    Raises:
        CorralError: as ``pack``.
    """
    script, here = absolute(script), here or Path.cwd()
    if folder == _NONE:
        return Manifest(None, (), script.name)
    trees = ways_to(script)
    tree = _given(script, folder) if folder else project_of(trees)
    if tree is None and not private(trees[-1]):
        tree = trees[-1]
    if tree is None:
        return Manifest(None, (), script.name)
    return Manifest(tree.root, (), str(script.relative_to(tree.root)), _inside(tree.root, here))


def folder_of(file: Path) -> str:
    """The folder that ``pack`` would send with a file, "none" where that is the file alone."""
    trees = ways_to(absolute(file))
    tree = project_of(trees)
    if tree is None and not private(trees[-1]) and _few(trees[-1]) is not None:
        tree = trees[-1]
    return _NONE if tree is None else str(tree.root)


async def pack_folder(folder: str, *, here: Path | None = None) -> Manifest:
    """Read the folder that is sent with a command; it has no script in it.

    Args:
        folder: a folder of this machine.
        here: the current folder, as for ``pack``.

    Raises:
        CorralError: as ``pack``.
    """
    tree = await asyncio.to_thread(_tree_of, folder)
    files = await _listed(tree)
    return await abandonable(_parcel, tree, files, None, here or Path.cwd())


def outline_folder(folder: str, *, here: Path | None = None) -> Manifest:
    """Which folder a command would run in, with the folder that is sent; reads no files.

    Raises:
        CorralError: NOT_FOUND, the folder does not exist.
    """
    root = _tree_of(folder).root
    return Manifest(root, (), "", _inside(root, here or Path.cwd()))


def named_file(path: Path) -> Named:
    """A file that a user named, after links that stay in its project or its own folder.

    Raises:
        CorralError: USAGE, a link leads out of that; NOT_FOUND, the file does not exist.
    """
    tree, inside = named(path)
    return Named(tree, inside, tree.root / inside)


def changed(file: Path) -> CorralError:
    """The error of a file that is not what it was."""
    return CorralError(
        Code.NOT_GOOD,
        f"{file} changed while it was read",
        hint=f"run it again; name files that are being written in {IGNORE_FILE}",
    )


def _inside(root: Path, here: Path) -> str:
    """The current folder as a part of the root; "" outside of it, and for the root itself."""
    part = str(here.relative_to(root)) if here.is_relative_to(root) else "."
    return "" if part == "." else part


def _root(folder: str) -> Path:
    root = absolute(Path(folder))
    if not root.is_dir():
        raise CorralError(
            Code.NOT_FOUND, f"folder {folder} does not exist", hint="name a folder, or none"
        )
    return root


def _tree_of(folder: str) -> Tree:
    return ways(_root(folder))[-1]


def _given(script: Path, folder: str) -> Tree:
    root = _root(folder)
    if not script.is_relative_to(root):
        raise CorralError(
            Code.USAGE,
            f"{script.name} is not in {root}, the folder that is uploaded",
            hint=f"--folder {script.parent}, or --folder none to send the script alone",
        )
    return ways(root)[-1]


async def _plain(script: Path, tree: Tree, here: Path) -> Manifest:
    """A folder without marks is uploaded while it is small."""
    if private(tree):
        return await asyncio.to_thread(_alone, script)
    files = await abandonable(_few, tree)
    if files is None:
        alone = await asyncio.to_thread(_alone, script)
        root = tree.root
        note = f"only {script.name} is uploaded: {root} is large and no project; --folder sends it"
        return Manifest(None, alone.files, alone.program, notes=(note,))
    return await abandonable(_parcel, tree, files, script, here)


def _few(tree: Tree) -> list[str] | None:
    """The names below a folder, None where they are many or large."""
    files: list[str] = []
    size = 0
    for path in tree.walk(IgnoreRules()):
        files.append(path)
        entry = None if path.endswith("/") else _looked_up(tree, path)
        size += entry.size if entry else 0
        if len(files) > PLAIN_FILES or size > PLAIN_BYTES:
            return None
    return files


async def _listed(tree: Tree) -> list[str]:
    """Names of the folder that no ignore file leaves out."""
    alone = await asyncio.to_thread(_patterns, tree, IGNORE_FILE)
    if alone is not None:
        return await abandonable(_walked, tree, alone)
    repository = await asyncio.to_thread(repository_of, tree)
    if repository is not None:
        return await _of_git(tree, repository)
    patterns = await asyncio.to_thread(_patterns, tree, ".gitignore")
    return await abandonable(_walked, tree, patterns or IgnoreRules())


def _walked(tree: Tree, out: IgnoreRules, below: str = "") -> list[str]:
    return list(tree.walk(out, below))


def _patterns(tree: Tree, name: str) -> IgnoreRules | None:
    """What an ignore file leaves out, None without one.

    Raises:
        CorralError: USAGE, it is a link that leads out of the folder; NOT_FOUND.
    """
    if _looked_up(tree, name) is None:
        return None
    path = tree.root / name
    text = Named(tree, file_in(tree, path), path).read().decode(errors="replace")
    return IgnoreRules(text.splitlines(), str(path))


async def _of_git(tree: Tree, repository: Repository) -> list[str]:
    """Names that git tracks or would track, in the repositories inside too: submodules and others.

    Each repository has its own ignore files; git lists another one as a folder.
    """
    files: list[str] = []
    todo = [("", repository)]
    met = 0
    while todo:
        below, repository = todo.pop()
        met += 1
        if met > MOST_REPOSITORIES:
            raise CorralError(
                Code.USAGE,
                f"{tree.root} holds more than {MOST_REPOSITORIES} git repositories",
                hint=f"name what the job needs by {tree.root / IGNORE_FILE} (as .gitignore)",
            )
        names = await tracked_names(repository)
        listed, folders = await abandonable(_divided, tree, below, names)
        files += listed
        for folder in folders:
            inner = await asyncio.to_thread(_below, tree, folder)
            inner_repository = await asyncio.to_thread(repository_of, inner) if inner else None
            if inner_repository is not None:
                todo.append((folder, inner_repository))
            elif inner is not None:  # such as a submodule that was copied in without its .git
                rules = await asyncio.to_thread(_patterns, inner, ".gitignore") or IgnoreRules()
                files += await abandonable(_walked, tree, rules, folder)
    return files


def _divided(tree: Tree, below: str, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Names of a repository's list below the tree's root: plain ones, and folders."""
    out = IgnoreRules()
    files: list[str] = []
    folders: dict[str, None] = {}
    for name in names:
        path = name.rstrip("/")
        if not path or out.match_file(name):
            continue
        path = f"{below}/{path}" if below else path
        entry = _looked_up(tree, path)
        if entry and entry.is_folder and entry.path == path:
            folders[path] = None
        else:
            files.append(path)
    # A committed file that is a folder by now: git lists what is in it.
    inside = {above for path in files for above in _above(path)}
    return files, [folder for folder in folders if folder not in inside]


def _below(tree: Tree, folder: str) -> Tree | None:
    """A folder of the tree, None where it is none any more."""
    try:
        return Tree(tree.root / folder, tree.opened(folder), tree.passed)
    except OSError:
        return None


def _looked_up(tree: Tree, path: str) -> Entry | None:
    """What is at a path, None where it cannot be determined: git names files that were removed."""
    try:
        return tree.entry(path)
    except OSError:
        return None


def _alone(script: Path) -> Manifest:
    tree, inside = named(script)
    content = _content(tree, inside, tree.root / inside)
    _settled(tree)
    packed = Packed(script.name, tree, content.digest, content.size, executable=True, source=inside)
    return Manifest(None, (packed,), script.name)


def _settled(tree: Tree) -> None:
    """Refuse a folder whose name meant another one meanwhile."""
    if not tree.steady:
        raise changed(tree.root)


def _parcel(tree: Tree, files: Iterable[str], script: Path | None, here: Path) -> Manifest:
    root = tree.root
    program = "" if script is None else str(script.relative_to(root))
    # An ignored script is uploaded all the same.
    own = [] if script is None else _own(tree, script)
    end = own[-1] if own else ""
    contents, notes = _taken(tree, list(dict.fromkeys([*files, *own])))
    links = {path: entry.link for path, entry in contents.items() if isinstance(entry, Entry)}
    packed: list[Packed] = []
    away: list[str] = []
    for path, entry in contents.items():
        if isinstance(entry, Content):
            runs = entry.executable or path == end
            packed.append(Packed(path, tree, entry.digest, entry.size, runs))
            continue
        goal = landed(path, links, tree.names)
        if goal:
            packed.append(Packed(path, tree, link=relative(entry, goal)))
        else:
            away.append(f"{path} leads out of the folder ({entry.link}): left out")
    _settled(tree)
    if script is not None and not any(file.path == end for file in packed):
        raise changed(script)
    return Manifest(
        root,
        tuple(packed),
        program,
        _inside(root, here),
        _lock(tree),
        (*_some(away), *_some(notes)),
    )


def _own(tree: Tree, script: Path) -> list[str]:
    """The links that lead to a script, and at their end its file."""
    end = file_in(tree, script)
    reached = tree.followed(str(script.relative_to(tree.root)))
    return [*([link.path for link in reached[1]] if reached else []), end]


def _lock(tree: Tree) -> Named | None:
    for name in LOCKS:
        path = _reached(tree, name)
        if path is not None:
            return Named(tree, path, tree.root / name)
    return None


def _some(notes: list[str]) -> list[str]:
    """The first notes, and how many more there are."""
    if len(notes) <= _NOTES:
        return notes
    rest = len(notes) - _NOTES + 1
    return [*notes[: _NOTES - 1], f"{rest} more are left out for the same reason"]


def _reached(tree: Tree, name: str) -> str | None:
    try:
        target = tree.followed(name)
    except OSError:
        return None
    return target[0] if target else None


def _taken(tree: Tree, names: list[str]) -> tuple[dict[str, Entry | Content], list[str]]:
    """Each name's content or link, by path, and what is left out and why."""
    contents: dict[str, Entry | Content] = {}
    notes: list[str] = []
    total = 0
    for name in names:
        entry = _read(tree, name, MOST_BYTES - total)
        if isinstance(entry, str):
            notes.append(entry)
            continue
        if entry is None:
            continue
        path, content = entry
        total += content.size
        if total > MOST_BYTES or len(contents) >= MOST_FILES:
            raise _too_much(tree, names)
        contents[path] = content
    links = {path for path, member in contents.items() if isinstance(member, Entry)}
    # A folder that became a link while it was read: the link it is.
    below = [path for path in contents if any(above in links for above in _above(path))]
    for path in below:
        del contents[path]
    return contents, notes


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _read(tree: Tree, path: str, room: int) -> tuple[str, Entry | Content] | str | None:
    """A name's path with its link or content; why it is left out; None where nothing is there."""
    for _ in range(TRIES):
        if path.endswith("/"):
            return f"{path} cannot be read: left out"
        try:
            entry = tree.entry(path)
        except OSError as error:
            raise _unreadable(tree.root / path, error) from error
        if entry is None or entry.is_folder:
            return None
        if entry.link:
            return entry.path, entry
        if not entry.is_file:
            return f"{path} is not a plain file: left out"
        try:
            return path, tree.content(path, room)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EIO):
                raise _unreadable(tree.root / path, error) from error
    raise changed(tree.root / path)


def _content(tree: Tree, path: str, file: Path) -> Content:
    try:
        return tree.content(path, MOST_BYTES)
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: OSError) -> CorralError:
    return CorralError(
        Code.NOT_FOUND,
        cannot_read(file, error),
        hint=f"check its permissions, or leave it out by {IGNORE_FILE}",
    )


def _too_much(tree: Tree, names: list[str]) -> CorralError:
    sizes: dict[str, int] = {}
    for name in names:
        entry = _looked_up(tree, name)
        if entry and entry.is_file:
            top = name.partition("/")[0]
            sizes[top] = sizes.get(top, 0) + entry.size
    largest = sorted(sizes.items(), key=lambda pair: -pair[1])[:_SHOWN]
    listed = ", ".join(f"{name} ({size / 1e6:.0f} MB)" for name, size in largest)
    return CorralError(
        Code.USAGE,
        f"{tree.root} holds {sum(sizes.values()) / 1e6:.0f} MB in {len(names)} files: too much to "
        f"send with a job; the largest: {listed}",
        hint=f"leave data out by {tree.root / IGNORE_FILE} (as .gitignore) and put it on the "
        "shared storage; or send the script alone with --folder none",
    )
