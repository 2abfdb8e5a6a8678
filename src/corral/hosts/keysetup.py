"""The cluster's key on machines that somebody owns: made, installed once, proven.

Kept in a separate folder and not in the cluster's, which ``corral down`` removes: where
password login is off, the key may be the only way in.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from corral.agents import program
from corral.errors import Code, CorralError
from corral.hosts import process, sshkeys
from corral.hosts.jump import chain
from corral.hosts.openssh import control_dir
from corral.hosts.quote import Script, call, sh
from corral.hosts.ssh_errors import SSH_FAILED, failure
from corral.hosts.sshkeys import DEFAULT_KEYS, fingerprint, known_fingerprints, make_key
from corral.hosts.target import SshTarget, option_path
from corral.hosts.transport import Frame, Result, check
from corral.passwords import FILES, JUMP, LOGIN, person
from corral.state_dir import state_dir

KEY: Final = "id_ed25519"
KNOWN_HOSTS: Final = "known_hosts"
PROVEN: Final = "proven"
LOGIN_S: Final = 60.0

_ACCEPTED: Final = re.compile(r"^debug1: Server accepts key: .*?(SHA256:\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Installed:
    """What became of the key on one node."""

    node: str
    login: str
    how: str = ""
    error: CorralError | None = None

    @property
    def ok(self) -> bool:
        """True when the key is there and proven."""
        return self.error is None

    def as_dict(self) -> dict[str, object]:
        error = self.error.as_dict() if self.error else None
        return {"node": self.node, "login": self.login, "how": self.how, "error": error}


def keys_dir(cluster: str) -> Path:
    """The folder of a cluster's key and pinned host keys."""
    return state_dir() / "keys" / cluster


def proven(folder: Path) -> frozenset[str]:
    """Nodes on which the key of a folder has been proven."""
    with contextlib.suppress(OSError):
        return frozenset((folder / PROVEN).read_text().split())
    return frozenset()


def jump_hosts(text: str, folder: Path) -> SshTarget | None:
    """The jump hosts that a cluster file names, with the cluster's key where that is proven."""
    known = proven(folder)

    def keyed(hop: SshTarget | None) -> SshTarget | None:
        if hop is None:
            return None
        key = folder / KEY if hop.alias in known else None
        return replace(hop, key=key, via=keyed(hop.via))

    return keyed(chain(text, folder / KNOWN_HOSTS))


def note_proven(folder: Path, nodes: frozenset[str]) -> None:
    """Remember nodes on which the key has been proven."""
    sshkeys.pin(folder / PROVEN, "".join(f"{node}\n" for node in sorted(nodes)))


def key_file(folder: Path, target: SshTarget) -> Path:
    """The key that is installed: the one the file names, else the cluster's own."""
    return target.key or folder / KEY


def public_key(path: Path, comment: str) -> str:
    """The public half; the pair is made when it is not there.

    Raises:
        CorralError: MISSING_TOOL, COMMAND_FAILED.
    """
    public = path.with_name(f"{path.name}.pub")
    if path.exists() and public.is_file():  # a key with a passphrase: only its agent opens it
        return public.read_text().strip()
    return make_key(path, comment)


async def install(
    node: str, target: SshTarget, key: Path, public: str, *, kind: str = LOGIN
) -> Installed:
    """Have a key in a machine's authorized_keys, and prove it.

    Args:
        node: the node's name.
        target: how it is reached.
        key: the private key file.
        public: its public half, one line.
        kind: whose password is asked for: LOGIN of the nodes, JUMP of a jump host.
    """
    login = f"{target.user}@{target.address}"
    pinned = await _pin_known(node, target)
    try:
        how = await _put(node, replace(target, key=key), public, kind)
        if pinned:
            _report_pin(node, target, pinned)
        if not await _proves(node, replace(target, key=key), public):
            raise _unproven(node, target)
    except CorralError as error:
        error.node = error.node or node
        if pinned and error.code is Code.HOST_KEY_CHANGED and target.known_hosts:
            sshkeys.unpin(target.known_hosts, node)
        return Installed(node, login, error=error)
    return Installed(node, login, how)


async def shown_keys(node: str, target: SshTarget) -> None:
    """Pin the key that a machine shows, in a file that has none of it; nobody is logged in for it.

    ssh-keyscan knows no jump hosts and no ssh config.

    Args:
        node: its name in the file.
        target: how it is reached, and the file.

    Raises:
        CorralError: UNREACHABLE, TIMED_OUT.
    """
    words = target.arguments(node, None, opens=False, hops=control_dir())
    first = ["-o", "StrictHostKeyChecking=accept-new", "-o", "PreferredAuthentications=none"]
    try:
        ended = await process.run([words[0], *first, *words[1:], "true"], timeout=LOGIN_S)
    except TimeoutError as error:
        raise CorralError(
            Code.TIMED_OUT,
            f"{target.address} did not answer within {LOGIN_S:g} s",
            hint="correct the host's name, or check the network",
        ) from error
    if not target.pinned(node):
        raise failure(target.address, target, ended.status, ended.err, "")


def authorize(public: str) -> Script:
    """Script, run as the login user, that adds a key to authorized_keys and fixes the modes.

    sshd ignores the file where the home folder, ~/.ssh or the file can be written by others
    (StrictModes, sshd_config(5)).
    """
    kind, blob = public.split()[:2]
    return call("keys.sh", "key_authorize", f"{kind} {blob}", public)


async def _pin_known(node: str, target: SshTarget) -> str:
    """Take over what the user's known_hosts has; "new" or "known" when nothing was pinned yet."""
    if target.known_hosts is None or target.pinned(node):
        return ""
    lines = await sshkeys.known_to_user(node, target)
    sshkeys.pin(target.known_hosts, lines)
    return "as in your own known_hosts" if lines else "seen for the first time"


