"""System groups and users with fixed ids, equal on all nodes (F17). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Impact, Seen


@dataclass(frozen=True, slots=True)
class UserAccount:
    """A user with a group of the same name and the same number.

    Attributes:
        name: login name.
        uid: numeric id of the user and of the group.
        home: home folder, made with mode 0700 when it is under /home.
        shell: login shell.
        system: a service's user: no home is made.
    """

    name: str
    uid: int
    home: str
    shell: str = "/bin/bash"
    system: bool = False

    @property
    def id(self) -> str:
        """``user:<name>``."""
        return f"user:{self.name}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def probe(self) -> Script:
        """``uid gid`` of the user, and who else holds the wanted ids."""
        return sh(
            'u=$(getent passwd {name} | cut -d: -f3,4); echo "user ${{u:-absent}}"; '
            'g=$(getent group {name} | cut -d: -f3); echo "group ${{g:-absent}}"; '
            'echo "uid $(getent passwd {uid} | cut -d: -f1)"; '
            'echo "gid $(getent group {uid} | cut -d: -f1)"',
            name=self.name,
            uid=self.uid,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make the user, or move it to the wanted ids; refuses to take an id from another."""
        found = {k: v for k, _, v in (line.partition(" ") for line in seen.text.splitlines())}
        if found.get("user") == f"{self.uid}:{self.uid}":
            return None
        exists = found.get("user", "absent") != "absent"
        before = found.get("user", "") if exists else ""
        summary = f"{'renumber' if exists else 'make'} user {self.name} ({self.uid})"
        taken = [k for k in ("uid", "gid") if found.get(k) and found[k] != self.name]
        script = self._refuse(found[taken[0]]) if taken else self._make(exists, found)
        impact = Impact.RESTART if exists else Impact.NONE
        return Change(self.id, summary, before, f"{self.uid}:{self.uid}", script, impact)

    def _refuse(self, other: str) -> Script:
        return sh(
            "echo {text} >&2; exit 1",
            text=f"id {self.uid} wanted for {self.name} belongs to {other}: "
            "give one of them another id",
        )

    def _make(self, exists: bool, found: dict[str, str]) -> Script:
        group = (
            sh("groupmod -g {uid} {name}", uid=self.uid, name=self.name)
            if found.get("group", "absent") != "absent"
            else sh("groupadd -g {uid} {name}", uid=self.uid, name=self.name)
        )
        if exists:
            return sh(
                "{group} && usermod -u {uid} -g {uid} {name}",
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
