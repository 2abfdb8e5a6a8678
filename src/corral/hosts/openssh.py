"""Nodes by the system's OpenSSH client: one shared connection per node, many sessions over it.

The client honours the user's keys, agents, certificates and jumps, and what it does can be replayed
by hand. A shared connection (ControlMaster) makes a script one round trip: no key exchange and no
login per script. Each ``OpenSSH`` has its own connection, under a name no other process can guess,
so that closing one never breaks another's; one left behind by a killed process ends by itself after
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
from dataclasses import replace
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts import pins, process
from corral.hosts.person import SUDO, person
from corral.hosts.quote import Script
from corral.hosts.sshfail import SSH_FAILED, by_hand, failure
from corral.hosts.sshkeys import known_fingerprints
from corral.hosts.sudo import said_by_sudo, wants_password
from corral.hosts.target import MAX_CONTROL_PATH, SshTarget
from corral.hosts.transport import Frame, Lines, OnLine, Result

__all__ = ["OpenSSH", "SshTarget"]

# sshd takes MaxSessions 10 per connection by default; two are left for ssh by hand.
SESSIONS: Final = 8
CLOSE_S: Final = 5.0
RETRY_S: Final = 0.2
RESTART_S: Final = 5.0
# A connection that is being opened has this many characters more in its socket's name.
SUFFIX: Final = 6
# ssh gives up by itself after ConnectTimeout; authentication may hang for longer than that.
LOGIN_S: Final = 20.0


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
        shared: False for a login of its own with each script.
    """

    def __init__(
        self, node: str, target: SshTarget, control_dir: Path, *, shared: bool = True
    ) -> None:
        self._node = node
        self._target = target
        self._shared = shared
        self._control = control_path(control_dir, target.control_name(node))
        self._trusted = False
        self._password = b""  # the line for sudo, once the node has asked for it
        self._opening = asyncio.Lock()
        self._sessions = asyncio.Semaphore(SESSIONS)

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
                # Another process's connection, dead since: its machine was restarted, say.
                return await self._asked(script, stdin, timeout, on_line)

    async def run_alone(self, script: Script, *, timeout: float = 120.0) -> Result:
        """Run a script by a new connection of its own, which logs in by public key or not at all.

        A machine whose sshd just starts anew is tried again for a few seconds.

        Raises:
            CorralError: as ``run``.
        """
        alone = ("-o", "PreferredAuthentications=publickey")
        target = replace(self._target, options=(*alone, *self._target.options))
        node = OpenSSH(self._node, target, self._control.parent, shared=False)
        node._password = self._password
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
        except _PasswordError as wanted:
            words = f"sudo password of {self._target.user} on the nodes"
            password = await person().password(SUDO, words)
            if password is None:
                raise wanted.args[0] from None
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
        try:
            async with asyncio.timeout(timeout):
                inherited = await self._open()
                ended = await process.run(
                    [*self._ssh(), remote],
                    stdin=self._password + frame.payload,
                    timeout=timeout,
                    feed=lines.feed,
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
            if inherited and not said_by_sudo(ended.err):
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

    async def close(self) -> None:
        """End the shared connection; the next run opens a new one."""
        if self._control.exists():
            await self._tell("exit")
        self._control.unlink(missing_ok=True)

    def _ssh(self) -> list[str]:
        if not self._shared:
            return self._target.arguments(self._node, None, opens=False)
        return self._target.arguments(self._node, self._control, opens=False)

    async def _open(self) -> bool:
        """Have the shared connection up; only one caller of this process at a time starts it.

        It is made under a name of its own and then renamed: so two processes that open at once
        never write to one socket, and the connection that loses its name ends by itself.

        Returns:
            True when it is another process's, and nothing has come through it here yet.
        """
        async with self._opening:
            if not self._shared:
                return False
            if answers(self._control):
                return not self._trusted
            seen = await self._first_sight()
            self._control.unlink(missing_ok=True)
            limit = self._target.connect_timeout + LOGIN_S
            mine = self._control.with_name(f"{self._control.name}{secrets.token_hex(SUFFIX // 2)}")
            argv = self._target.arguments(self._node, mine, opens=True)
            try:
                # -f: ssh goes to the background once it is logged in, so its end says "up".
                ended = await process.run(["ssh", "-N", "-f", *argv[1:]], timeout=limit)
            except TimeoutError as error:
                raise self._late(limit, began=False) from error
            if ended.status != 0:
                raise self._unpinned(self._failure(ended), seen)
            self._tell_of_pin(seen)
            # The socket's name is made of the pinned key, which there is only now.
            self._control = self._control.with_name(self._target.control_name(self._node))
            mine.replace(self._control)
            self._trusted = True
            return False

    async def _first_sight(self) -> str | None:
        """Pin what the user's own known_hosts has for a node that is not pinned yet.

        Returns:
            None when the node is pinned already, else the lines taken over from the user's files.
        """
        target = self._target
        if target.known_hosts is None or not target.first_sight or target.pinned(self._node):
            return None
        lines = await pins.known_to_user(self._node, target)
        pins.pin(target.known_hosts, lines)
        return lines

    def _unpinned(self, error: CorralError, seen: str | None) -> CorralError:
        """A first sight that failed leaves no pin."""
        if seen and self._target.known_hosts is not None:
            pins.unpin(self._target.known_hosts, self._node)
            if error.code is Code.HOST_KEY_CHANGED:
                error.hint = (
                    "your own known_hosts has the known key: if the machine was installed again, "
                    f"take it out with ssh-keygen -R {self._target.address}; "
                    "else somebody may stand between you and it"
                )
        return error

    def _tell_of_pin(self, seen: str | None) -> None:
        if seen is None:
            return
        prints = known_fingerprints(self._node, "\n".join(self._target.pinned(self._node)))
        whose = "as in your own known_hosts" if seen else "seen for the first time"
        person().tell(self._node, f"host key {', '.join(prints)} pinned, {whose}")

    async def _abandon(self) -> None:
        """Let the next run open a new connection: this one did not even start a script.

        ``stop`` removes the socket and lets sessions that still live go on.
        """
        if self._control.exists():
            await self._tell("stop")
        self._control.unlink(missing_ok=True)

    async def _tell(self, order: str) -> None:
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
        # An account without a shell says so on stdout.
        text = ended.err if ended.err.strip() else f"{ended.err}\n{ended.out[-2000:]}"
        return failure(self._node, self._target, status, text, known)


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
    found = path.parent.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise CorralError(
            Code.USAGE,
            f"{path.parent} is not a folder of yours alone",
            hint=f"chmod 700 {path.parent}, or remove it",
        )
    return path
