"""What of this machine goes along with a job: a folder, which of its files, their digests."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pathspec import GitIgnoreSpec

from corral.errors import Code, CorralError
from corral.hosts import process
from corral.hosts.threads import abandonable

IGNORE_FILE: Final = ".corralignore"
PROJECT_MARKS: Final = (IGNORE_FILE, ".git", "pyproject.toml", "uv.lock", "requirements.txt")
ALWAYS_OUT: Final = (
    *(".git/", ".hg/", ".svn/", "__pycache__/", "*.pyc", ".venv/", "venv/", "node_modules/"),
    *(".mypy_cache/", ".ruff_cache/", ".pytest_cache/", ".ipynb_checkpoints/", ".DS_Store"),
)
LOCKS: Final = ("uv.lock", "requirements.txt")
MOST_BYTES: Final = 256 << 20
MOST_FILES: Final = 50_000
PLAIN_BYTES: Final = 64 << 20
PLAIN_FILES: Final = 2_000
_NONE: Final = "none"
_PIECE: Final = 1 << 20
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Packed:
    """One file that goes along.

    Attributes:
        path: where it stands, relative to the folder, with slashes.
        source: the file here.
        digest: SHA-256 of its content; "" for a link.
        size: bytes.
        executable: its owner may run it.
        link: where a symbolic link inside the folder leads, "" for a file.
    """

    path: str
    source: Path
    digest: str = ""
    size: int = 0
    executable: bool = False
    link: str = ""

    @property
    def blob(self) -> str:
        """Its name in the store: links to one file share its mode, so that is a part of it."""
        return f"{self.digest[:2]}/{self.digest}{'x' if self.executable else ''}"


@dataclass(frozen=True, slots=True)
class Parcel:
    """What goes along with a job.

    Attributes:
        root: the folder here; None when only the script goes.
        files: what of it goes along.
        program: the script, relative to the root.
        inside: the folder to run in, relative to the root; None: the job's own.
        lock: the lock of a Python environment in the root, None for none.
        notes: what a user should know about the choice.
    """

    root: Path | None
    files: tuple[Packed, ...]
    program: str
    inside: str | None = None
    lock: Path | None = None
    notes: tuple[str, ...] = ()


async def pack(script: Path, folder: str | None = None, *, here: Path | None = None) -> Parcel:
    """Choose the folder that goes along with a script, and read it.

    Without ``folder`` it is the project the script lies in: the nearest folder above it with one of
    ``PROJECT_MARKS``; else the script's own folder, unless that is large or somebody's home.

    Args:
        script: a file of this machine.
        folder: the folder to send, "none" for the script alone.
        here: the current folder; the job runs in the same one of the folder that was sent.

    Raises:
        CorralError: USAGE, the folder is too large or does not hold the script; NOT_FOUND, a file
            cannot be read.
    """
    script = _absolute(script)
    here = here or Path.cwd()
    if folder == _NONE:
        return await asyncio.to_thread(_alone, script)
    root = _given(script, folder) if folder else _project(script)
    if root is None:
        return await _plain(script, here)
    files = await _listed(root)
    return await abandonable(_parcel, root, files, script, here)


def outline(script: Path, folder: str | None = None, *, here: Path | None = None) -> Parcel:
    """Where ``pack`` would put the script and which folder the job would run in; reads no files.

    Raises:
        CorralError: as ``pack``.
    """
    script, here = _absolute(script), here or Path.cwd()
    if folder == _NONE:
        return Parcel(None, (), script.name)
    root = _given(script, folder) if folder else _project(script)
    if root is None and not _private(script.parent):
        root = script.parent
    if root is None:
        return Parcel(None, (), script.name)
    return Parcel(root, (), str(script.relative_to(root)), _inside(root, here))


def _inside(root: Path, here: Path) -> str:
    """The current folder as a part of the root; "" outside of it, and for the root itself."""
    found = str(here.relative_to(root)) if here.is_relative_to(root) else "."
    return "" if found == "." else found


def _given(script: Path, folder: str) -> Path:
    root = _absolute(Path(folder))
    if not root.is_dir():
        raise CorralError(Code.NOT_FOUND, f"no folder {folder}", hint="name a folder, or none")
    if not script.is_relative_to(root):
        raise CorralError(
            Code.USAGE,
            f"{script.name} does not lie in {root}, the folder that goes along",
            hint=f"--folder {script.parent}, or --folder none to send the script alone",
        )
    return root


def _absolute(path: Path) -> Path:
    """The path from the root on; a link to a script keeps its place."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _project(script: Path) -> Path | None:
    for root in script.parents:
        if _private(root):
            return None
        if any((root / mark).exists() for mark in PROJECT_MARKS):
            return root
    return None


def _private(root: Path) -> bool:
    """A folder that is nobody's project: a home, the temporary folder, and all above them."""
    homes = (Path.home(), Path(tempfile.gettempdir()), Path("/home"), Path("/root"))
    return any(home.is_relative_to(root) for home in homes)


