"""systemd services: enabled, running, and running with the files that are on disk now. Pure.

A service remembers the digest of its input files at its last start (a stamp). So a crash between
"file changed" and "service restarted" is seen by the next plan, and secrets count without being
read by it (docs/decisions/0009).
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Impact, Seen

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
        impact: what a restart does to the node's work.
    """

    unit: str
    inputs: tuple[str, ...] = ()
    reload: Script | None = None
    settle: Script | None = None
    impact: Impact = Impact.RESTART

    @property
    def id(self) -> str:
        """``service:<unit>``."""
        return f"service:{self.unit}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Its inputs, as files or as secrets."""
        return tuple(f"{kind}:{path}" for path in self.inputs for kind in ("file", "secret"))

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
        because = ", ".join(c.resource.partition(":")[2] for c in touched)
        return Change(
            self.id,
            f"{verb} {self.unit}" + (f" ({because})" if because else ""),
            seen.text,
            "enabled running current",
            self._finish(action),
            impact,
        )

    @property
    def _stamp(self) -> str:
        return f"{STAMPS}/{self.unit}"

    def _now(self) -> Script:
        # /dev/null: without a file sha256sum would read stdin.
        return sh("now=$(sha256sum /dev/null {inputs} 2>/dev/null)", inputs=self.inputs)

    def _restart(self) -> Script:
        # reset-failed: a unit that failed too often within its start limit would refuse.
        return sh(
            "systemctl daemon-reload && {{ systemctl reset-failed {unit} 2>/dev/null || :; }} && "
            "{{ systemctl restart {unit} || {{ systemctl status --no-pager -l -n 15 {unit} >&2; "
            "exit 1; }}; }}",
            unit=f"{self.unit}.service",
        )

    def _finish(self, action: Script) -> Script:
        return sh(
            "{action} && {settle} && systemctl enable -q {unit} 2>/dev/null && {now} && "
            "mkdir -p {stamps} && printf '%s\\n' \"$now\" > {stamp}",
            action=action,
            settle=self.settle or sh(":"),
            unit=f"{self.unit}.service",
            now=self._now(),
            stamps=STAMPS,
            stamp=self._stamp,
        )
