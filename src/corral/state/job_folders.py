"""Folders on shared storage that belong to root, so that no user can put their own there. Pure.

Shared storage is everybody's to write at its top, like /tmp. Who makes ``corral`` there first owns
what all others upload. So `up` makes it, and sets aside what a user has put in its place; the
sticky bit of the top then keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, join, sh
from corral.state.base import Change, Context, Seen

TOP: Final = "corral"
JOBS: Final = "jobs"
ENVS: Final = "envs"
DATA: Final = "data"
KINDS: Final = (JOBS, ENVS, DATA)
IMAGES: Final = "images"
_WRITE: Final = 0o022
_FIELDS: Final = 4

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
class JobFolders:
    """``corral`` and what is in it for each user; ``images`` where containers are declared.

    Attributes:
        path: the shared folder on this machine.
        users: name and uid of each user.
        images: users keep images of containers in ``images``.
        foreign: somebody else keeps the storage: left alone where root may not write to it.
    """

    path: str
    users: tuple[tuple[str, int], ...]
    images: bool = False
    foreign: bool = False

    @property
    def id(self) -> str:
        """``job-folders:<path>``."""
        return f"job-folders:{self.path}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    @property
    def _owners(self) -> dict[str, int]:
        """Uid of each folder's owner, the outer ones first."""
        found = {TOP: 0}
        for kind in KINDS:
            found[f"{TOP}/{kind}"] = 0
            found |= {f"{TOP}/{kind}/{name}": uid for name, uid in self.users}
        return found

    def probe(self) -> Script:
        """A line for each that is there: name, uid, mode, kind; ``w`` where root may write."""
        names = [*self._owners, *([IMAGES] if self.images else [])]
        return sh(
            "(cd {path} 2>/dev/null || exit 0; [ ! -w . ] || echo w; "
            "LC_ALL=C stat -c '%n %u %a %F' -- {names} 2>/dev/null || :)",
            path=self.path,
            names=names,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make what is missing, and set aside what is somebody else's."""
        lines = seen.text.splitlines()
        if self.foreign and "w" not in lines:
            return None
        there = {f[0]: f[1:] for line in lines if len(f := line.split(" ", 3)) == _FIELDS}
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
        if not steps:
            return None
        summary = f"make the folders of jobs in {self.path}"
        if away:
            summary += f"; set aside {', '.join(away.values())}, with what is in it"
        script = join([sh("cd {p} || exit 1", p=self.path), sh(_OURS), sh(_OPEN), *steps])
        return Change(self.id, summary, ", ".join(away.values()), "root:root", script)


def user_folder(mount: str, kind: str, user: str) -> str:
    """A user's own folder for files of a kind."""
    return f"{mount}/{TOP}/{kind}/{user}"


def _is_folder(state: list[str]) -> bool:
    return state[2] == "directory" and state[0].isdecimal()


def _held(state: list[str], uid: int) -> bool:
    """Whether it is the owner's folder; root's, with nobody else to write in it."""
    if not _is_folder(state) or int(state[0]) != uid:
        return False
    return uid != 0 or not int(state[1], 8) & _WRITE
