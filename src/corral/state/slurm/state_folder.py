"""The folder of slurmctld's state, when it moves, and a machine that was a backup controller. Pure.

slurm.conf on the controller names the folder that is in use, so what moves is found there: there is
no second record of it (docs/decisions/0022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Seen, Standalone
from corral.state.service import STAMPS

MARK: Final = "/var/lib/corral/backup-controller"
"""On a backup controller: the files of Slurm that it has for its slurmctld, one a line."""
_PROGRAM: Final = "state/slurm-state.sh"
_OWNER: Final = "slurm:slurm"
_MODE: Final = "700"


@dataclass(frozen=True)
class StateFolder(Standalone):
    """Slurm's state is in this folder, and comes along when slurm.conf names another one.

    What is in the new folder, as of a time before, is moved to ``before-N`` in it. The old folder
    stays as it is.
    """

    path: str

    @property
    def id(self) -> str:
        return f"slurm-state:{self.path}"

    def probe(self) -> Script:
        """Mode and owner of the folder; on a second line the one in use where that has state."""
        return call(_PROGRAM, "state_probe", self.path, f"{STAMPS}/slurmctld")

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make the folder; stop slurmctld and copy its state."""
        attributes, _, used = seen.text.partition("\n")
        desired = f"{_MODE} {_OWNER}"
        if used:
            return Change(
                self.id,
                f"move Slurm's state from {used} to {self.path}; slurmctld is stopped meanwhile",
                used,
                self.path,
                call(_PROGRAM, "state_move", used, self.path, _OWNER, _MODE),
                Impact.RESTART,
            )
        if attributes == desired:
            return None
        return Change(
            self.id,
            f"folder {self.path} ({desired})",
            "" if attributes == "absent" else attributes,
            desired,
            call(_PROGRAM, "state_make", self.path, _OWNER, _MODE),
        )


@dataclass(frozen=True)
class BackupStopped(Standalone):
    """A backup slurmctld does not run while the state moves, or is brought to another release.

    It starts again in its own stage.

    Attributes:
        path: where the state is to be; "" stops it whatever its slurm.conf names.
    """

    path: str

    @property
    def id(self) -> str:
        # A node is asked both questions in an upgrade, and answers are kept by this name.
        return f"backup-stopped:{self.path or 'whatever'}"

    def probe(self) -> Script:
        """``runs`` where it does, with state in another folder."""
        return call(_PROGRAM, "backup_probe", MARK, self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Stop it."""
        if seen.text != "runs":
            return None
        script = call(_PROGRAM, "backup_stop")
        return Change(self.id, "stop the backup slurmctld", "runs", "stopped", script, Impact.NONE)


@dataclass(frozen=True)
class NoBackup(Standalone):
    """One that was a backup controller is stopped, and loses Slurm's files."""

    @property
    def id(self) -> str:
        return "no-backup-controller"

    def probe(self) -> Script:
        """``was`` where it has been one."""
        return call(_PROGRAM, "was_backup", MARK)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Stop slurmctld for good."""
        if seen.text != "was":
            return None
        script = call(_PROGRAM, "backup_end", MARK, f"{STAMPS}/slurmctld")
        return Change(self.id, "end the backup slurmctld", "was", "", script, Impact.NONE)
