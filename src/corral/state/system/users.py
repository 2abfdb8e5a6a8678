"""Users and groups of a machine: the system's with fixed ids, and people with homes and keys. Pure.

Every person is a member of the group ``corral-people``: so the machine itself knows whom Corral
made, and who is named no longer is found without a state file (docs/decisions/0002).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from corral.hosts.quote import Script, call, join, sh
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Seen, Standalone

_PROGRAM: Final = "state/users.sh"


@dataclass(frozen=True, slots=True)
class UserAccount(Standalone):
    """A user with a group of the same name and the same number.

    Attributes:
        name: login name.
        uid: numeric id of the user and of the group.
        home: home folder, made with mode 0700 when it is under /home.
        shell: login shell.
        system: a service's user: no home is made.
        owns: a service's folders: its files there move with it when it had another number.
        units: services that run as it; they are stopped for that, and started by their own stage.
    """

    name: str
    uid: int
    home: str
    shell: str = "/bin/bash"
    system: bool = False
    owns: tuple[str, ...] = ()
    units: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"user:{self.name}"

    def probe(self) -> Script:
        """Entries of the name and of the number, of users and then of groups."""
        return call(_PROGRAM, "user_probe", self.name, self.uid)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make the user, or move it to the wanted ids; refuses to take an id from another."""
        users, groups = _ids(seen.text)
        desired = f"{self.uid}:{self.uid}"
        before = users.get(self.name, "")
        if before == desired:
            return None
        summary = f"{'renumber' if before else 'make'} user {self.name} ({self.uid})"
        number = str(self.uid)
        others = [n for n, ids in users.items() if ids.partition(":")[0] == number]
        others += [n for n, gid in groups.items() if gid == number]
        taken = [n for n in others if n != self.name]
        script = self._refuse(taken[0]) if taken else self._make(before, self.name in groups)
        impact = Impact.RESTART if before else Impact.NONE
        return Change(self.id, summary, before, desired, script, impact)

    def _refuse(self, other: str) -> Script:
        return call(
            _PROGRAM,
            "refuse",
            f"id {self.uid} wanted for {self.name} belongs to {other}: give one of them another id",
        )

    def _make(self, before: str, has_group: bool) -> Script:
        group = "groupmod" if has_group else "groupadd"
        if before:
            renumber = call(_PROGRAM, "user_renumber", self.name, self.uid, group)
            return join([*self._move(*before.split(":")), renumber], " && ")
        options = ("-r", "-M") if self.system else ("-m",)
        return call(
            _PROGRAM, "user_make", self.name, self.uid, self.home, self.shell, group, *options
        )

    def _move(self, uid: str, gid: str) -> tuple[Script, ...]:
        """Give the service's files to the new number; first, so that a crash in it is seen.

        usermod(8) moves a home only, and refuses while a process runs as the user.
        """
        if not self.owns:
            return ()
        ids = (uid, gid, self.uid)
        return (call(_PROGRAM, "service_files_move", *ids, *self.units, "--", *self.owns),)


