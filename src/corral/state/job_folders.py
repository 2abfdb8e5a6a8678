"""Folders on shared storage that belong to root, so that no user can put their own there. Pure.

Shared storage is everybody's to write at its top, like /tmp. Who makes ``corral`` there first owns
what all others upload. So `up` makes it, and sets aside what a user has put in its place; the
sticky bit of the top then keeps it. The top is checked too, with all folders above it: who may
rename one of them puts another tree there.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, join, sh
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

# A path's folders from / on, links followed one by one: each must be root's (or the user's own, who
# then can replace only what is theirs), and where others may write to it the sticky bit lets nobody
# rename what is not theirs. A link's own owner counts too: in such a folder it may be replaced.
CHECKS: Final = sh(
    """\
held() (
  uid=$2 rest=$1 at= links=0
  no() {{ echo "$1" >&2; exit 1; }}
  look() {{
    set -- "$1" $(LC_ALL=C stat -c '%u %U %a' -- "$1" 2>/dev/null)
    [ $# = 4 ] || no "$1 cannot be read"
    [ "$2" = 0 ] || [ "$2" = "$uid" ] || no "$1 {taken} $3, who can replace what is in it"
    mode=$4
  }}
  while :; do
    look "${{at:-/}}"
    [ $((0$mode & 0022)) = 0 ] || [ $((0$mode & 01000)) != 0 ] ||
      no "${{at:-/}} is open to others (mode $mode) {sticky}: any of them can replace what is in it"
    while case $rest in /*) ;; *) false ;; esac; do rest=${{rest#/}}; done
    [ -n "$rest" ] || return 0
    part=${{rest%%/*}} rest=${{rest#"${{rest%%/*}}"}}
    case $part in .) continue ;; ..) at=${{at%/*}}; continue ;; esac
    if [ -L "$at/$part" ]; then
      look "$at/$part"
      links=$((links + 1))
      [ "$links" -le 40 ] || no "$at/$part is a loop of links"
      to=$(readlink -- "$at/$part") || no "$at/$part cannot be read"
      case $to in /*) at= ;; esac
      rest=$to$rest
    else
      at=$at/$part
    fi
  done
)
roots() {{
  if [ -L "$1" ] || [ ! -d "$1" ] || [ "$(stat -c %u "$1")" != 0 ]; then
    echo "$1 {taken} $(stat -c %U "$1") and must be a folder of root" >&2
    return 1
  fi
  case $(stat -c %A "$1") in ?????w*|????????w*)
    echo "$1 {taken} root and others may write to it" >&2
    return 1
  esac
}}
""",
    taken=Script(TAKEN),
    sticky=Script(STICKY),
)
"""``held PATH UID`` and ``roots PATH``, for a shell: fail and name what others could replace."""

# Only root renames what is not its own in a folder with the sticky bit: what was put there goes
# aside, with its content, and may be put there again before mkdir: so it is tried more than once.
_OURS: Final = """\
ours() {{
  for try in 1 2 3 4 5 6 7 8 9; do
    if mkdir -m 0700 "$1" 2>/dev/null; then
      chown "$2:$2" "$1" && chmod "$3" "$1"
      return
    fi
    if [ ! -L "$1" ] && [ -d "$1" ] && [ "$(stat -c %u "$1")" = "$2" ]; then
      [ "$2" != 0 ] || chmod go-w "$1"
      return
    fi
    mv -T -- "$1" "$1.of-$(stat -c %u "$1").$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')" ||
      return 1
  done
  echo "$1 is put there again and again" >&2
  return 1
}}
"""

# Its content is used by jobs and stays. Once it is root's nobody can put a link in its place, so
# that chmod, which follows links, comes last.
_OPEN: Final = """\
open_to_all() {{
  if [ -d "$1" ] && [ ! -L "$1" ]; then
    chown -h 0:0 "$1" || return 1
  fi
  ours "$1" 0 0755 && [ ! -L "$1" ] && chmod 1777 "$1"
}}
"""


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
        """``job-folders:<path>``."""
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
        return sh(
            "{checks}(cd {path} 2>/dev/null || exit 0; [ ! -w . ] || echo w; "
            "LC_ALL=C stat -c '%n %u %a %F' -- {names} 2>/dev/null || :; "
            "{held} 2>&1 | sed 's/^/! /')",
            checks=CHECKS,
            path=self.path,
            names=names,
            held=held(self.path, self.keeper),
        )

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
        script = join([sh("cd {p} || exit 1", p=self.path), sh(_OURS), sh(_OPEN), *steps])
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
