"""A machine in a tailnet: its client under systemd, or under supervisord in a container. Pure.

A key to join with is made at the moment of joining (``SecretRef`` with ``MINT``), works once, and
reaches the machine by standard input and a file that only root reads (docs/guide/mesh.md).

The same promises as ``state.service``: runs, and runs with the files that are on disk now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call, sh
from corral.spec.impacts import Impact
from corral.state.base import HERE, Change, Context, SecretRef, Seen, Standalone
from corral.state.service import STAMPS

_PROGRAM: Final = "state/mesh.sh"
_SERVICES: Final = "state/services.sh"
MINT: Final = "@mesh"
"""As the node of a ``SecretRef``: a key that the control server makes when apply asks for it."""

STATE: Final = "/var/lib/tailscale/tailscaled.state"
JOINED: Final = "/var/lib/corral/mesh/joined"
"""On a node: there since Corral brought the machine into the tailnet; so it may take it out."""
FOLDER: Final = JOINED.rpartition("/")[0]
UP_S: Final = 90


@dataclass(frozen=True, slots=True)
class MeshProgram(Standalone):
    """One program of the mesh client, copied from this machine.

    Attributes:
        path: where it goes on the node.
        source: where it is here.
        sha256: digest of it.
    """

    path: str
    source: str
    sha256: str

    @property
    def id(self) -> str:
        """``file:<path>``: the ledger keeps it as any file."""
        return f"file:{self.path}"

    @property
    def _note(self) -> str:
        return f"{FOLDER}/{self.path.rpartition('/')[2]}.sum"

    def probe(self) -> Script:
        """Its digest; of a file that is as Corral left it the noted one: it has 30 MB."""
        return call(_PROGRAM, "mesh_program_probe", self.path, self._note)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Send it."""
        if seen.text == self.sha256:
            return None
        return Change(
            self.id,
            f"{'put' if not seen.text else 'replace'} {self.path}",
            seen.text,
            self.sha256,
            call(_PROGRAM, "mesh_program_receive", self.path, self._note, self.sha256),
            secrets=(SecretRef(self.path, HERE, self.source),),
        )


@dataclass(frozen=True, slots=True)
class MeshMember(Standalone):
    """The machine is in the tailnet of a control server, under its node's name.

    A machine that its owner has brought there stays as it is. One that is in another tailnet is
    refused: nobody can be in two.

    Attributes:
        node: the node's name, which becomes its host name there.
        url: base URL of the control server.
        login: what ``tailscale up`` gets as its login server, "" for Tailscale's own.
        tag: ``tag:NAME``.
        mode: how it takes part, in words, for the plan.
        minutes: what the key is good for.
    """

    node: str
    url: str
    login: str
    tag: str
    mode: str
    minutes: int

    @property
    def id(self) -> str:
        return f"mesh:{self.node}"

    def probe(self) -> Script:
        """State, control server, whether Corral brought it in, tags."""
        return call(_PROGRAM, "mesh_probe", JOINED)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Join, come back, or nothing."""
        state, server, who, tags = (*seen.text.split(), "", "", "", "")[:4]
        there = server.rstrip("/") == (self.login or server.rstrip("/"))
        if state == "Running":
            if not there:
                return self._refused(f"it is in the tailnet of {server}, the file wants {self.url}")
            if who != "corral" or self.tag in tags.split(","):
                return None
            return self._join(seen.text, f"take the tag {self.tag}", again=True)
        if state == "Stopped":
            if who != "corral":
                return self._refused("its owner has stopped tailscale (tailscale down)")
            return Change(
                self.id,
                "bring tailscale up again",
                seen.text,
                "Running",
                call(_PROGRAM, "mesh_up", *self._options),
            )
        what = "join the tailnet again" if who == "corral" else "join the tailnet"
        return self._join(seen.text, f"{what} at {self.url} as {self.tag}: {self.mode}")

    def renewed(self) -> Change:
        """Take a new node key; addresses and connections stay."""
        return self._join("Running", "a new node key", again=True)

    def _join(self, before: str, what: str, *, again: bool = False) -> Change:
        return Change(
            self.id,
            f"{what}; a key for this machine alone, good once, for {self.minutes} minutes",
            before,
            f"Running {self.url} corral {self.tag}",
            self._with_key(again=again),
            Impact.NONE,
            (SecretRef(f"mesh key of {self.node}", MINT, self.node),),
            keeps=(f"file:{STATE}",),
        )

    def _refused(self, why: str) -> Change:
        return Change(
            self.id,
            why,
            "",
            "",
            sh("exit 1"),
            refuses=f"{why}; on the machine: tailscale status",
        )

    def _with_key(self, *, again: bool) -> Script:
        return call(
            _PROGRAM,
            "mesh_join",
            JOINED,
            *self._options,
            *(["--force-reauth", "--accept-risk=lose-ssh"] if again else []),
        )

    @property
    def _options(self) -> tuple[str, ...]:
        login = (f"--login-server={self.login}",) if self.login else ()
        return (str(UP_S), self.node, *login)


CONF: Final = "/etc/supervisor/conf.d"
LOGS: Final = "/var/log/corral"


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
        return call(_SERVICES, "supervisor_probe", *self.packages)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Install and start."""
        words = seen.text.split()
        missing = [word for word in words if word != "runs"]
        if not missing and "runs" in words:
            return None
        return Change(
            self.id,
            f"install {', '.join(missing)}; start supervisord" if missing else "start supervisord",
            seen.text,
            "runs",
            call(_SERVICES, "supervisor_start", LOGS, *missing),
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
        return f"supervised:{self.name}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Its inputs, as files or as secrets."""
        return tuple(f"{kind}:{path}" for path in self.inputs for kind in ("file", "secret"))

    @property
    def _file(self) -> str:
        return f"{CONF}/corral-{self.name}.conf"

    @property
    def _stamp(self) -> str:
        return f"{STAMPS}/{self.name}"

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
        return call(_SERVICES, "supervised_probe", self.name, self._stamp, self.text, *self.inputs)

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
        return call(
            _SERVICES,
            "supervised_start",
            "yes" if fresh else "no",
            self.name,
            self._file,
            self._stamp,
            self.text,
            *self.inputs,
        )
