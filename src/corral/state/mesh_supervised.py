"""Daemons of a rented container that has no init: under supervisord. Pure.

The same promises as ``state.service``: runs, and runs with the files that are on disk now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Impact, Seen, Standalone
from corral.state.service import STAMPS

CONF: Final = "/etc/supervisor/conf.d"
LOGS: Final = "/var/log/corral"
_ALIVE: Final = sh("supervisorctl pid >/dev/null 2>&1")


UNIT_IS: Final = Script(
    r"""unit_is() { # UNIT: as systemctl says it, also where supervisord keeps it
  if [ -d /run/systemd/system ]; then systemctl is-active "$1" 2>&1; return; fi
  case $1 in munge) set -- munged;; esac
  case $(supervisorctl status "$1" 2>&1) in
    *RUNNING*) echo active;; *STARTING*) echo activating;; *FATAL*|*BACKOFF*) echo failed;;
    *) echo inactive;; esac
}"""
)
"""Shell function that gives a unit's state on any node."""


STOP: Final = Script(
    r"""
# Under supervisord; the mesh client last, in the background: this connection may go through it.
for f in /etc/supervisor/conf.d/corral-*.conf; do
  [ -e "$f" ] || continue
  p=${f##*/corral-}; p=${p%.conf}
  [ "$p" != tailscaled ] || continue
  supervisorctl stop "$p" >&2; pkill -x slurmstepd 2>/dev/null; say did "stopped $p"
done
if [ -e /etc/supervisor/conf.d/corral-tailscaled.conf ]; then
  (sleep 3; supervisorctl shutdown) >/dev/null 2>&1 </dev/null 9>&- &
  say did "stopped tailscaled"
fi
""".strip()
)
"""Part of ``state.undo``: what runs under supervisord ends."""


