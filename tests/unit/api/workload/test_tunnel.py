"""Tunnels into jobs, on this machine: where they end, and what ends them."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.api.page import page_server
from corral.api.workload import tunnel
from corral.api.workload.batch import JobOutcome
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.ports import free_port
from corral.hosts.process import Child
from corral.hosts.target import SshTarget
from corral.jobs import control
from corral.jobs.handle import JobHandle
from corral.jobs.listeners import Listener
from corral.slurm.states.jobs import JobState
from corral.spec.client import Profile, client_spec, public_part
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of

LAPTOP = Path(__file__).parents[4] / "examples" / "laptop.yaml"
HANDLE = JobHandle(12, "serve", "alice", "", 0, "node0")
pytestmark = pytest.mark.enable_socket


@pytest.fixture
def spec() -> ClusterSpec:
    return load_or_raise(LAPTOP)


class Slurm:
    """A job that runs until ``over`` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, state: JobState) -> None:
        self.over = asyncio.Event()
        self.state = state
        monkeypatch.setattr(control, "follow", self._follow)
        monkeypatch.setattr(control, "state", self._state)

    async def _follow(self, fleet: Fleet, handle: JobHandle, **more: Any) -> JobOutcome:
        await self.over.wait()
        return JobOutcome(handle.id, JobState.COMPLETED)

    async def _state(self, fleet: Fleet, handle: JobHandle) -> JobOutcome:
        if self.state is not JobState.RUNNING:
            self.over.set()
        return JobOutcome(handle.id, self.state)


@asynccontextmanager
async def serving() -> AsyncGenerator[int]:
    """A server that sends hello; its port."""

    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(hello, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tunnels are of this machine, to the node that was asked for."""

    async def tunnel_to(spec: ClusterSpec, forward: tuple[str, str], *, node: str) -> list[str]:
        assert node == "node1"
        return [sys.executable, "-m", "corral.hosts.forward", *forward]

    monkeypatch.setattr(tunnel, "tunnel_to", tunnel_to)


@pytest.mark.usefixtures("here")
def test_a_tunnel_leads_to_the_port_and_ends_with_the_job(
    spec: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forwarded() -> tuple[bytes, JobOutcome, int]:
        slurm = Slurm(monkeypatch, JobState.RUNNING)
        async with serving() as port:
            far = Listener("127.0.0.1", port, 0, near=True)
            opened = tunnel.tunnel_into(spec, Fleet({}), HANDLE, "node1", far)
            async with opened as (forwarded_port, ended):
                assert (forwarded_port.job, forwarded_port.node, forwarded_port.port) == (
                    "12",
                    "node1",
                    port,
                )
                assert forwarded_port.local_port != port  # which the server has, on this machine
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", forwarded_port.local_port
                )
                answer = await reader.read()
                writer.close()
                slurm.over.set()
                return answer, await ended(), forwarded_port.local_port

    answer, outcome, port = asyncio.run(forwarded())
    assert answer == b"hello"
    assert outcome.good
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.COMPLETING])
def test_a_tunnel_that_ends_first_is_a_failure_while_the_job_runs(
    spec: ClusterSpec, monkeypatch: pytest.MonkeyPatch, state: JobState
) -> None:
    children: list[Any] = []
    start = tunnel.Child.start

    async def started(argv: list[str], *, quiet: bool = False) -> Any:
        children.append(await start(argv, quiet=quiet))
        return children[0]

    monkeypatch.setattr(tunnel.Child, "start", started)

    async def broken() -> JobOutcome:
        Slurm(monkeypatch, state)
        far = Listener("127.0.0.1", free_port(), 0, near=True)
        async with tunnel.tunnel_into(spec, Fleet({}), HANDLE, "node1", far) as (_, ended):
            children[0]._process.kill()
            return await ended()

    if state is JobState.RUNNING:
        with pytest.raises(CorralError, match="the tunnel to node1 broke; job 12 keeps") as caught:
            asyncio.run(broken())
        assert caught.value.code is Code.UNREACHABLE
    else:  # where nodes admit those alone who have a job there
        assert asyncio.run(broken()).state is JobState.COMPLETED


@pytest.mark.usefixtures("here")
def test_a_port_here_that_is_in_use_is_not_taken(spec: ClusterSpec) -> None:
    async def opened(port: int) -> None:
        far = Listener("127.0.0.1", 9, 0, near=True)
        async with tunnel.tunnel_into(spec, Fleet({}), HANDLE, "node1", far, port):
            pass

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CorralError, match=f"port {port} of this machine is in use") as caught:
            asyncio.run(opened(port))
    assert caught.value.code is Code.USAGE


def test_a_tunnel_that_ssh_cannot_open_names_the_cause(
    spec: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def tunnel_to(*args: Any, **more: Any) -> list[str]:
        return ["sh", "-c", "echo 'administratively prohibited' >&2; exit 255"]

    monkeypatch.setattr(tunnel, "tunnel_to", tunnel_to)

    async def opened() -> None:
        far = Listener("127.0.0.1", free_port(), 0, near=True)
        async with tunnel.tunnel_into(spec, Fleet({}), HANDLE, "node1", far):
            pass

    with pytest.raises(CorralError, match="no tunnel to node1") as caught:
        asyncio.run(opened())
    assert caught.value.tail.strip() == "administratively prohibited"
    assert "corral ssh node1" in caught.value.hint


def test_the_command_of_a_tunnel_logs_in_to_the_node_itself(
    spec: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Provider:
        name = "ssh"
        nodes = nodes_of(spec)

        async def read_machines(self) -> None: ...

        def ssh_target(self, name: str) -> SshTarget:
            return SshTarget(f"{name}.example.org", user="root")

    monkeypatch.setattr(page_server, "providers_of", lambda spec: [Provider()])
    forward = ("127.0.0.1:5000", "[::1]:5001")
    argv = asyncio.run(page_server.tunnel_to(spec, forward, node="node2"))
    assert argv[argv.index("--") + 1] == "node2.example.org"
    assert argv[argv.index("-L") + 1] == "127.0.0.1:5000:[::1]:5001"
    argv = asyncio.run(page_server.tunnel_to(spec, forward))
    assert argv[argv.index("--") + 1] == "node0.example.org"


def test_a_profile_acts_as_its_own_user(spec: ClusterSpec, tmp_path: Path) -> None:
    login = Profile(
        node="node0", cluster=public_part(spec), host="h", user="alice", name="lab", uid=2001
    )
    profile = client_spec(login, tmp_path)
    assert tunnel.acting_as(profile, "") == tunnel.acting_as(profile, "alice") == "alice"
    assert tunnel.acting_as(spec, "bob") == "bob"
    with pytest.raises(CorralError, match="profile lab acts as alice, not as bob") as caught:
        tunnel.acting_as(profile, "bob")
    assert caught.value.code is Code.FORBIDDEN


def test_another_programs_listener_is_not_taken_for_the_tunnel() -> None:
    """Else the token of a notebook goes to whoever took the port before ssh did."""

    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)):
            argv = [sys.executable, "-c", "import sys; print('motd'); sys.exit('port in use')"]
            async with await Child.start(argv, quiet=True) as child:
                await page_server.until_up(child, "node1")

    with pytest.raises(CorralError, match="no tunnel to node1") as caught:
        asyncio.run(work())
    assert "port in use" in caught.value.tail
