"""Nodes by the system's OpenSSH client: one shared connection per node, many sessions over it.

The client honours the user's keys, agents, certificates and jumps, and what it does can be replayed
by hand. A shared connection (ControlMaster) makes a script one round trip: no key exchange and no
login per script. Each ``OpenSSH`` has its own connection, under a name no other process can guess,
so that closing one never breaks another's; one left behind by a killed process ends after
``target.PERSIST_S`` idle seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import stat
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from corral.errors import Code, CorralError
from corral.hosts import process, sshkeys
from corral.hosts.jump import Hop
from corral.hosts.quote import Script
from corral.hosts.ssh_errors import SSH_FAILED, by_hand, failure
from corral.hosts.sshkeys import DEFAULT_KEYS, expired_certificate, known_fingerprints
from corral.hosts.sudo import from_sudo, wants_password
from corral.hosts.target import MAX_CONTROL_PATH, SshTarget
from corral.hosts.transport import Frame, Lines, OnLine, Result
from corral.passwords import SUDO, person

T = TypeVar("T")

# A connection that is being opened has this many characters more in its socket's name.
SUFFIX: Final = 6


def control_dir() -> Path:
    """Where the control sockets of all clusters go."""
    runtime = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(runtime) / f"corral-ssh-{os.getuid()}"


def answers(control: Path) -> bool:
    """True when a process listens at a control socket (a killed one leaves the file behind)."""
    if not control.exists():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(control))
        except OSError:
            return False
    return True


def control_path(folder: Path, name: str) -> Path:
    """Where a control socket goes: a folder of this user's alone, made when missing.

    Raises:
        CorralError: USAGE, the folder belongs to somebody else or others may enter it.
    """
    path = folder.absolute() / name
    if len(os.fsencode(path)) + SUFFIX > MAX_CONTROL_PATH:
        runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
        path = runtime.absolute() / f"corral-ssh-{os.getuid()}" / name
    if len(os.fsencode(path)) + SUFFIX > MAX_CONTROL_PATH:
        raise CorralError(
            Code.USAGE,
            f"{path.parent} is too long a path for ssh's control sockets",
            hint="set XDG_RUNTIME_DIR or TMPDIR to a shorter folder",
        )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.parent.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise CorralError(
            Code.USAGE,
            f"{path.parent} is not a folder of yours alone",
            hint=f"chmod 700 {path.parent}; where another user made it: set XDG_RUNTIME_DIR to a "
            "folder of yours",
        )
    return path


__all__ = ["Hops", "OpenSSH", "SshTarget", "answers", "control_dir", "control_path"]

# sshd takes MaxSessions 10 per connection by default; two are left for ssh by hand.
SESSIONS: Final = 8
CLOSE_S: Final = 5.0
RETRY_S: Final = 0.2
RESTART_S: Final = 5.0
# ssh gives up after ConnectTimeout; authentication may hang for longer than that.
LOGIN_S: Final = 20.0
# All that ssh prints when a jump host's shared connection refuses to forward (OpenSSH 9.2).
_NO_WORD: Final = "kex_exchange_identification: Connection closed"


class _InheritedError(Exception):
    """A connection that another process opened did not take the script."""


class _PasswordError(Exception):
    """The node's sudo wants a password. ``args[0]`` is the error for when there is none."""


