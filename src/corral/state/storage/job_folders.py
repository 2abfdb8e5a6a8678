"""Folders on shared storage that belong to root, so that no user can put their own there. Pure.

Shared storage is everybody's to write at its top, like /tmp. Who makes ``corral`` there first owns
what all others upload. So `up` makes it, and sets aside what a user has put in its place; the
sticky bit of the top then keeps it. The top is checked too, with all folders above it: who may
rename one of them puts another tree there.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from corral.hosts.quote import NOTHING, Script, call, join, sh, shipped
from corral.state.base import (
    Change,
    Context,
    Seen,
    Standalone,
)

TOP: Final = "corral"
JOBS: Final = "jobs"
ENVS: Final = "envs"
DATA: Final = "data"
KINDS: Final = (JOBS, ENVS, DATA)
IMAGES: Final = "images"
_WRITE: Final = 0o022
_OTHERS: Final = 0o002
_FIELDS: Final = 4

STICKY: Final = "without the sticky bit"
TAKEN: Final = "belongs to"

CHECKS: Final = join([shipped("folder-checks.sh"), NOTHING])
"""``held PATH UID`` and ``roots PATH``, for a shell: fail and name what others could replace."""


class Risk(StrEnum):
    """Why a folder is not safe from others, in the words of ``folder-checks.sh``."""

    TAKEN = TAKEN
    OPEN = "is open to others"
    UNREADABLE = "cannot be read"
    LOOP = "is a loop of links"
    OTHER = ""


@dataclass(frozen=True, slots=True)
class UnsafeFolder:
    """A folder that ``CHECKS`` refused.

    Attributes:
        path: which; None where something else failed.
        risk: why.
        shown: the same for people.
    """

    path: PurePosixPath | None
    risk: Risk
    shown: str

    @property
    def replaceable(self) -> bool:
        """Whether another user could replace it, or what is in it."""
        return self.path is not None and self.risk in (Risk.TAKEN, Risk.OPEN)


_RISKS: Final = re.compile(rf"^(.+?) ({'|'.join(risk for risk in Risk if risk)})(?: |$)")


def unsafe_folders(answer: str) -> tuple[UnsafeFolder, ...]:
    """What ``held`` and ``roots`` printed, a line each."""
    rows = [line.strip() for line in answer.split("\n") if line.strip()]
    return tuple(
        UnsafeFolder(PurePosixPath(match[1]), Risk(match[2]), row)
        if (match := _RISKS.match(row))
        else UnsafeFolder(None, Risk.OTHER, row)
        for row in rows
    )


@dataclass(frozen=True, slots=True)
class JobFolders(Standalone):
    """``corral`` and what is in it for each user; ``images`` where containers are declared.

    Attributes:
        path: the shared folder on this machine.
        users: name and uid of each user.
        images: users keep images of containers in ``images``.
        foreign: somebody else keeps the storage: left alone where root may not write to it.
        keeper: the only user of the cluster, to whom the top may belong; "" for root alone.
    """

    path: str
    users: tuple[tuple[str, int], ...]
    images: bool = False
    foreign: bool = False
    keeper: str = ""

    @property
    def id(self) -> str:
        return f"job-folders:{self.path}"

    @property
    def _owners(self) -> dict[str, int]:
        """Uid of each folder's owner, the outer ones first."""
        owners = {TOP: 0}
        for kind in KINDS:
            owners[f"{TOP}/{kind}"] = 0
            owners |= {f"{TOP}/{kind}/{name}": uid for name, uid in self.users}
        return owners

    def probe(self) -> Script:
        """A line for each that is there: name, uid, mode, kind; ``w`` where root may write.

        Lines with ``!`` list who could replace the folder.
        """
        names = [".", *self._owners, *([IMAGES] if self.images else [])]
        return call("state/exports.sh", "folders_probe", self.path, self.keeper, *names)

    def exposed(self, seen: Seen) -> str:
        """Why another user could replace the folders and `up` does not change it; "" for no."""
        if self._top(_states(seen)):
            return ""
        problems = [line for line in seen.text.splitlines() if line.startswith("! ")]
        return problems[0].removeprefix("! ") if problems else ""

    def _top(self, there: dict[str, list[str]]) -> Script | None:
        """What `up` does about a top that is open to others, where it is Corral's to change."""
        state = there.get(".")
        if self.foreign or state is None or not int(state[1], 8) & _WRITE:
            return None
        mode = int(state[1], 8)
        # Who may write to it as everybody may loses nothing when it becomes root's.
        if mode & _OTHERS and state[0] != "0":
            return sh("chown 0:0 . && chmod +t . || exit 1")
        return None if mode & stat.S_ISVTX else sh("chmod +t . || exit 1")

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make what is missing, and set aside what is somebody else's."""
        lines = seen.text.splitlines()
        if self.foreign and "w" not in lines:
            return None
        there = _states(seen)
        away: dict[str, str] = {}
        steps: list[Script] = []
        for name, uid in self._owners.items():
            # What is below a folder that goes aside goes with it.
            gone = any(name.startswith(f"{outer}/") for outer in away)
            state = None if gone else there.get(name)
            if state is not None and _held(state, uid):
                continue
            if state is not None and not (_is_folder(state) and int(state[0]) == uid):
                away[name] = f"{name} of uid {state[0]}"
            mode = "0700" if uid else "0755"
            steps.append(sh("ours {n} {u} {m} || exit 1", n=name, u=uid, m=Script(mode)))
        if self.images and there.get(IMAGES) != ["0", "1777", "directory"]:
            steps.append(sh("open_to_all {n} || exit 1", n=IMAGES))
        top = self._top(there)
        if top is not None:
            steps.append(top)
        if not steps:
            return None
        summary = f"make the folders of jobs in {self.path}"
        if top is not None:
            sticky = f"make {self.path} root's with the sticky bit"
            summary = sticky if len(steps) == 1 else f"{summary}; {sticky}"
        if away:
            summary += f"; set aside {', '.join(away.values())}, with what is in it"
        script = join([sh("cd {p} || exit 1", p=self.path), shipped("folder-owners.sh"), *steps])
        return Change(self.id, summary, ", ".join(away.values()), "root:root", script)


def user_folder(mount: str, kind: str, user: str) -> str:
    """A user's own folder for files of a kind."""
    return f"{mount}/{TOP}/{kind}/{user}"


def held(path: str, user: str) -> Script:
    """A call of ``held``: fails where another user could replace a path; ``CHECKS`` comes first.

    Args:
        path: the folder.
        user: who may own it besides root; "" for nobody.
    """
    uid = sh('"$(id -u {user} 2>/dev/null || echo 0)"', user=user) if user else sh("0")
    return sh("held {path} {uid}", path=path, uid=uid)


def remedy(path: str) -> str:
    """What an administrator does about a top that Corral does not change."""
    return f"on the machine that holds it: chown root:root {path} && chmod 1777 {path}"


def _states(seen: Seen) -> dict[str, list[str]]:
    lines = [line for line in seen.text.splitlines() if not line.startswith("! ")]
    return {f[0]: f[1:] for line in lines if len(f := line.split(" ", 3)) == _FIELDS}


def _is_folder(state: list[str]) -> bool:
    return state[2] == "directory" and state[0].isdecimal()


def _held(state: list[str], uid: int) -> bool:
    """Whether it is the owner's folder; root's, with nobody else to write in it."""
    if not _is_folder(state) or int(state[0]) != uid:
        return False
    return uid != 0 or not int(state[1], 8) & _WRITE