def _ids(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """``uid:gid`` of the users and gid of the groups that the probe printed, by name."""
    users: dict[str, str] = {}
    groups: dict[str, str] = {}
    into = users
    for line in text.splitlines():
        fields = line.split(":")
        if line == "group":
            into = groups
        elif len(fields) > 3:  # noqa: PLR2004  # name:password:id:...
            into[fields[0]] = ":".join(fields[2:4]) if into is users else fields[2]
    return users, groups


GROUP: Final = "corral-people"
BEGIN: Final = "# corral begin: managed block, changes inside are overwritten"
END: Final = "# corral end"
NEVER: Final = ("", "-1")
"""Expiry dates in /etc/shadow that mean none."""
LOCKED: Final = "1"
"""The second of January 1970: sshd's account check refuses (pam_unix, shadow(5))."""
_WORDS: Final = 6


@dataclass(frozen=True)
class Person(Standalone):
    """A user with a group of the same name and number.

    Attributes:
        name: login name.
        uid: number of the user and of the group.
        shell: login shell.
        home: home folder; "" for /home/NAME, or where it is already.
        keys: public keys, in a block of ~/.ssh/authorized_keys that is written as the user, since
            root may be nobody on an NFS home (F41).
        make_home: this machine makes the home; False where another one does, which shares it.
    """

    name: str
    uid: int
    shell: str = "/bin/bash"
    home: str = ""
    keys: tuple[str, ...] = ()
    make_home: bool = True

    @property
    def id(self) -> str:
        return f"user:{self.name}"

    @cached_property
    def block(self) -> str:
        """The managed block of authorized_keys, "" without keys."""
        return "".join(f"{line}\n" for line in (BEGIN, *self.keys, END)) if self.keys else ""

    @cached_property
    def digest(self) -> str:
        """Sha256 of the block."""
        return hashlib.sha256(self.block.encode()).hexdigest()

    @property
    def _home(self) -> str:
        return self.home or f"/home/{self.name}"

    def probe(self) -> Script:
        """Entries of name and number, then what the home holds and when the login ends.

        The home itself is looked at, nothing in it: root of an NFS client may not enter it (F41).
        """
        return call(_PROGRAM, "person_probe", self.name, self.uid, self._home, GROUP)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make the user, and what of it is not there yet; never renumber a person."""
        users, groups, state = _entries(seen.text)
        desired = f"{self.uid}:{self.uid}"
        before = users.get(self.name, "")
        home, owner, keys, expires, member, shell = (*state, *[""] * _WORDS)[:_WORDS]
        refusal = self._refusal(before, users, groups, home, owner)
        moved = bool(before) and bool(self.home) and home != self.home
        steps: list[tuple[str, Script]] = []
        if not before:
            steps.append((f"make user {self.name} ({self.uid})", self._make(self.name in groups)))
        elif moved or shell != self.shell:
            home = self.home if moved else home
            steps.append((f"{self.name}: home {home}, shell {self.shell}", self._modify(home)))
        if before and member != "yes":
            steps.append((f"{self.name} into group {GROUP}", self._join()))
        if expires not in NEVER:
            steps.append((f"let {self.name} log in again", self._unlock()))
        if owner == "absent" or moved:
            steps.append((f"home {home}", self._make_home(home)))
        if keys != self.digest and (self.keys or keys):
            steps.append((f"{len(self.keys)} keys of {self.name}", self._write_keys()))
        if not steps and not refusal:
            return None
        summary = ", ".join(words for words, _ in steps) or f"user {self.name}"
        script = join([script for _, script in steps], " && ") if steps else sh("exit 1")
        return Change(self.id, summary, before, desired, script, refuses=refusal)

    def _refusal(
        self,
        before: str,
        users: dict[str, str],
        groups: dict[str, str],
        home: str,
        owner: str,
    ) -> str:
        number = str(self.uid)
        if before and before != f"{number}:{number}":
            uid, _, gid = before.partition(":")
            return (
                f"user {self.name} is there with uid {uid} and gid {gid}, the file declares "
                f"{number}: write uid: {uid} in the file, or renumber the user and all their files "
                f"by hand (usermod -u {number}, groupmod -g {number}, chown)"
            )
        others = [n for n, ids in users.items() if ids.partition(":")[0] == number]
        others += [n for n, gid in groups.items() if gid == number]
        taken = [n for n in others if n != self.name]
        if taken:
            return f"id {number}, wanted for {self.name}, belongs to {taken[0]}: choose another uid"
        if not before and groups.get(self.name, number) != number:
            return f"group {self.name} is there with gid {groups[self.name]}, not {number}"
        if owner not in ("absent", number, ""):
            return f"{home}, the home of {self.name}, belongs to uid {owner}"
        return ""

    def _make(self, has_group: bool) -> Script:
        return call(
            _PROGRAM,
            "person_make",
            self.name,
            self.uid,
            self._home,
            self.shell,
            GROUP,
            ":" if has_group else "groupadd",
        )

    def _modify(self, home: str) -> Script:
        return call(_PROGRAM, "person_modify", self.name, home, self.shell)

    def _join(self) -> Script:
        return call(_PROGRAM, "person_join", self.name, GROUP)

    def _unlock(self) -> Script:
        return call(_PROGRAM, "person_unlock", self.name)

    def _make_home(self, home: str) -> Script:
        if not self.make_home:
            return call(
                _PROGRAM,
                "home_shared",
                home,
                f"{home} is shared and not there: is its folder mounted?",
            )
        return call(_PROGRAM, "home_make", home, self.uid)

    def _write_keys(self) -> Script:
        script = call(_PROGRAM, "keys_write", self.block)
        return call(_PROGRAM, "as_person", self.name, str(script))


@dataclass(frozen=True, slots=True)
class FormerPeople(Standalone):
    """People whom the file names no longer: their login ends, all they own stays.

    Attributes:
        keep: login names that are declared.
    """

    keep: tuple[str, ...]

    @property
    def id(self) -> str:
        return "former-people"

    def probe(self) -> Script:
        """Members of the group with the day their login ends."""
        return call(_PROGRAM, "members_end", GROUP)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """End the logins of those who are not declared and not locked yet."""
        rows = [(*line.split(), "")[:2] for line in seen.text.splitlines() if line.strip()]
        gone = [name for name, expires in rows if name not in self.keep and expires != LOCKED]
        if not gone:
            return None
        return Change(
            self.id,
            f"end the login of {', '.join(gone)}, not in the file any more; home and files stay, "
            "jobs go on",
            " ".join(gone),
            "",
            call(_PROGRAM, "logins_end", *gone),
            keeps=tuple(f"user:{name}" for name in gone),
        )


def _entries(text: str) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """``uid:gid`` of users and gid of groups by name, and the words of the state."""
    users: dict[str, str] = {}
    groups: dict[str, str] = {}
    state: list[str] = []
    part = ""
    for line in text.splitlines():
        fields = line.split(":")
        if line in ("passwd", "group", "state"):
            part = line
        elif part == "state":
            state = line.split("|")
        elif len(fields) > 3 and part == "passwd":  # noqa: PLR2004  # name:password:id:...
            users[fields[0]] = ":".join(fields[2:4])
        elif len(fields) > 3:  # noqa: PLR2004
            groups[fields[0]] = fields[2]
    return users, groups, state
