"""Jump hosts against sshds of this machine: one login for many nodes, what faults are called."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.embedded.loopback import NODE, Sshd, ready, running

from corral.errors import CorralError
from corral.hosts.openssh import Hops, OpenSSH
from corral.hosts.quote import sh
from corral.hosts.sshkeys import known_hosts_line, make_key
from corral.hosts.target import SshTarget


@pytest.fixture
def sshd() -> Iterator[Sshd]:
    with tempfile.TemporaryDirectory(prefix="cs") as folder, running(Path(folder)) as server:
        yield server
        for path in (server.folder / "control").glob("*"):
            subprocess.run(["ssh", "-O", "exit", "-S", str(path), "x"], capture_output=True)


def behind(sshd: Sshd, **changes: object) -> SshTarget:
    """The same sshd, reached through itself."""
    gate = replace(sshd.target, pin_new=True)
    return replace(sshd.target, via=gate, **changes)


def pinned(sshd: Sshd, target: SshTarget) -> None:
    public = (sshd.folder / "host.pub").read_text()
    with (sshd.folder / "known_hosts").open("a") as file:
        file.write(known_hosts_line(target.via.alias if target.via else NODE, public))


def test_many_nodes_and_one_login(sshd: Sshd) -> None:
    """The jump host drops a second login that begins before the first one ended."""
    control, many = sshd.folder / "control", 24
    with (
        tempfile.TemporaryDirectory(prefix="cs") as folder,
        running(Path(folder), extra="MaxStartups 100\n") as inner,
    ):
        (sshd.folder / "config").open("a").write("MaxStartups 1:100:2\n")
        sshd.process.terminate()
        sshd.process.wait(timeout=60)
        sshd.start()
        asyncio.run(ready(sshd))
        public = (inner.folder / "host.pub").read_text()
        with (inner.folder / "known_hosts").open("a") as file:
            file.writelines(known_hosts_line(f"n{i}", public) for i in range(many))
        gate = replace(sshd.target, pin_new=True)
        target = replace(inner.target, via=gate)

        async def scenario() -> list[str]:
            hops = Hops(control)
            nodes = [OpenSSH(f"n{i}", target, control, hops=hops) for i in range(many)]
            answers = await asyncio.gather(*(n.run(sh("echo here")) for n in nodes))
            await asyncio.gather(*(n.close() for n in nodes))
            return [answer.stdout for answer in answers]

        before = sshd.connections
        assert asyncio.run(scenario()) == ["here\n"] * many
        assert (sshd.connections, inner.connections) == (before + 1, many + 1)
        assert gate.alias in (sshd.folder / "known_hosts").read_text(), "pinned at first sight"


def refused(sshd: Sshd, target: SshTarget) -> CorralError:
    pinned(sshd, target)

    async def scenario() -> None:
        await OpenSSH(NODE, target, sshd.folder / "control").run(sh("true"))

    with pytest.raises(CorralError) as caught:
        asyncio.run(scenario())
    return caught.value


def test_a_node_that_is_off(sshd: Sshd) -> None:
    error = refused(sshd, behind(sshd, port=1))
    assert "nothing listens at 127.0.0.1 port 1" in error.message, error.tail


def test_a_name_that_only_the_jump_host_could_know(sshd: Sshd) -> None:
    error = refused(sshd, behind(sshd, address="no-such-host.invalid"))
    assert "does not resolve" in error.message, error.tail


def test_a_jump_host_that_does_not_forward() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="cs") as folder,
        running(Path(folder), extra="AllowTcpForwarding no\n") as sshd,
    ):
        error = refused(sshd, behind(sshd))
        for path in (sshd.folder / "control").glob("*"):
            subprocess.run(["ssh", "-O", "exit", "-S", str(path), "x"], capture_output=True)
    assert "jump host does not forward" in error.message, error.tail


def test_a_jump_host_with_another_key(sshd: Sshd, tmp_path: Path) -> None:
    target = behind(sshd)
    alias = target.via.alias if target.via else ""
    known = sshd.folder / "known_hosts"
    known.write_text(known.read_text() + known_hosts_line(alias, make_key(tmp_path / "other")))

    async def scenario() -> None:
        await OpenSSH(NODE, target, sshd.folder / "control").run(sh("true"))

    with pytest.raises(CorralError) as caught:
        asyncio.run(scenario())
    assert "jump host 127.0.0.1: the host key changed" in caught.value.message
    assert sshd.connections == 1, "nobody logged in"