def _report_pin(node: str, target: SshTarget, whose: str) -> None:
    prints = known_fingerprints(node, "\n".join(target.pinned(node)))
    person().show(node, f"host key {', '.join(prints)} pinned, {whose}")


async def _put(node: str, target: SshTarget, public: str, kind: str) -> str:
    """Install by any key that opens the machine already, else by a password.

    One connection tries this key and then the user's own: sshd of OpenSSH 9.8 and later keeps
    addresses away for a while after three failed logins (PerSourcePenalties, sshd_config(5)).
    """
    settings = {"BatchMode": "yes", "IdentitiesOnly": "no", "LogLevel": "DEBUG1"}
    try:
        result = await _login(node, _with_own_keys(target), authorize(public), settings)
        taken = _ACCEPTED.findall(result.stderr)[-1:]
        how = "was there already" if taken == [fingerprint(public)] else "installed by another key"
    except CorralError as error:
        if error.code is not Code.UNREACHABLE or "may not log in" not in error.message:
            raise
        where = target.address if kind == JUMP else "the nodes"
        password = await person().password(kind, f"password of {target.user} on {where}")
        if password is None:
            error.hint = (
                "no key of yours logs in there: run this on a terminal, which asks for the "
                f"password, or name a file with it in {FILES[kind]}"
            )
            raise
        result = await _by_password(node, target, authorize(public), password)
        how = "installed by password"
    check(result, "writing authorized_keys", hint="look at the login user's home folder")
    return how


def _with_own_keys(target: SshTarget) -> SshTarget:
    """With ssh's default key files too: a named one would be tried instead of them."""
    folder = Path.home() / ".ssh"
    keys = [folder / name for name in DEFAULT_KEYS if (folder / name).is_file()]
    more = [part for key in keys for part in ("-o", f"IdentityFile={option_path(key)}")]
    return replace(target, only_key=False, options=(*target.options, *more))


async def _by_password(node: str, target: SshTarget, script: Script, password: str) -> Result:
    options = {
        "BatchMode": "no",
        "PubkeyAuthentication": "no",
        "PreferredAuthentications": "password,keyboard-interactive",
        "NumberOfPasswordPrompts": "1",
    }
    with _askpass(password) as env:
        try:
            return await _login(node, replace(target, key=None), script, options, env)
        except CorralError as error:
            if "may not log in" in error.message:
                error.message = f"{target.user} may not log in with this password"
                error.hint = (
                    "type it again; sshd may take no passwords at all (PasswordAuthentication), or "
                    "none for root (PermitRootLogin): then name a user with sudo in ssh.user"
                )
            raise


@contextlib.contextmanager
def _askpass(password: str) -> Generator[Mapping[str, str]]:
    """An environment in which ssh gets the password once, from a pipe."""
    with tempfile.TemporaryDirectory(prefix="corral-ask-") as name:
        folder = Path(name)
        helper = folder / "ask"
        helper.write_text(program("askpass.sh"))
        helper.chmod(0o700)
        os.mkfifo(folder / "pipe", 0o600)
        # Both ends, so that opening does not wait for a reader and the text stays in the buffer.
        pipe = os.open(folder / "pipe", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(pipe, f"{password}\n".encode())
            yield {
                **os.environ,
                "SSH_ASKPASS": str(helper),
                "SSH_ASKPASS_REQUIRE": "force",  # OpenSSH 8.4; before: DISPLAY and no terminal
                "DISPLAY": os.environ.get("DISPLAY", ":0"),
            }
        finally:
            os.close(pipe)


async def _proves(node: str, target: SshTarget, public: str) -> bool:
    """True when a new connection logs in by this key and by nothing else.

    The user's ssh config may name more keys, so ssh's own word for which key was taken counts.
    """
    settings = {
        "BatchMode": "yes",
        "PreferredAuthentications": "publickey",
        "LogLevel": "DEBUG1",
    }
    try:
        result = await _login(node, target, sh("echo proven"), settings)
    except CorralError as error:
        if "may not log in" in error.message:
            return False
        raise
    taken = _ACCEPTED.findall(result.stderr)
    return result.stdout == "proven\n" and taken[-1:] == [fingerprint(public)]


async def _login(
    node: str,
    target: SshTarget,
    script: Script,
    settings: Mapping[str, str],
    env: Mapping[str, str] | None = None,
) -> Result:
    """Run a script as the login user, by a separate connection."""
    frame = Frame.of(script)
    options = [part for k, v in settings.items() for part in ("-o", f"{k}={v}")]
    own = replace(target, options=(*options, *target.options))
    try:
        ended = await process.run(
            [*own.arguments(node, None, opens=False, hops=control_dir()), target.unprivileged],
            stdin=frame.payload,
            timeout=LOGIN_S,
            env=env,
        )
    except TimeoutError as error:
        raise CorralError(
            Code.TIMED_OUT,
            f"no login within {LOGIN_S:g} s",
            node=node,
            hint="is the machine overloaded, or its connection broken? try again",
        ) from error
    if f"{frame.begin}\n" not in ended.out:
        known = "\n".join(target.pinned(node))
        status = SSH_FAILED if ended.status is None else ended.status
        raise failure(node, target, status, ended.err, known)
    return frame.read(node, ended.out, ended.err, ended.status)


def _unproven(node: str, target: SshTarget) -> CorralError:
    return CorralError(
        Code.NOT_GOOD,
        "the key was written, but a connection that can use nothing else does not log in",
        node=node,
        hint=f"read sshd's log on the machine: AuthorizedKeysFile may be another than "
        f"~{target.user}/.ssh/authorized_keys, or PubkeyAuthentication off",
    )