async def _plain(script: Path, here: Path) -> Parcel:
    """A folder without marks goes along while it is small."""
    root = script.parent
    if _private(root):
        return await asyncio.to_thread(_alone, script)
    files: list[Path] = []
    size = 0
    for file in _walk(root, GitIgnoreSpec.from_lines(ALWAYS_OUT)):
        files.append(file)
        size += file.lstat().st_size
        if len(files) > PLAIN_FILES or size > PLAIN_BYTES:
            alone = await asyncio.to_thread(_alone, script)
            note = (
                f"only {script.name} goes along: {root} is large and no project; --folder sends it"
            )
            return Parcel(None, alone.files, alone.program, notes=(note,))
    return await abandonable(_parcel, root, files, script, here)


async def _listed(root: Path) -> list[Path]:
    """Files of the folder that no ignore file leaves out."""
    ignore = root / IGNORE_FILE
    if ignore.is_file():
        return list(_walk(root, _spec(ignore)))
    found = await _git(root)
    if found is not None:
        return found
    return list(_walk(root, _spec(root / ".gitignore")))


def _spec(file: Path) -> GitIgnoreSpec:
    text = file.read_text(errors="replace") if file.is_file() else ""
    return GitIgnoreSpec.from_lines([*ALWAYS_OUT, *text.splitlines()])


async def _git(root: Path) -> list[Path] | None:
    """What git would track, None where there is no git or no repository.

    git reads all its ignore files by itself: nested ones, the user's own, .git/info/exclude.
    """
    # Since 2.35.2 git refuses a folder of another user (root in a user's checkout). Nothing of the
    # repository's own configuration may start a program: fsmonitor is the one that ls-files would.
    argv = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", str(root)]
    argv += ["ls-files", "-z", "-co", "--exclude-standard", "--deduplicate"]
    try:
        ended = await process.run(argv, timeout=60)
    except (CorralError, TimeoutError):
        return None
    if ended.status != 0:
        return None
    out = GitIgnoreSpec.from_lines(ALWAYS_OUT)
    files: list[Path] = []
    for name in os.fsdecode(ended.stdout).split("\0"):
        path = root / name
        if not name or out.match_file(name):
            continue
        # A submodule is listed as a folder.
        files += _walk(path, out) if path.is_dir() and not path.is_symlink() else [path]
    return files


def _walk(root: Path, out: GitIgnoreSpec) -> Iterator[Path]:
    for top, folders, names in os.walk(root):
        at = Path(top)
        inside = at.relative_to(root)
        folders[:] = sorted(d for d in folders if not out.match_file(f"{inside / d}/"))
        links = [d for d in folders if (at / d).is_symlink()]
        for name in sorted([*names, *links]):
            if not out.match_file(str(inside / name)):
                yield at / name


def _alone(script: Path) -> Parcel:
    return Parcel(None, (_program(script, script.parent),), script.name)


def _program(script: Path, root: Path) -> Packed:
    """The script can be run there, whatever its mode is here."""
    return replace(_packed(script, root), executable=True)


def _parcel(root: Path, files: Iterable[Path], script: Path, here: Path) -> Parcel:
    program = str(script.relative_to(root))
    found = {path: path for path in files}
    found.setdefault(script, script)  # an ignored script goes along all the same
    notes: list[str] = []
    packed: list[Packed] = []
    total = 0
    for path in found:
        try:
            about = path.lstat()
        except OSError:
            continue  # git still lists a file that was removed
        total += about.st_size
        if total > MOST_BYTES or len(packed) >= MOST_FILES:
            raise _too_much(root, found)
        one = _link(path, root) if stat.S_ISLNK(about.st_mode) else None
        if one is None and path.is_file():
            one = _program(path, root) if path == script else _packed(path, root)
        if one is not None:
            packed.append(one)
        elif path.is_symlink():
            notes.append(f"{path.relative_to(root)} leads out of the folder: left out")
    lock = next((root / name for name in LOCKS if (root / name).is_file()), None)
    return Parcel(root, tuple(packed), program, _inside(root, here), lock, tuple(notes))


def _too_much(root: Path, files: Iterable[Path]) -> CorralError:
    sizes: dict[str, int] = {}
    count = 0
    for path in files:
        top = path.relative_to(root).parts[0]
        count += 1
        if path.is_file():
            sizes[top] = sizes.get(top, 0) + path.lstat().st_size
    largest = sorted(sizes.items(), key=lambda pair: -pair[1])[:_SHOWN]
    named = ", ".join(f"{name} ({size / 1e6:.0f} MB)" for name, size in largest)
    return CorralError(
        Code.USAGE,
        f"{root} holds {sum(sizes.values()) / 1e6:.0f} MB in {count} files: too much to go along "
        f"with a job; the largest: {named}",
        hint=f"leave data out by {root / IGNORE_FILE} (as .gitignore) and put it on the shared "
        "storage; or send the script alone with --folder none",
    )


def _link(path: Path, root: Path) -> Packed | None:
    """A link that stays inside the folder, as a link; None for one that leads out."""
    target = path.readlink()
    end = Path(os.path.normpath(path.parent / target))
    if target.is_absolute() or not end.is_relative_to(root):
        return None
    return Packed(str(path.relative_to(root)), path, link=str(target))


def _packed(path: Path, root: Path) -> Packed:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            while piece := file.read(_PIECE):
                digest.update(piece)
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND,
            f"{path} cannot be read: {error.strerror}",
            hint=f"check its permissions, or leave it out by {IGNORE_FILE}",
        ) from error
    return Packed(
        str(path.relative_to(root)),
        path,
        digest.hexdigest(),
        about.st_size,
        bool(about.st_mode & stat.S_IXUSR),
    )