class OpenSSH:
    """One node reached by ssh.

    Args:
        node: the node's name.
        target: how it is reached.
        control_dir: folder for control sockets; made when missing, must be this user's alone. When
            its path is too long for a socket, a short folder of this user's is used instead.
        shared: False for a separate login with each script.
        hops: connections to jump hosts that others have too; each is opened once.
    """

    def __init__(
        self,
        node: str,
        target: SshTarget,
        control_dir: Path,
        *,
        shared: bool = True,
        hops: Hops | None = None,
    ) -> None:
        self._node = node
        self._target = target
        self._shared = shared
        self._control = control_path(control_dir, target.control_name(node))
        self._trusted = False
        self._password = b""  # the line for sudo, once the node has asked for it
        self._opening = asyncio.Lock()
        self._sessions = asyncio.Semaphore(SESSIONS)
        self._hop = (hops or Hops(self._control.parent)).of(target.via)

    @property
    def node(self) -> str:
        """The node's name."""
        return self._node

    @property
    def target(self) -> SshTarget:
        """How the node is reached."""
        return self._target

    async def run(
        self,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 120.0,
        on_line: OnLine | None = None,
    ) -> Result:
        """Run a script as root; see ``transport.Transport``.

        The time limit counts from when one of the node's sessions is free. A script that is given
        up may go on for a while on the node: ssh cannot end it there.

        Raises:
            CorralError: UNREACHABLE, HOST_KEY_CHANGED, TIMED_OUT, or COMMAND_FAILED (it printed
                more than ``process.MAX_OUTPUT`` bytes and there is no ``on_line``).
        """
        async with self._sessions:
            try:
                return await self._asked(script, stdin, timeout, on_line)
            except _InheritedError:
                # Another process's connection, dead since: its machine was restarted, for example.
                return await self._asked(script, stdin, timeout, on_line)

    async def run_alone(self, script: Script, *, timeout: float = 120.0) -> Result:
        """Run a script by a new connection, which logs in by public key or not at all.

        A machine whose sshd just restarts is tried again for a few seconds.

        Raises:
            CorralError: as ``run``.
        """
        alone = ("-o", "PreferredAuthentications=publickey")
        target = replace(self._target, options=(*alone, *self._target.options))
        node = OpenSSH(self._node, target, self._control.parent, shared=False)
        node._password, node._hop = self._password, self._hop
        end = asyncio.get_running_loop().time() + RESTART_S
        while True:
            try:
                return await node.run(script, timeout=timeout)
            except CorralError as error:
                refused = error.code is Code.UNREACHABLE and "nothing listens" in error.message
                if not refused or asyncio.get_running_loop().time() > end:
                    raise
            await asyncio.sleep(RETRY_S)

    async def _asked(
        self, script: Script, stdin: bytes, timeout: float, on_line: OnLine | None
    ) -> Result:
        """Run a script; a password that sudo wants is asked for, outside of the time limit."""
        try:
            return await self._once(script, stdin, timeout, on_line)
        except _PasswordError as error:
            words = f"sudo password of {self._target.user} on the nodes"
            password = await person().password(SUDO, words, self._target.place(self._node))
            if password is None:
                raise _hinted(error.args[0], person().hint) from None
            self._password = f"{password}\n".encode()
        return await self._once(script, stdin, timeout, on_line)

    async def _once(
        self, script: Script, stdin: bytes, timeout: float, on_line: OnLine | None
    ) -> Result:
        frame = Frame.of(script, stdin)
        lines = Lines(frame, on_line)
        inherited = False
        target = self._target
        remote = target.remote_with_password if self._password else target.remote
        end = asyncio.get_running_loop().time() + timeout
        try:
            inherited = await _within(timeout, self._open())
            ended = await process.run(
                [*self._ssh(), remote],
                stdin=self._password + frame.payload,
                timeout=max(end - asyncio.get_running_loop().time(), 0.0),
                feed=lines.feed,
                caught=lines.behind,
                rolling=on_line is not None,
            )
        except TimeoutError as error:
            if not lines.began:
                await self._abandon()
            raise self._late(timeout, began=lines.began) from error
        except CorralError as error:
            error.node = self._node
            raise
        if not lines.began:
            if not self._password and wants_password(ended.err):
                self._trusted = True
                raise _PasswordError(self._failure(ended))
            if inherited and not from_sudo(ended.err):
                await self._abandon()
                raise _InheritedError
            raise self._failure(ended)
        self._trusted = True
        return frame.read(self._node, ended.out, ended.err, ended.status)

    async def connect(self, *, within: float = 0.0) -> None:
        """Open the connection now; a machine that still boots is tried again.

        Args:
            within: seconds during which refused, unanswered and reset connections are tried again.

        Raises:
            CorralError: UNREACHABLE, HOST_KEY_CHANGED or TIMED_OUT, the last attempt's.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        while True:
            try:
                await self._open()
                return
            except CorralError as error:
                final = error.code not in (Code.UNREACHABLE, Code.TIMED_OUT)
                if final or loop.time() + RETRY_S > end:
                    raise
            await asyncio.sleep(RETRY_S)

    async def renew(self) -> bool:
        """Give up a connection that another process opened and nothing has come through here.

        Returns:
            False when there was none, and the connection is as good as it can be.
        """
        if self._trusted:
            return False
        await self._abandon()
        return True

    def trust(self) -> None:
        """Something has come through the connection."""
        self._trusted = True

    async def close(self) -> None:
        """End the shared connection; the next run opens a new one. Those to jump hosts stay."""
        if self._control.exists():
            await self._order("exit")
        self._control.unlink(missing_ok=True)

    def _ssh(self) -> list[str]:
        control = self._control if self._shared else None
        return self._target.arguments(self._node, control, opens=False, hops=self._control.parent)

    async def _open(self) -> bool:
        """Have the shared connection up; only one caller of this process at a time starts it.

        It is made under a unique name and then renamed: so two processes that open at once never
        write to one socket, and the connection that loses its name ends when it is idle.

        Returns:
            True when it is another process's, and nothing has come through it here yet.
        """
        async with self._opening:
            if not self._shared:
                if self._hop is not None:
                    await self._hop.ready()
                return False
            if answers(self._control):
                return not self._trusted
            if self._hop is None:
                await self._log_in()
            else:
                await self._hop.through(self._log_in)
            self._trusted = True
            return False

    async def _log_in(self) -> None:
        seen = await self._pin_known()
        self._control.unlink(missing_ok=True)
        hops = self._control.parent
        limit = self._target.connect_timeout + LOGIN_S
        mine = self._control.with_name(f"{self._control.name}{secrets.token_hex(SUFFIX // 2)}")
        argv = self._target.arguments(self._node, mine, opens=True, hops=hops)
        try:
            # -f: ssh goes to the background once it is logged in, so its end means "up".
            ended = await process.run(["ssh", "-N", "-f", *argv[1:]], timeout=limit)
            if ended.status != 0 and _NO_WORD in ended.err and self._target.via is not None:
                argv = _talkative(self._target).arguments(self._node, None, opens=False)
                ended = await process.run([*argv, "false"], timeout=limit)
        except TimeoutError as error:
            raise self._late(limit, began=False) from error
        if ended.status != 0:
            raise self._unpinned(self._failure(ended), seen)
        self._report_pin(seen)
        # The socket's name is made of the pinned key, which there is only now.
        self._control = self._control.with_name(self._target.control_name(self._node))
        mine.replace(self._control)

    async def _pin_known(self) -> str | None:
        """Pin what the user's own known_hosts has for a node that is not pinned yet.

        Returns:
            None when the node is pinned already, else the lines taken over from the user's files.
        """
        target = self._target
        if target.known_hosts is None or not target.pin_new or target.pinned(self._node):
            return None
        lines = await sshkeys.known_to_user(self._node, target)
        sshkeys.pin(target.known_hosts, lines)
        return lines

    def _unpinned(self, error: CorralError, seen: str | None) -> CorralError:
        """A first connection that failed leaves no pin."""
        if seen and self._target.known_hosts is not None:
            sshkeys.unpin(self._target.known_hosts, self._node)
            if error.code is Code.HOST_KEY_CHANGED:
                error.hint = (
                    "your own known_hosts has the known key: if the machine was installed again, "
                    f"remove it with ssh-keygen -R {self._target.address}; "
                    "else somebody may intercept the connection"
                )
        return error

    def _report_pin(self, seen: str | None) -> None:
        if seen is None:
            return
        prints = known_fingerprints(self._node, "\n".join(self._target.pinned(self._node)))
        whose = "as in your own known_hosts" if seen else "seen for the first time"
        person().show(self._node, f"host key {', '.join(prints)} pinned, {whose}")

    async def _abandon(self) -> None:
        """Let the next run open a new connection: this one did not even start a script.

        ``stop`` removes the socket and lets sessions that still live go on.
        """
        if self._control.exists():
            await self._order("stop")
        self._control.unlink(missing_ok=True)

    async def _order(self, order: str) -> None:
        with contextlib.suppress(TimeoutError, CorralError):
            argv = self._ssh()
            await process.run([argv[0], "-O", order, *argv[1:]], timeout=CLOSE_S)

    def _late(self, timeout: float, *, began: bool) -> CorralError:
        what = "the script did not end" if began else "the node did not take the script"
        return CorralError(
            Code.TIMED_OUT,
            f"{what} within {timeout:g} s",
            node=self._node,
            command=by_hand(self._target),
            hint="it may still run on the node: look there, or give it more time"
            if began
            else "is the machine overloaded, or its connection broken? try again",
        )

    def _failure(self, ended: process.Ended) -> CorralError:
        known = ""
        if self._target.known_hosts is not None:
            with contextlib.suppress(OSError):
                known = self._target.known_hosts.read_text()
        status = SSH_FAILED if ended.status is None else ended.status
        # An account without a shell prints that on stdout.
        text = ended.err if ended.err.strip() else f"{ended.err}\n{ended.out[-2000:]}"
        error = failure(self._node, self._target, status, text, known)
        return _with_expiry(error, self._target)


def _with_expiry(error: CorralError, target: SshTarget) -> CorralError:
    """A refused login, with the certificates that have expired.

    Of a key that is named, as a fact; else as a possibility: ssh does not report which keys it
    offered, and an old certificate of another cluster may be there.
    """
    if "may not log in with this key" not in error.message:
        return error
    keys = [target.key] if target.key else [Path.home() / ".ssh" / name for name in DEFAULT_KEYS]
    for key in keys:
        since = expired_certificate(key, datetime.now())  # as ssh-keygen prints it
        if not since:
            continue
        remedy = f"get a new {key.name}-cert.pub from whoever signs yours"
        if target.key:
            error.message += f" (its certificate also expired at {since})"
            error.hint += f"; or {remedy}"
        else:
            error.hint += f"; if {key} is meant: its certificate expired at {since}, {remedy}"
    return error


async def _within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of work that is given up after this time.

    Not by ``asyncio.timeout``: machines are cleaned up by tasks that were cancelled before, where
    the end of its time is a CancelledError (CPython 3.11).

    Raises:
        TimeoutError: it took longer.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _hinted(error: CorralError, hint: str) -> CorralError:
    error.hint = hint or error.hint
    return error


def _talkative(target: SshTarget) -> SshTarget:
    """With a separate login at the jump host, which reports why it does not forward."""
    via = target.via
    log_level = ("-o", "LogLevel=INFO")
    return replace(target, via=replace(via, options=(*log_level, *via.options))) if via else target


class Hops:
    """The connections to jump hosts of one set of nodes: one to each, whoever asks first.

    Args:
        control_dir: folder for control sockets.
    """

    def __init__(self, control_dir: Path) -> None:
        self._folder = control_dir
        self._made: dict[SshTarget, Hop] = {}

    def of(self, target: SshTarget | None) -> Hop | None:
        """The connection to a jump host; None for none."""
        if target is not None and target not in self._made:
            connection = OpenSSH(target.alias, target, self._folder, hops=self)
            self._made[target] = Hop(target, connection)
        return self._made[target] if target else None
