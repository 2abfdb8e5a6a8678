"""A systemd timer with its service: enabled and running as written, or gone. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Impact, Seen

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
