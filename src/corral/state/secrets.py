"""Secrets on machines: made, copied, a cloud's key, and their rotation. Pure: no plan sees one.

A plan knows it by a digest; the key itself goes from this machine's environment, file or keyring to
the standard input of the script that writes it (docs/decisions/0044).

slurm.jwks goes through three phases (docs/guide/keys.md); the file itself states which one it is
in, in a field that Slurm ignores, so a rotation that was killed goes on where it was:

* ``announced``: the old key signs, the new one is known;
* ``promoted``: the new key signs, the old one is known;
* ``rotated``: the new key signs, the old one expires; slurm.key is the new key too.

Keys pass through variables, pipes and shell builtins: they are in no argument list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.state.base import (
    Change,
    Context,
    Impact,
    SecretRef,
    Seen,
    Standalone,
)


@dataclass(frozen=True, slots=True)
class Secret(Standalone):
    """A file of random bytes, equal on all nodes that want it.

    Attributes:
        path: absolute path.
        source: the node on which it is made, and from which the others get it.
        owner: ``user:group``.
        mode: octal as ``stat -c %a`` prints it.
        size: random bytes to make.
        optional: it is not made when the source has none; the other nodes then have none either.
    """

    path: str
    source: str
    owner: str
    mode: str = "600"
    size: int = 1024
    optional: bool = False

    @property
    def id(self) -> str:
        """``secret:<path>``."""
        return f"secret:{self.path}"

    def probe(self) -> Script:
        """Digest (of random bytes: it reveals nothing), size, mode and owner."""
        return sh(
            "if [ -s {path} ]; then d=$(sha256sum < {path}); "
            "echo \"${{d%% *}} $(stat -c '%a %U:%G' {path})\"; else echo absent; fi",
            path=self.path,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """On the source: make it when absent. Elsewhere: copy it when it is not the source's."""
        digest, _, attributes = seen.text.partition(" ")
        desired = f"{self.mode} {self.owner}"
        here = context.node == self.source
        known = context.secrets.get(self.id)
        if (here and digest != "absent") or (not here and known is not None and digest == known):
            return None if attributes == desired else self._attributes(attributes, desired)
        if self.optional and known is None:
            return None if digest == "absent" else self._remove()
        before = "" if digest == "absent" else "another key"
        if here:
            return Change(
                self.id, f"make {self.path}", before, f"{self.size} random bytes", self._make()
            )
        return Change(
            self.id,
            f"copy {self.path} from {self.source}",
            before,
            f"the key of {self.source}",
            self._receive(),
            Impact.NONE if digest == "absent" else Impact.RESTART,
            (SecretRef(self.id, self.source, self.path),),
        )

    def _attributes(self, before: str, desired: str) -> Change:
        return Change(
            self.id,
            f"owner and mode of {self.path}",
            before,
            desired,
            sh(
                "chown {owner} {path} && chmod {mode} {path}",
                owner=self.owner,
                mode=self.mode,
                path=self.path,
            ),
        )

    def _remove(self) -> Change:
        return Change(
            self.id,
            f"remove {self.path}: {self.source} has none",
            "its own key",
            "",
            sh("rm -f {path}", path=self.path),
            Impact.RESTART,
        )

    def _make(self) -> Script:
        return self._into_place(sh("head -c {size} /dev/urandom", size=self.size))

    def _receive(self) -> Script:
        return self._into_place(sh('IFS= read -r n && head -c "$n"'))

    def _into_place(self, produce: Script) -> Script:
        return sh(
            "umask 077 && mkdir -p {parent} && t=$(mktemp {path}.corral.XXXXXX) && "
            '{{ {produce}; }} > "$t" && [ -s "$t" ] && chown {owner} "$t" && chmod {mode} "$t" && '
            'mv -f "$t" {path} && rm -f {path}.corral.??????',
            parent=self.path.rpartition("/")[0],
            path=self.path,
            produce=produce,
            owner=self.owner,
            mode=self.mode,
        )


KEYS: Final = "@cloud"
"""As the node of a ``SecretRef``: an API key of this machine's user, by the cloud's name."""


