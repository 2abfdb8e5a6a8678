"""Shell that replaces the keys of a live cluster, one phase at a time. Pure.

slurm.jwks goes through three phases (docs/guide/keys.md); the file itself states which one it is
in, in a field that Slurm ignores, so a rotation that was killed goes on where it was:

* ``announced``: the old key signs, the new one is known;
* ``promoted``: the new key signs, the old one is known;
* ``rotated``: the new key signs, the old one expires; slurm.key is the new key too.

Keys pass through variables, pipes and shell builtins: they are in no argument list.
"""

from __future__ import annotations

from typing import Final

from corral.hosts.quote import Script, sh

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
