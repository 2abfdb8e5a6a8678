"""SSH keys and host keys: pairs, fingerprints, known_hosts lines, pins under node names.

A cluster has its own known_hosts file, in which each key is listed under its node's name, so
that a node stays the same machine whatever its address is (docs/decisions/0014). A node that has no
key there yet may be known to the user already, under its address: then that key is the one.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts import process
from corral.hosts.target import SSH_PORT, SshTarget

DEFAULT_KEYS: Final = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")
"""Private keys in ~/.ssh that ssh tries where none is named."""
_TYPE: Final = re.compile(r"(sk-)?(ssh|ecdsa)-[a-z0-9@.-]+")
_ALIAS: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def make_key(path: Path, comment: str = "corral") -> str:
    """Make an Ed25519 key pair, ``path`` and ``path.pub``, unless ``path`` is there already.

    The private key appears complete or not at all, readable by its owner only, and is never written
    over; two processes that make the same one end with the same pair.

    Returns:
        The public key: one line, no newline.

    Raises:
        CorralError: MISSING_TOOL without ssh-keygen, COMMAND_FAILED when it fails (the existing
            file is not a private key, or has a passphrase).
    """
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".corral-key-") as folder:
            fresh = Path(folder) / "key"
            _keygen("-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(fresh))
            with contextlib.suppress(FileExistsError):  # another process was first
                os.link(fresh, path)
    public = _keygen("-y", "-P", "", "-f", str(path)).strip()
    if len(public.split()) == 2:  # noqa: PLR2004  # type and key: -y gives no comment for some files
        public = f"{public} {comment}"
    _write(path.with_name(f"{path.name}.pub"), f"{public}\n")
    return public


def fingerprint(public: str) -> str:
    """SHA256 fingerprint of a public key line, as ``ssh-keygen -l`` shows it.

    Raises:
        CorralError: PARSE_FAILED.
    """
    blob = base64.b64decode(_split(public)[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def known_hosts_line(node: str, public: str) -> str:
    """The known_hosts line, with its newline, that pins a key to a node's name (HostKeyAlias).

    Raises:
        CorralError: USAGE for a name that known_hosts would read as a pattern or a list,
            PARSE_FAILED for no public key.
    """
    if not _ALIAS.fullmatch(node):
        raise CorralError(
            Code.USAGE,
            f"{node!r} cannot be in known_hosts",
            hint="use letters, digits, . _ -",
        )
    kind, key = _split(public)
    return f"{node} {kind} {key}\n"


def known_fingerprints(node: str, known: str) -> tuple[str, ...]:
    """Fingerprints pinned to a node in the text of a known_hosts file."""
    fingerprints: list[str] = []
    for line in known.splitlines():
        name, _, public = line.strip().partition(" ")
        if name == node:
            with contextlib.suppress(CorralError):
                fingerprints.append(fingerprint(public))
    return tuple(fingerprints)


def _split(public: str) -> tuple[str, str]:
    parts = public.split()
    if len(parts) >= 2 and _TYPE.fullmatch(parts[0]) and "\n" not in public.strip():  # noqa: PLR2004
        kind, key = parts[0], parts[1]
        try:
            blob = base64.b64decode(key, validate=True)
        except binascii.Error:
            blob = b""
        # The blob names its own type first (RFC 4253 section 6.6).
        if blob.startswith(len(kind).to_bytes(4, "big") + kind.encode()):
            return kind, key
    raise CorralError(
        Code.PARSE_FAILED,
        "no SSH public key",
        tail=public[:80],
        hint="a public key is one line: a type as ssh-ed25519, then base64",
    )


def _write(path: Path, text: str) -> None:
    """Put a file in place in one move, unless it holds the text already."""
    with contextlib.suppress(OSError):
        if path.read_text() == text:
            return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".corral-key-")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(name).chmod(0o644)
    Path(name).replace(path)


def _keygen(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["ssh-keygen", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise CorralError(
            Code.MISSING_TOOL,
            "ssh-keygen is not installed on this machine",
            command="ssh-keygen",
            hint="install the OpenSSH client (Debian and Ubuntu: openssh-client)",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise CorralError(
            Code.TIMED_OUT, "ssh-keygen took longer than 30 s", command="ssh-keygen"
        ) from error
    if done.returncode:
        raise CorralError(
            Code.COMMAND_FAILED,
            "ssh-keygen failed",
            command="ssh-keygen",
            status=done.returncode,
            tail=(done.stderr or done.stdout).strip(),
            hint="is the file a private key without a passphrase, and may you read it?",
        )
    return done.stdout


_VALID: Final = re.compile(r"^\s*Valid: (?:.* to|before) (\d{4}-\d\d-\d\dT[\d:]{8})", re.MULTILINE)


def expired_certificate(key: Path, now: datetime) -> str:
    """When the certificate next to a private key expired; "" for a valid one or none.

    sshd reports that to its own log alone: the client sees "Permission denied".

    Args:
        key: the private key; its certificate is ``KEY-cert.pub``.
        now: local time, as ssh-keygen prints times.
    """
    certificate = key.with_name(f"{key.name}-cert.pub")
    if not certificate.is_file():
        return ""
    try:
        valid = _VALID.search(_keygen("-L", "-f", str(certificate)))
    except CorralError:
        return ""
    if valid is None or datetime.fromisoformat(valid[1]) > now:
        return ""
    return valid[1].replace("T", " ")


QUERY_S: Final = 10.0


async def settings(target: SshTarget, *, any_user: bool = False) -> dict[str, str]:
    """What ssh makes of a target with the user's config (``ssh -G``), by lower-case keyword.

    Of keywords that occur several times the first counts. ``any_user``: the config sets the user.
    """
    port = ["-p", str(target.port)] if target.port != SSH_PORT else []
    user = [] if any_user or not target.user else ["-l", target.user]
    argv = ["ssh", "-G", *target.options, *port, *user, "--", target.address]
    ended = await process.run(argv, timeout=QUERY_S)
    values: dict[str, str] = {}
    for line in ended.out.splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key.lower(), value)
    return values


async def known_to_user(node: str, target: SshTarget) -> str:
    """known_hosts lines, under the node's name, of the keys that the user's own files have for it.

    Certificate authorities and revoked keys are left out: lines with a marker.
    """
    config = await settings(target)
    host = config.get("hostkeyalias") or config.get("hostname", target.address).lower()
    port = config.get("port", "22")
    name = host if port == "22" or "hostkeyalias" in config else f"[{host}]:{port}"
    files = (
        f"{config.get('userknownhostsfile', '')} {config.get('globalknownhostsfile', '')}".split()
    )
    lines: dict[str, None] = {}
    for file in files:
        # ssh-keygen fails on a missing file and prints no line.
        path = option_file(file)
        ended = await process.run(["ssh-keygen", "-F", name, "-f", path], timeout=QUERY_S)
        lines |= dict.fromkeys(pinned_as(node, ended.out))
    return "".join(lines)


def option_file(text: str) -> str:
    """A path as ``ssh -G`` prints it, made absolute."""
    return str(Path(text).expanduser())


def pinned_as(node: str, text: str) -> list[str]:
    """Lines that ``ssh-keygen -F`` gave, as lines that pin the same keys to a node's name."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(("#", "@")):
            continue
        with contextlib.suppress(CorralError):
            lines.append(known_hosts_line(node, line.partition(" ")[2]))
    return lines


def pin(file: Path, lines: str) -> None:
    """Add known_hosts lines that the file does not have yet."""
    _rewrite(file, lambda old: old + "".join(x for x in _lines(lines) if x not in _lines(old)))


def unpin(file: Path, node: str) -> None:
    """Take a node's lines out of a known_hosts file."""
    _rewrite(file, lambda old: "".join(x for x in _lines(old) if x.partition(" ")[0] != node))


def _lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.splitlines()]


def _rewrite(file: Path, change: Callable[[str], str]) -> None:
    """Rewrite a file in one rename, under a lock: several nodes are pinned at once."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (file.parent / f".{file.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        old = file.read_text() if file.is_file() else ""
        new = change(old)
        if new == old:
            return
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        with os.fdopen(handle, "w") as out:
            out.write(new)
        Path(name).replace(file)
