"""systemd's services and timers: enabled, running, and running with today's files. Pure.

A service remembers the digest of its input files at its last start (a stamp). So a crash between
"file changed" and "service restarted" is seen by the next plan, and secrets count without being
read by it (docs/decisions/0002).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from corral.hosts.quote import Script, call, join, sh
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Reading, ReadTogether, Seen, Standalone

_PROGRAM: Final = "state/services.sh"
STAMPS = "/var/lib/corral/stamps"
ENABLED = frozenset({"enabled", "static", "indirect", "alias", "generated"})
"""Unit file states that need no ``systemctl enable``, or know none (systemctl(1), is-enabled)."""


def _units(*units: str) -> Reading:
    return Reading(_PROGRAM, "units_read", units)


@dataclass(frozen=True, slots=True)
class Service(ReadTogether):
    """A unit that is enabled and runs.

    Attributes:
        unit: name without ``.service``.
        inputs: files it reads; a change of their digest restarts it.
        reload: shell that makes the running service read its inputs again, where it can.
        settle: shell run after a start, which waits until the service can be used.
        spread: shell run after a restart that changed inputs asked for: it notifies the
            service's peers on other machines.
        impact: what a restart does to the node's work.
        programs: its own program files: other ones on disk than at its start restart it.
        finish_start: a start that is under way ends before a restart stops it.
        packages: ids of the resources that bring the programs.
    """

    unit: str
    inputs: tuple[str, ...] = ()
    reload: Script | None = None
    settle: Script | None = None
    impact: Impact = Impact.RESTART
    spread: Script | None = None
    programs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    finish_start: bool = False

    @property
    def id(self) -> str:
        return f"service:{self.unit}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Its inputs, as files or as secrets, and its packages."""
        read = tuple(f"{kind}:{path}" for path in self.inputs for kind in ("file", "secret"))
        return (*read, *self.packages)

    @property
    def reading(self) -> Reading:
        """Its unit."""
        return _units(f"{self.unit}.service")

    def probe(self) -> Script:
        """Three words: enabled?, running?, started with the inputs of now?"""
        return call(_PROGRAM, "service_probe", f"{self.unit}.service", self._stamp, *self._read)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Enable, start, restart or reload."""
        state, running, stamp = (*seen.text.split(), "", "", "")[:3]
        enabled = state in ENABLED
        if not self.inputs:
            stamp = "current"  # it reads nothing of ours, so it cannot have read something older
        touched = [context.changed[w] for w in self.watches if w in context.changed]
        worst = max((c.impact for c in touched), default=Impact.NONE)
        if enabled and running == "running" and stamp == "current" and not touched:
            return None
        if running != "running":
            verb, impact, action = "start", Impact.NONE, self._restart()
        elif self.reload is not None and touched and worst <= Impact.RELOAD:
            verb, impact, action = "reload", Impact.RELOAD, self.reload
        elif stamp == "current" and not touched:
            verb, impact, action = "enable", Impact.NONE, sh(":")
        else:
            verb, impact, action = "restart", self.impact, self._restart()
            action = join([action, self.spread], " && ") if self.spread else action
        because = ", ".join(c.resource.partition(":")[2] for c in touched)
        return Change(
            self.id,
            f"{verb} {self.unit}" + (f" ({because})" if because else ""),
            seen.text,
            "enabled running current",
            self._finish(action),
            impact,
        )

    def notified(self, action: Script | None = None) -> Script:
        """Shell that makes the running service read its inputs, and remembers that it did.

        Args:
            action: what makes it read them; None: a restart.
        """
        return self._finish(action or self._restart())

    @property
    def _stamp(self) -> str:
        return f"{STAMPS}/{self.unit}"

    @property
    def _read(self) -> tuple[str, ...]:
        """Files whose digest is remembered; some may be absent (slurm.jwks)."""
        return (*self.inputs, *self.programs)

    def _restart(self) -> Script:
        function = "service_restart_started" if self.finish_start else "service_restart"
        return call(_PROGRAM, function, f"{self.unit}.service")

    def _finish(self, action: Script) -> Script:
        unit = f"{self.unit}.service"
        note = call(_PROGRAM, "service_note", unit, self._stamp, *self._read)
        return join([action, *([self.settle] if self.settle else []), note], " && ")


@dataclass(frozen=True, slots=True)
class Stopped(Standalone):
    """A unit that Corral once started and that is declared no longer: neither enabled nor running.

    A unit that Corral never started is not touched.
    """

    unit: str

    @property
    def id(self) -> str:
        return f"stopped:{self.unit}"

    def probe(self) -> Script:
        """``started`` where there is a stamp of it."""
        return sh("[ ! -e {stamp} ] || echo started", stamp=f"{STAMPS}/{self.unit}")

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Stop and disable it; its configuration stays."""
        if seen.text != "started":
            return None
        return Change(
            self.id,
            f"stop {self.unit}, which is declared no longer",
            "started",
            "stopped",
            sh(
                "systemctl -q disable --now {unit} && rm -f {stamp}",
                unit=f"{self.unit}.service",
                stamp=f"{STAMPS}/{self.unit}",
            ),
            Impact.RESTART,
        )


UNITS = "/etc/systemd/system"


@dataclass(frozen=True, slots=True)
class Timer(ReadTogether):
    """A timer, or a path that is watched; its two unit files are separate resources.

    Attributes:
        name: name of both units, without ending.
        on: False: it must not run; its files are removed by resources after this one.
        starts: the unit that it starts (``Unit=``), with ending; "" for the service of its name.
        kind: of the unit.
    """

    name: str
    on: bool = True
    starts: str = ""
    kind: Literal["timer", "path"] = "timer"

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Its unit files."""
        units = (f"{self.name}.{self.kind}", f"{self.name}.service", self.starts)
        return tuple(f"file:{UNITS}/{unit}" for unit in units if unit)

    @property
    def reading(self) -> Reading:
        """Its unit."""
        return _units(f"{self.name}.{self.kind}")

    def probe(self) -> Script:
        """Enabled?, running?, does systemd know the files of now?"""
        return call(_PROGRAM, "timer_probe", f"{self.name}.{self.kind}")

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Enable and start it, or stop and disable it."""
        enabled, active, stale = (*seen.text.split(), "", "", "")[:3]
        unit = f"{self.name}.{self.kind}"
        if not self.on:
            if enabled != "enabled" and active != "active":
                return None
            script = sh("systemctl -q disable --now {unit}", unit=unit)
            return Change(self.id, f"stop {unit}", "on", "off", script, Impact.NONE)
        touched = any(watched in context.changed for watched in self.watches)
        if enabled == "enabled" and active == "active" and stale == "no" and not touched:
            return None
        script = call(_PROGRAM, "timer_start", unit)
        keeps = (f"file:{UNITS}/{self.kind}s.target.wants/{unit}",)
        return Change(
            self.id, f"start {unit}", seen.text, "enabled active", script, Impact.NONE, keeps=keeps
        )
