"""Users and groups of a machine: the system's with fixed ids, and people with homes and keys. Pure.

Every person is a member of the group ``corral-people``: so the machine itself knows whom Corral
made, and who is named no longer is found without a state file (docs/decisions/0002).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from corral.hosts.quote import Script, join, sh
from corral.state.base import (
    Change,
    Context,
    Impact,
    Seen,
    Standalone,
)


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
        """``user:<name>``."""
        return f"user:{self.name}"

    def probe(self) -> Script:
        """Entries of the name and of the number, of users and then of groups."""
        return sh(
            "echo passwd; getent passwd {name} {uid}; echo group; getent group {name} {uid}",
            name=self.name,
            uid=self.uid,
        )

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
        return sh(
            "echo {text} >&2; exit 1",
            text=f"id {self.uid} wanted for {self.name} belongs to {other}: "
            "give one of them another id",
        )

    def _make(self, before: str, has_group: bool) -> Script:
        group = (
            sh("groupmod -g {uid} {name}", uid=self.uid, name=self.name)
            if has_group
            else sh("groupadd -g {uid} {name}", uid=self.uid, name=self.name)
        )
        if before:
            return sh(
                "{move}{group} && usermod -u {uid} -g {uid} {name}",
                move=self._move(*before.split(":")),
                group=group,
                uid=self.uid,
                name=self.name,
            )
        flags = sh("-r -M") if self.system else sh("-m")
        return sh(
            "{group} && useradd {flags} -u {uid} -g {uid} -d {home} -s {shell} {name}",
            group=group,
            flags=flags,
            uid=self.uid,
            home=self.home,
            shell=self.shell,
            name=self.name,
        )

    def _move(self, uid: str, gid: str) -> Script:
        """Give the service's files to the new number; first, so that a crash in it is seen.

        usermod(8) moves a home only, and refuses while a process runs as the user.
        """
        if not self.owns:
            return sh("")
        return sh(
            'for u in {units}; do systemctl stop "$u.service" 2>/dev/null || :; done; '
            'for d in {owns}; do [ ! -e "$d" ] || {{ '
            'find "$d" -xdev -uid {uid} -exec chown -h {new} {{}} + && '
            'find "$d" -xdev -gid {gid} -exec chgrp -h {new} {{}} +; }} || exit 1; done; ',
            units=self.units,
            owns=self.owns,
            uid=uid,
            gid=gid,
            new=self.uid,
        )


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
        """``user:<name>``."""
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
        return sh(
            'n={name}; echo passwd; getent passwd "$n" {uid}; echo group; getent group "$n" {uid}; '
            'echo state; h=$(getent passwd "$n" | cut -d: -f6); h=${{h:-{home}}}; '
            'o=$(timeout -s KILL 20 stat -L -c %u "$h" 2>/dev/null); '
            'k=$(timeout -s KILL 20 runuser -u "$n" -- '
            "sed -n '/^# corral begin/,/^# corral end/p' \"$h/.ssh/authorized_keys\" 2>/dev/null "
            "| sha256sum); "
            'e=$(getent shadow "$n" | cut -d: -f8); '
            'm=no; case ",$(getent group {group} | cut -d: -f4)," in *",$n,"*) m=yes ;; esac; '
            'echo "$h|${{o:-absent}}|${{k%% *}}|$e|$m|$(getent passwd "$n" | cut -d: -f7)"',
            name=self.name,
            uid=self.uid,
            home=self._home,
            group=GROUP,
        )

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
        return sh(
            "groupadd -f -r {group} && {own} && useradd -M -u {uid} -g {uid} -G {group} -d {home} "
            "-s {shell} {name} && [ -x {shell} ]",
            group=GROUP,
            own=sh(":") if has_group else sh("groupadd -g {uid} {n}", uid=self.uid, n=self.name),
            uid=self.uid,
            home=self._home,
            shell=self.shell,
            name=self.name,
        )

    def _modify(self, home: str) -> Script:
        return sh(
            "[ -x {shell} ] && usermod -d {home} -s {shell} {name}",
            home=home,
            shell=self.shell,
            name=self.name,
        )

    def _join(self) -> Script:
        return sh(
            "groupadd -f -r {group} && gpasswd -a {name} {group}", group=GROUP, name=self.name
        )

    def _unlock(self) -> Script:
        # usermod -U refuses to unlock into an empty password: such a user has keys only.
        return sh(
            "usermod -e '' {name} && {{ usermod -U {name} 2>/dev/null || :; }}", name=self.name
        )

    def _make_home(self, home: str) -> Script:
        if not self.make_home:
            return sh(
                "[ -d {home} ] || {{ echo {text} >&2; exit 1; }}",
                home=home,
                text=f"{home} is shared and not there: is its folder mounted?",
            )
        # Made under another name and renamed, so that a crash leaves no half home.
        return sh(
            "if [ ! -d {home} ]; then mkdir -p {parent} && rm -rf {new} && mkdir -m 700 {new} && "
            "{{ [ ! -d /etc/skel ] || cp -RT /etc/skel {new}; }} && chown -R {uid}:{uid} {new} && "
            "chmod 700 {new} && mv -T {new} {home}; fi",
            home=home,
            parent=home.rpartition("/")[0] or "/",
            new=f"{home}.corral-new",
            uid=self.uid,
        )

    def _write_keys(self) -> Script:
        # Run as the user: so no link in the home leads root anywhere. sshd's StrictModes wants the
        # modes.
        script = sh(
            "umask 077; cd && mkdir -p .ssh && {{ "
            "{{ [ ! -f .ssh/authorized_keys ] || "
            "sed '/^# corral begin/,/^# corral end/d' .ssh/authorized_keys; }}; "
            "printf %s {block}; }} > .ssh/authorized_keys.corral && "
            "mv -f .ssh/authorized_keys.corral .ssh/authorized_keys",
            block=self.block,
        )
        # Several machines may write to one shared home at once: a second try meets no half file.
        return sh(
            'k() {{ runuser -u {name} -- env HOME="$(getent passwd {name} | cut -d: -f6)" '
            "sh -c {script}; }}; {{ k || k; }}",
            name=self.name,
            script=str(script),
        )


@dataclass(frozen=True, slots=True)
class FormerPeople(Standalone):
    """People whom the file names no longer: their login ends, all they own stays.

    Attributes:
        keep: login names that are declared.
    """

    keep: tuple[str, ...]

    @property
    def id(self) -> str:
        """``former-people``."""
        return "former-people"

    def probe(self) -> Script:
        """Members of the group with the day their login ends."""
        return sh(
            "for n in $(getent group {group} | cut -d: -f4 | tr , ' '); do "
            'echo "$n $(getent shadow "$n" | cut -d: -f8)"; done',
            group=GROUP,
        )

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
            sh('for n in {names}; do usermod -L -e 1 "$n" || exit 1; done', names=gone),
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