@dataclass(frozen=True, slots=True)
class GuardKey(Standalone):
    """The key of one cloud.

    Attributes:
        cloud: its name in the cluster file.
        path: where it is stored.
        digest: the first 16 hexadecimal digits of its SHA-256: keys are long and random.
    """

    cloud: str
    path: str
    digest: str

    @property
    def id(self) -> str:
        """``secret:<path>``."""
        return f"secret:{self.path}"

    def probe(self) -> Script:
        """Digest, mode and owner; ``absent``."""
        return sh(
            "if [ -s {path} ]; then d=$(sha256sum < {path}); d=${{d%% *}}; "
            "printf '%.16s %s\\n' \"$d\" \"$(stat -c '%a %U' {path})\"; else echo absent; fi",
            path=self.path,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Write it, or another one."""
        desired = f"{self.digest} 600 root"
        if seen.text == desired:
            return None
        what = "put the API key of" if seen.text == "absent" else "replace the API key of"
        return Change(
            self.id,
            f"{what} {self.cloud} into {self.path}, for root alone",
            "" if seen.text == "absent" else "another key",
            "the key",
            sh(
                "umask 077 && mkdir -p {parent} && chmod 700 {parent} && IFS= read -r n && "
                'head -c "$n" > {path}.new && [ -s {path}.new ] && chmod 600 {path}.new && '
                "mv -f {path}.new {path}",
                parent=self.path.rpartition("/")[0],
                path=self.path,
            ),
            secrets=(SecretRef(f"API key of {self.cloud}", KEYS, self.cloud),),
        )


@dataclass(frozen=True, slots=True)
class Watched:
    """A cloud that the controller's guard may ask.

    Attributes:
        cloud: its name in the cluster file.
        url: address of its API as the controller reaches it.
        digest: as ``GuardKey``.
        client: the module with the calls that list and end its machines.
    """

    cloud: str
    url: str
    digest: str
    client: str


NEXT: Final = ".next"
"""Ending of a munge key that waits to take its place."""
OVERLAP_S: Final = 900
"""Seconds that the old key is still good after the new one signs everywhere. Tokens live 60 s, job
credentials 120 s (DEFAULT_TTL of auth/slurm, DEFAULT_EXPIRATION_WINDOW of cred)."""

OWNER: Final = "slurm:slurm"

_WRITE = sh(
    "write() {{ cat > {jwks}.corral && chown {owner} {jwks}.corral && "
    "chmod 600 {jwks}.corral && mv -f {jwks}.corral {jwks}; }}",
    jwks=Script('"$jwks"'),
    owner=Script('"$owner"'),
)


def phase(jwks: str) -> Script:
    """Read-only: announced, promoted, rotated, or none."""
    return sh(
        'p=$(sed -n \'1s/.*"corral":"\\([a-z]*\\)".*/\\1/p\' {jwks} 2>/dev/null); '
        'if [ -n "$p" ]; then echo "$p"; elif [ -e {jwks} ]; then echo foreign; '
        "else echo none; fi",
        jwks=jwks,
    )


def announce(jwks: str, key: str, owner: str = OWNER) -> Script:
    """A new key in addition to the one that signs; nothing when that was done already."""
    return sh(
        "umask 077; jwks={jwks}; owner={owner}; {write}; "
        "case $({phase}) in announced|promoted) exit 0;; "
        'rotated) old=$(sed -n \'s/"use":"default"//; s/,}}$/}}/; '
        '/"exp":/!s/^{{"alg".*"kid":"\\([^"]*\\)","k":"\\([^"]*\\)".*/\\1 \\2/p\' "$jwks");; '
        'none) old="$(sha256sum < {key} | cut -c1-16) $(base64 -w0 < {key})";; '
        "*) echo 'slurm.jwks was written by somebody else' >&2; exit 1;; esac; "
        "set -- $old; [ $# -eq 2 ] || exit 1; new=$(head -c 256 /dev/urandom | base64 -w0); "
        'kid=$(printf %s "$new" | base64 -d | sha256sum | cut -c1-16); '
        '{{ echo \'{{"corral":"announced","keys":[\'; '
        'printf \'{{"alg":"HS256","kty":"oct","kid":"%s","k":"%s","use":"default"}},\\n\' '
        '"$1" "$2"; printf \'{{"alg":"HS256","kty":"oct","kid":"%s","k":"%s"}}\\n\' '
        '"$kid" "$new"; echo \']}}\'; }} | write',
        jwks=jwks,
        owner=owner,
        key=key,
        write=_WRITE,
        phase=phase(jwks),
    )


def promote(jwks: str, owner: str = OWNER) -> Script:
    """The new key signs; all daemons must know it by now."""
    return sh(
        "umask 077; jwks={jwks}; owner={owner}; {write}; "
        "case $({phase}) in promoted|rotated) exit 0;; announced) ;; *) exit 1;; esac; "
        "sed -e '1s/announced/promoted/' -e '2s/,\"use\":\"default\"//' "
        '-e \'3s/}}$/,"use":"default"}}/\' "$jwks" | write',
        jwks=jwks,
        owner=owner,
        write=_WRITE,
        phase=phase(jwks),
    )


def retire(jwks: str, key: str, owner: str = OWNER) -> Script:
    """The old key gets an end; slurm.key becomes the new key, should slurm.jwks ever be lost."""
    return sh(
        "umask 077; jwks={jwks}; owner={owner}; {write}; "
        "case $({phase}) in rotated) exit 0;; promoted) ;; *) exit 1;; esac; "
        'sed -n \'3s/.*"k":"\\([^"]*\\)".*/\\1/p\' "$jwks" | base64 -d > {key}.corral && '
        "[ -s {key}.corral ] && chown {owner} {key}.corral && chmod 600 {key}.corral && "
        "mv -f {key}.corral {key} && "
        "sed -e '1s/promoted/rotated/' "
        '-e "2s/}},\\$/,\\"exp\\":$(( $(date +%s) + {overlap} ))}},/" "$jwks" | write',
        jwks=jwks,
        owner=owner,
        key=key,
        overlap=OVERLAP_S,
        write=_WRITE,
        phase=phase(jwks),
    )


def replace(path: str, size: int, owner: str, mode: str) -> Script:
    """New random bytes in a file's place."""
    return sh(
        "umask 077; head -c {size} /dev/urandom > {path}.corral && [ -s {path}.corral ] && "
        "chown {owner} {path}.corral && chmod {mode} {path}.corral && mv -f {path}.corral {path}",
        size=size,
        path=path,
        owner=owner,
        mode=mode,
    )


def prepare(path: str, size: int, owner: str, mode: str) -> Script:
    """A next key in addition to the one in use; nothing when there is one already."""
    return sh(
        "[ -s {next} ] || {{ {replace}; }}",
        next=f"{path}{NEXT}",
        replace=replace(f"{path}{NEXT}", size, owner, mode),
    )


def swap_munge(path: str) -> Script:
    """Put the next key in its place and start munged with it (munged reads its key at start)."""
    return sh(
        "if [ -s {next} ]; then mv -f {next} {path}; fi && systemctl restart munge.service",
        next=f"{path}{NEXT}",
        path=path,
    )


def reconfigured(unit: str, path: str) -> Script:
    """Wait until a daemon that was asked to reconfigure has restarted since ``path`` changed.

    A daemon that reconfigures begins as a new process and hands its sockets over (23.11 and later).
    One that does not within some seconds is restarted. So is a configless slurmd whose first start
    found no slurm.jwks: it then keeps SLURM_SACK_KEY in its environment over all reconfigures and
    looks for slurm.jwks in its cache only (fetch_config.c; seen with 26.05.5: it signs with
    slurm.key for ever, and slurmdbd refuses it once another key is the default).
    """
    return sh(
        'main() {{ p=$(systemctl show -p MainPID --value {unit}); [ "${{p:-0}}" -gt 0 ]; }}; '
        "stuck() {{ main && tr '\\0' '\\n' < \"/proc/$p/environ\" | grep -q '^SLURM_SACK_KEY=' && "
        "! tr '\\0' '\\n' < \"/proc/$p/environ\" | grep -q '^SLURM_SACK_JWKS='; }}; "
        "taken() {{ main && read -r up idle < /proc/uptime && "
        'awk -v up="$up" -v now="$(date +%s.%N)" '
        '-v file="$(stat -c %.Y {path})" -v hz="$(getconf CLK_TCK)" '
        '\'{{ sub(/.*\\) /, ""); exit !(up - $20 / hz < now - file) }}\' "/proc/$p/stat"; }}; '
        "i=0; until taken 2>/dev/null; do i=$((i + 1)); "
        "[ $i -lt 100 ] || {{ systemctl restart {unit} && break; exit 1; }}; sleep 0.2; done; "
        "if stuck; then systemctl restart {unit}; fi",
        unit=f"{unit}.service",
        path=path,
    )
