"""Questions about file systems: room, what cannot be written, shared folders and their owners."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from corral.hosts.quote import NOTHING, call, defined, join, sh
from corral.inspect.question import Answer, Question, lines, pairs
from corral.state.storage.job_folders import (
    CHECKS,
    KINDS,
    TOP,
    Risk,
    UnsafeFolder,
    held,
    unsafe_folders,
)

_FAILED: Final = "failed"
"""Ends the answer of a folder that could not be read."""
ANSWER_S: Final = 10
"""Seconds for the file system of a folder to answer."""
CHECKED: Final = (
    *("/", "/tmp", "/run", "/var", "/var/log", "/var/log/slurm"),  # noqa: S108 - looked at, not used
    *("/var/lib/mysql", "/var/spool/slurmctld", "/var/spool/slurmd"),
)


@dataclass(frozen=True, slots=True)
class Room:
    """Room on the file system of a folder.

    Attributes:
        path: the folder.
        inodes: inodes are counted, not KiB.
        free: how many are free.
        total: how many there are.
    """

    path: PurePosixPath
    inodes: bool
    free: int
    total: int


def room(answer: str) -> tuple[Room, ...]:
    """Room of each folder, from lines ``PATH[:inodes] FREE TOTAL``."""
    rows = re.findall(r"^(/\S*?)(:inodes)? (\d+) (\d+)$", answer, re.MULTILINE)
    return tuple(
        Room(PurePosixPath(path), bool(inodes), int(free), int(total))
        for path, inodes, free, total in rows
    )


ROOM: Final = Question(
    "room",
    sh(
        "df -k --output=file,avail,size,iavail,itotal {folders} 2>/dev/null | awk '"
        'NR > 1 {{ print $1, $2, $3; if ($5 > 0) print $1 ":inodes", $4, $5 }}\'',
        folders=list(CHECKED),
    ),
    room,
)
READ_ONLY: Final = Question(
    "readonly",
    sh(
        '{function}\nfor p in {folders}; do ! folder_read_only "$p" || echo "$p"; done',
        function=defined("folder-read-only.sh", "folder_read_only"),
        folders=list(CHECKED[1:]),
    ),
    lines,
)


_USER_PROGRAM: Final = "jobs/user.sh"
USER_THERE: Final = defined(_USER_PROGRAM, "user_there")
"""Runs before ``user_and_storage``."""


def user_and_storage(user: str, mount: str) -> Question[str]:
    """What is missing of a user and the shared storage; sets ``$there`` where nothing is."""
    return Question("missing", sh("user_there {user} {mount}", user=user, mount=mount), str.strip)


@dataclass(frozen=True, slots=True)
class UnreadPath:
    """A path that who asks cannot read.

    Attributes:
        path: which.
        above: the nearest folder above it that is there.
        names: what that folder holds.
    """

    path: str
    above: str
    names: tuple[str, ...]


def unread(answer: str) -> tuple[UnreadPath, ...]:
    """Paths, from lines ``unread PATH``, ``above FOLDER`` and ``name NAME``."""
    paths: list[UnreadPath] = []
    for line in answer.split("\n"):
        word, _, rest = line.partition(" ")
        if word == "unread":
            paths.append(UnreadPath(rest, "", ()))
        elif paths and word == "above":
            paths[-1] = replace(paths[-1], above=rest)
        elif paths and word == "name":
            paths[-1] = replace(paths[-1], names=(*paths[-1].names, rest))
    return tuple(paths)


def unread_paths(paths: Sequence[str]) -> Question[tuple[UnreadPath, ...]]:
    """Those of the paths that who asks cannot read."""
    shell = call(_USER_PROGRAM, "paths_unread", *paths) if paths else NOTHING
    return Question("paths", shell, unread)


@dataclass(frozen=True, slots=True)
class FolderAnswer:
    """What a shared folder is on a machine, and whether its file system answers.

    Attributes:
        mounted: something is mounted there.
        file_system: the kind of its file system; "" where it gave none.
        error: why it gave none, "" where nothing was printed.
        silent: it did not answer in time.
        stale: it is a handle of something that its server does not have any more.
        shown: all of it, for people.
    """

    mounted: bool
    file_system: str
    error: str
    silent: bool
    stale: bool
    shown: str


NO_FOLDER_ANSWER: Final = FolderAnswer(
    mounted=False, file_system="", error="", silent=False, stale=False, shown=""
)


def folder_answers(answer: str) -> dict[str, FolderAnswer]:
    """The folders by path, from lines ``PATH mounted ANSWER`` or ``PATH folder ANSWER``."""
    return {path: _folder_answer(shown) for path, shown in pairs(answer).items()}


def _folder_answer(shown: str) -> FolderAnswer:
    kind, _, printed = shown.partition(" ")
    failed = printed.split()[-1:] in ([], [_FAILED])
    return FolderAnswer(
        mounted=kind == "mounted",
        file_system="" if failed else printed,
        error=printed.removesuffix(_FAILED).strip() if failed else "",
        silent=failed and "no answer within" in printed,
        stale=failed and "tale file handle" in printed,
        shown=shown,
    )


MOUNTS: Final = Answer("shared-mounts", folder_answers)


def mounts(folders: Sequence[str], seconds: int = ANSWER_S) -> Question[dict[str, FolderAnswer]]:
    """What each shared folder is, and whether it answers.

    Args:
        folders: their paths.
        seconds: for each to answer, all at once.
    """
    shell = sh(
        # All at once: a server that is silent may have several. What is mounted is asked of
        # the kernel, which knows without the server, once stat had automount mount it.
        "{functions}\n{{ for m in {folders}; do {{"
        ' a=$(folder_answer "$m" {seconds}); k=folder;'
        " if awk -v m=\"$m\" '$5 == m {{ f = 1 }} END {{ exit !f }}'"
        " /proc/self/mountinfo; then k=mounted; fi;"
        ' printf \'%s %s\\n\' "$m" "$k $a"; }} &'
        " done; wait; }} | sort",
        folders=list(folders),
        seconds=seconds,
        functions=defined("folder-answer.sh", "folder_answer"),
    )
    return MOUNTS.by(shell if folders else NOTHING)


_MOUNT_PROGRAM: Final = "state/mounts.sh"
MOUNT_SOURCES: Final = Answer("mount-sources", pairs)


def mount_sources(folders: Sequence[str]) -> Question[dict[str, str]]:
    """The source of what is mounted at each folder, "" for nothing; asked after ``mounts``."""
    shell = sh(
        '{functions}\nfor m in {folders}; do printf \'%s %s\\n\' "$m" "$(mounted_from "$m")"; done',
        folders=list(folders),
        functions=defined(_MOUNT_PROGRAM, "mounted_from"),
    )
    return MOUNT_SOURCES.by(shell if folders else NOTHING)


SAME_FOLDERS: Final = Answer("same-folders", lines)


def same_folders(folders: Iterable[tuple[str, str]]) -> Question[list[str]]:
    """The folders that are another one of this machine, of pairs of both."""
    tests = [
        sh('if same_folder {folder} {own}; then printf "%s\\n" {folder}; fi', folder=f, own=own)
        for f, own in folders
    ]
    functions = defined(_MOUNT_PROGRAM, "same_folder")
    return SAME_FOLDERS.by(join([functions, *tests]) if tests else NOTHING)


OWNERS: Final = Answer("shared", unsafe_folders)


def owners(folder: str, keeper: str, *, below: bool = True) -> Question[tuple[UnsafeFolder, ...]]:
    """Who could replace the first shared folder or Corral's own in it.

    Args:
        folder: the first shared folder, "" for none.
        keeper: who may own that besides root, "" for nobody.
        below: look at Corral's own in it, too.
    """
    top = f"{folder}/{TOP}"
    probe = sh(
        "{checks}{held}; for f in {own}; do "
        '{{ [ ! -e "$f" ] && [ ! -L "$f" ]; }} || roots "$f"; done',
        checks=CHECKS,
        held=held(folder, keeper),
        own=[top, *(f"{top}/{kind}" for kind in KINDS)] if below else [],
    )
    shell = sh(
        "LC_ALL=C timeout -s KILL {seconds} sh -c {probe} 2>&1 || [ $? != 137 ] || echo {late}",
        seconds=ANSWER_S,
        probe=str(probe),
        late=f"{folder} {Risk.UNREADABLE} within {ANSWER_S} s",
    )
    return OWNERS.by(shell if folder else NOTHING)
