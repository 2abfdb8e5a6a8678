"""A machine's place in a tailnet, and the client's programs. Pure.

A key to join with is made at the moment of joining (``SecretRef`` with ``MINT``), works once, and
reaches the machine by standard input and a file that only root reads (docs/guide/mesh.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.state.base import HERE, Change, Context, Impact, SecretRef, Seen, Standalone

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
        return sh(
            "[ ! -f {path} ] || {{ n=\"$(stat -c '%s %Y' {path})\"; "
            'if IFS= read -r l < {note} && [ "${{l#* }}" = "$n" ]; then echo "${{l%% *}}"; '
            "else sha256sum < {path} | cut -d' ' -f1; fi; }}",
            path=self.path,
            note=self._note,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Send it."""
        if seen.text == self.sha256:
            return None
        return Change(
            self.id,
            f"{'put' if not seen.text else 'replace'} {self.path}",
            seen.text,
            self.sha256,
            sh(
                "umask 022; mkdir -p {parent} {folder} && IFS= read -r n && "
                'head -c "$n" > {path}.new && chmod 755 {path}.new && '
                "printf '%s  %s\\n' {sum} {path}.new | sha256sum -c --quiet && "
                "mv -f {path}.new {path} && "
                "printf '%s %s\\n' {sum} \"$(stat -c '%s %Y' {path})\" > {note}",
                parent=self.path.rpartition("/")[0],
                folder=FOLDER,
                path=self.path,
                sum=self.sha256,
                note=self._note,
            ),
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
        way: how it takes part, in words, for the plan.
        minutes: what the key is good for.
    """

    node: str
    url: str
    login: str
    tag: str
    way: str
    minutes: int

    @property
    def id(self) -> str:
        """``mesh:<node>``."""
        return f"mesh:{self.node}"

    def probe(self) -> Script:
        """State, control server, whether Corral brought it in, tags."""
        return sh(
            "s=$(timeout 10 tailscale status --json --peers=false 2>/dev/null | "
            'sed -n \'s/^[[:space:]]*"BackendState": "\\([A-Za-z]*\\)",*$/\\1/p\'); '
            "c=$(timeout 10 tailscale debug prefs 2>/dev/null | "
            'sed -n \'s/^[[:space:]]*"ControlURL": "\\([^"]*\\)",*$/\\1/p\'); '
            "j=owner; [ ! -e {joined} ] || j=corral; "
            't=$(timeout 10 tailscale status --json --peers=false 2>/dev/null | tr -d " \\t\\n" | '
            'sed -n \'s/.*"Self":.*"Tags":\\[\\([^]]*\\)\\].*/\\1/p\' | tr -d \\"); '
            'echo "${{s:-absent}} ${{c:--}} $j ${{t:--}}"',
            joined=JOINED,
        )

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
                self.id, "bring tailscale up again", seen.text, "Running", self._up(Script(""))
            )
        what = "join the tailnet again" if who == "corral" else "join the tailnet"
        return self._join(seen.text, f"{what} at {self.url} as {self.tag}: {self.way}")

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
        return sh(
            "umask 077; f=$(mktemp /run/corral-mesh.XXXXXX) || exit 1; trap 'rm -f \"$f\"' EXIT\n"
            'IFS= read -r n && head -c "$n" > "$f" || exit 1\n'
            "i=0; until [ -S /run/tailscale/tailscaled.sock ] || [ $i -ge 100 ]; do "
            "i=$((i + 1)); sleep 0.2; done\n"
            "{up} || {{ s=$?; timeout 5 tailscale status >&2; exit $s; }}\n"
            "u=$(timeout 20 tailscale netcheck --format=json 2>/dev/null | "
            "sed -n 's/^[[:space:]]*\"UDP\": \\([a-z]*\\),*$/\\1/p')\n"
            "mkdir -p {folder} && case $u in true) echo yes;; false) echo no;; *) echo unknown;; "
            "esac > {joined}",
            up=self._up(sh('--auth-key="file:$f" {force}', force=_force(again))),
            folder=FOLDER,
            joined=JOINED,
        )

    def _up(self, more: Script) -> Script:
        login = sh("--login-server={url}", url=self.login) if self.login else Script("")
        return sh(
            "timeout {most} tailscale up --reset {login} --hostname={node} --accept-dns=false "
            "--accept-routes=false --timeout={up}s {more} >&2",
            most=UP_S + 10,
            up=UP_S,
            login=login,
            node=self.node,
            more=more,
        )


def _force(again: bool) -> Script:
    return Script("--force-reauth --accept-risk=lose-ssh") if again else Script("")