@dataclass(frozen=True, slots=True)
class Supervisor(Standalone):
    """supervisord runs; installed where it is not.

    It is started by Corral, since nobody else would: a container that restarts without it gets
    it back by the next ``corral up``.
    """

    packages: tuple[str, ...] = ("supervisor", "socat", "rsync", "iproute2")

    @property
    def id(self) -> str:
        """``packages:supervisor``: the ledger keeps what apt brings."""
        return "packages:supervisor"

    def probe(self) -> Script:
        """What is not installed; ``runs`` when supervisord answers."""
        return sh(
            "for p in {packages}; do dpkg-query -W -f '${{db:Status-Status}}' \"$p\" 2>/dev/null | "
            'grep -qx installed || echo "$p"; done; '
            "! command -v supervisorctl >/dev/null || ! {alive} || echo runs",
            packages=self.packages,
            alive=_ALIVE,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Install and start."""
        words = seen.text.split()
        missing = [word for word in words if word != "runs"]
        if not missing and "runs" in words:
            return None
        install = sh(
            "export DEBIAN_FRONTEND=noninteractive; {{ apt-get install -qy "
            "--no-install-recommends {names} || {{ apt-get update -q && apt-get install -qy "
            "--no-install-recommends {names}; }}; }} && ",
            names=missing,
        )
        return Change(
            self.id,
            f"install {', '.join(missing)}; start supervisord" if missing else "start supervisord",
            seen.text,
            "runs",
            sh(
                "mkdir -p {logs} && {install}{{ {alive} || {{ "
                "supervisord -c /etc/supervisor/supervisord.conf && "
                "i=0; until {alive}; do i=$((i + 1)); [ $i -lt 50 ] || exit 1; sleep 0.2; done; "
                "}}; }}",
                logs=LOGS,
                install=install if missing else Script(""),
                alive=_ALIVE,
            ),
        )


@dataclass(frozen=True, slots=True)
class Supervised:
    """A daemon that supervisord keeps running.

    Attributes:
        name: the program's name for supervisorctl.
        command: its command line, of words without quotes; it stays in the foreground.
        inputs: files it reads; a change of their digest restarts it.
        priority: lower ones start first.
        impact: what a restart does to the node's work.
        group: a stop ends its complete process group. False for slurmd, whose slurmstepd live on.
        user: who it runs as, "" for root.
        note: what people should know, for the plan.
    """

    name: str
    command: str
    inputs: tuple[str, ...] = ()
    priority: int = 100
    impact: Impact = Impact.NONE
    group: bool = True
    user: str = ""
    note: str = ""

    @property
    def id(self) -> str:
        """``supervised:<name>``."""
        return f"supervised:{self.name}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Its inputs, as files or as secrets."""
        return tuple(f"{kind}:{path}" for path in self.inputs for kind in ("file", "secret"))

    @property
    def _file(self) -> str:
        return f"{CONF}/corral-{self.name}.conf"

    @property
    def text(self) -> str:
        """Its section in supervisord's configuration."""
        as_group = str(self.group).lower()
        return (
            f"; Written by Corral.\n[program:{self.name}]\ncommand={self.command}\n"
            f"priority={self.priority}\nautostart=true\nautorestart=true\nstartsecs=2\n"
            f"startretries=20\nstopasgroup={as_group}\nkillasgroup={as_group}\n"
            f"redirect_stderr=true\nstdout_logfile={LOGS}/{self.name}.log\n"
            "stdout_logfile_maxbytes=4MB\nstdout_logfile_backups=1\n"
            + (f"user={self.user}\n" if self.user else "")
        )

    def probe(self) -> Script:
        """Two words: running?, started with the inputs of now?"""
        return sh(
            "{now}; a=stopped; case $(supervisorctl status {name} 2>/dev/null) in "
            "*RUNNING*|*STARTING*) a=running;; esac; "
            's=stale; [ "$(cat {stamp})" != "$now" ] || s=current; echo "$a $s"',
            now=self._now(),
            name=self.name,
            stamp=f"{STAMPS}/{self.name}",
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Start or restart."""
        touched = [context.changed[w] for w in self.watches if w in context.changed]
        if seen.text == "running current" and not touched:
            return None
        verb = "restart" if seen.text.startswith("running") else "start"
        # What did not run when it was looked at and runs by now began with the inputs of now.
        fresh = verb == "start" and not touched
        return Change(
            self.id,
            f"{verb} {self.name} under supervisord" + (f", {self.note}" if self.note else ""),
            seen.text,
            "running current",
            self._start(fresh=fresh),
            self.impact if verb == "restart" else Impact.NONE,
            keeps=(f"file:{self._file}",),
        )

    def _start(self, *, fresh: bool) -> Script:
        # What is new or changed is begun by update itself (do_update of supervisorctl 4.3), and all
        # there is by a supervisord that has just begun (autostart). To restart it as well began it
        # twice, and a slurmd that is still starting was waited for, about 10 s (stopwaitsecs).
        again = sh("supervisorctl restart {name} >/dev/null", name=self.name)
        if fresh:
            again = sh(
                "case $(supervisorctl status {name}) in *RUNNING*|*STARTING*) ;; "
                "*) {again} ;; esac",
                name=self.name,
                again=again,
            )
        return sh(
            "mkdir -p {logs} {stamps} && printf %s {text} > {file} && "
            "updated=$(supervisorctl update); "
            "printf '%s\\n' \"$updated\" | grep -qxE {begun} || {{ {again}; }}; "
            "i=0; until supervisorctl status {name} | grep -q RUNNING; do i=$((i + 1)); "
            "[ $i -lt 30 ] || {{ supervisorctl status {name} >&2; "
            "supervisorctl tail {name} >&2; exit 1; }}; sleep 0.5; done\n"
            "{now} && printf '%s\\n' \"$now\" > {stamp}",
            logs=LOGS,
            stamps=STAMPS,
            text=self.text,
            file=self._file,
            begun=f"{self.name}: (added|updated) process group",
            again=again,
            name=self.name,
            now=self._now(),
            stamp=f"{STAMPS}/{self.name}",
        )

    def _now(self) -> Script:
        return sh(
            "now=$({{ printf %s {text}; cat {files} /dev/null; }} 2>/dev/null | sha256sum)",
            text=self.text,
            files=self.inputs,
        )
