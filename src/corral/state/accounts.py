"""System groups and users with fixed ids, equal on all nodes (F17). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Impact, Seen, Standalone


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
        users, groups = _entries(seen.text)
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


def _entries(text: str) -> tuple[dict[str, str], dict[str, str]]:
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
