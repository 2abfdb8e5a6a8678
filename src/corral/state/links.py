"""Symbolic links; a link to /dev/null in /etc/systemd/system masks a unit. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Seen, Standalone

UNITS = "/etc/systemd/system"


@dataclass(frozen=True, slots=True)
class Link(Standalone):
    """A symbolic link.

    Attributes:
        path: absolute path of the link.
        target: what it points to.
        why: shown in the plan.
    """

    path: str
    target: str
    why: str = ""

    @property
    def id(self) -> str:
        """``file:<path>``."""
        return f"file:{self.path}"

    def probe(self) -> Script:
        """Where it points to; ``other`` for something that is not a link."""
        return sh(
            "if [ -L {path} ]; then readlink {path}; elif [ -e {path} ]; then echo other; "
            "else echo absent; fi",
            path=self.path,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Compare the target."""
        if seen.text == self.target:
            return None
        script = sh("ln -sfn {target} {path}", target=self.target, path=self.path)
        if self.path.startswith(f"{UNITS}/"):
            script = sh("{script} && {known}", script=script, known=self._known())
        before = "" if seen.text == "absent" else seen.text
        summary = self.why or f"link {self.path} to {self.target}"
        return Change(self.id, summary, before, self.target, script)

    def _known(self) -> Script:
        # systemd goes on with a unit that it has loaded until a reload (systemctl(1)), which reads
        # all units again; one that it has not loaded it finds masked at once.
        if self.target != "/dev/null":
            return sh("systemctl daemon-reload")
        return sh(
            '[ "$(systemctl show -p LoadState {unit})" = LoadState=masked ] || '
            "systemctl daemon-reload",
            unit=self.path.rpartition("/")[2],
        )


def masked(unit: str, why: str) -> Link:
    """A unit that nothing can start any more, as ``systemctl mask`` makes it."""
    return Link(f"{UNITS}/{unit}", "/dev/null", why)
