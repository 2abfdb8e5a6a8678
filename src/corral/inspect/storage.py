"""Questions about file systems: room, what cannot be written, shared folders and their owners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.hosts.quote import NOTHING, call, defined, sh
from corral.inspect.question import Answer, Question, lines, pairs
from corral.state.storage.job_folders import CHECKS, KINDS, TOP, held

FAILED: Final = "failed"
"""Ends the answer of a folder that could not be read."""
CHECKED: Final = (
    *("/", "/tmp", "/run", "/var", "/var/log", "/var/log/slurm"),  # noqa: S108 - looked at, not used
    *("/var/lib/mysql", "/var/spool/slurmctld", "/var/spool/slurmd"),
)
ROOM: Final = Question(
    "room",
    sh(
        'for p in {folders}; do if [ -d "$p" ]; then'
        ' df -Pk "$p" 2>/dev/null | awk -v p="$p" \'NR==2 {{print p, $4, $2}}\';'
        ' df -Pi "$p" 2>/dev/null | awk -v p="$p" \'NR==2 && $2>0 {{print p":inodes", $4, '
        "$2}}'; fi; done",
        folders=list(CHECKED),
    ),
    pairs,
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


def unread_paths(paths: Sequence[str]) -> Question[list[str]]:
    """Those of the paths that who asks cannot read."""
    shell = call(_USER_PROGRAM, "paths_unread", *paths) if paths else NOTHING
    return Question("paths", shell, str.splitlines)


MOUNTS: Final = Answer("shared-mounts", pairs)


def mounts(folders: Sequence[str]) -> Question[dict[str, str]]:
    """What each shared folder is, and whether it answers."""
    shell = sh(
        # All at once: a server that is silent may have several. What is mounted is asked of
        # the kernel, which knows without the server, once stat had automount mount it.
        "{functions}\n{{ for m in {folders}; do {{"
        ' a=$(folder_answer "$m" 10); k=folder;'
        " if awk -v m=\"$m\" '$5 == m {{ f = 1 }} END {{ exit !f }}'"
        " /proc/self/mountinfo; then k=mounted; fi;"
        ' printf \'%s %s\\n\' "$m" "$k $a"; }} &'
        " done; wait; }} | sort",
        folders=list(folders),
        functions=defined("folder-answer.sh", "folder_answer"),
    )
    return MOUNTS.by(shell if folders else NOTHING)


OWNERS: Final = Answer("shared", lines)


def owners(folder: str, keeper: str) -> Question[list[str]]:
    """Who could replace the first shared folder or Corral's own in it, a line each.

    Args:
        folder: the first shared folder, "" for none.
        keeper: who may own that besides root, "" for nobody.
    """
    top = f"{folder}/{TOP}"
    probe = sh(
        "{checks}{held}; for f in {own}; do "
        '{{ [ ! -e "$f" ] && [ ! -L "$f" ]; }} || roots "$f"; done',
        checks=CHECKS,
        held=held(folder, keeper),
        own=[top, *(f"{top}/{kind}" for kind in KINDS)],
    )
    shell = sh("LC_ALL=C timeout -s KILL 10 sh -c {probe} 2>&1", probe=str(probe))
    return OWNERS.by(shell if folder else NOTHING)
