"""systemd's services and timers: enabled, running, and running with today's files. Pure.

A service remembers the digest of its input files at its last start (a stamp). So a crash between
"file changed" and "service restarted" is seen by the next plan, and secrets count without being
read by it (docs/decisions/0002).
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import (
    Change,
    Context,
    Impact,
    Seen,
    Standalone,
)

STAMPS = "/var/lib/corral/stamps"
ENABLED = frozenset({"enabled", "static", "indirect", "alias", "generated"})
"""Unit file states that need no ``systemctl enable``, or know none (systemctl(1), is-enabled)."""


@dataclass(frozen=True, slots=True)
class Service:
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
        """``service:<unit>``."""
        return f"service:{self.unit}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Its inputs, as files or as secrets, and its packages."""
        read = tuple(f"{kind}:{path}" for path in self.inputs for kind in ("file", "secret"))
        return (*read, *self.packages)

    def probe(self) -> Script:
        """Three words: enabled?, running?, started with the inputs of now?"""
        return sh(
            "{now}; u=$(systemctl show -p ActiveState -p UnitFileState {unit}); "
            "e=${{u##*UnitFileState=}}; e=${{e%%[!a-z-]*}}; "
            'case "$u" in *ActiveState=active*|*ActiveState=activating*|*ActiveState=reloading*) '
            "a=running;; *) a=stopped;; esac; "
            's=$(cat {path}); [ "$s" = "$now" ] && s=current || s=stale; '
            'echo "${{e:-absent}} $a $s"',
            now=self._now(),
            unit=f"{self.unit}.service",
            path=self._stamp,
        )

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
            action = sh("{a} && {spread}", a=action, spread=self.spread) if self.spread else action
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

    def _now(self) -> Script:
        # /dev/null: without a file sha256sum would read stdin. Some may be absent (slurm.jwks).
        files = (*self.inputs, *self.programs)
        return sh("now=$(sha256sum /dev/null {files} 2>/dev/null || :)", files=files)

    def _restart(self) -> Script:
        # A reload reads all units again, so only where systemd reports that it needs one
        # (org.freedesktop.systemd1(5), NeedDaemonReload: unit file or drop-ins differ from what it
        # knows). reset-failed: a unit that failed too often within its start limit would refuse.
        return sh(
            '{{ [ "$(systemctl show -p NeedDaemonReload {unit})" = NeedDaemonReload=no ] || '
            "systemctl daemon-reload; }} && "
            "{{ systemctl reset-failed {unit} 2>/dev/null || :; }} && "
            "{started}{{ systemctl restart {unit} || "
            "{{ systemctl status --no-pager -l -n 15 {unit} >&2; exit 1; }}; }}",
            unit=f"{self.unit}.service",
            started=self._started() if self.finish_start else sh(""),
        )

    def _started(self) -> Script:
        # A start joins the one that is under way, as of a run that was killed, and waits for it.
        return sh(
            "case $(systemctl is-active {unit}) in "
            "activating) systemctl start {unit} || :;; esac && ",
            unit=f"{self.unit}.service",
        )

    def _finish(self, action: Script) -> Script:
        # Enabling reads all units again even where nothing is to be enabled.
        return sh(
            "{action} && {settle} && {{ case $(systemctl is-enabled {unit} 2>/dev/null) in "
            "enabled|static|indirect|alias|generated) ;; "
            "*) systemctl enable -q {unit} 2>/dev/null ;; esac; }} && {now} && "
            "mkdir -p {stamps} && printf '%s\\n' \"$now\" > {stamp}",
            action=action,
            settle=self.settle or sh(":"),
            unit=f"{self.unit}.service",
            now=self._now(),
            stamps=STAMPS,
            stamp=self._stamp,
        )


@dataclass(frozen=True, slots=True)
class Stopped(Standalone):
    """A unit that Corral once started and that is declared no longer: neither enabled nor running.

    A unit that Corral never started is not touched.
    """

    unit: str

    @property
    def id(self) -> str:
        """``stopped:<unit>``."""
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
class Timer:
    """A timer that runs; its two unit files are separate resources.

    Attributes:
        name: name of both units, without ending.
        on: False: it must not run; its files are removed by resources after this one.
    """

    name: str
    on: bool = True

    @property
    def id(self) -> str:
        """``timer:<name>``."""
        return f"timer:{self.name}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Its unit files."""
        return tuple(f"file:{UNITS}/{self.name}.{kind}" for kind in ("timer", "service"))

    def probe(self) -> Script:
        """Enabled?, running?, does systemd know the files of now?"""
        return sh(
            "printf '%s %s %s\\n' \"$(systemctl is-enabled {unit} 2>/dev/null || :)\" "
            '"$(systemctl is-active {unit} 2>/dev/null || :)" '
            '"$(systemctl show -p NeedDaemonReload --value {unit} 2>/dev/null || :)"',
            unit=f"{self.name}.timer",
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Enable and start it, or stop and disable it."""
        enabled, active, stale = (*seen.text.split(), "", "", "")[:3]
        unit = f"{self.name}.timer"
        if not self.on:
            if enabled != "enabled" and active != "active":
                return None
            script = sh("systemctl -q disable --now {unit}", unit=unit)
            return Change(self.id, f"stop {unit}", "on", "off", script, Impact.NONE)
        touched = any(watched in context.changed for watched in self.watches)
        if enabled == "enabled" and active == "active" and stale == "no" and not touched:
            return None
        script = sh(
            "systemctl daemon-reload && systemctl -q enable {unit} && systemctl restart {unit}",
            unit=unit,
        )
        keeps = (f"file:{UNITS}/timers.target.wants/{unit}",)
        return Change(
            self.id, f"start {unit}", seen.text, "enabled active", script, Impact.NONE, keeps=keeps
        )
