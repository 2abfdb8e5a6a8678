"""SSH tunnels end with the process that made them, even if it was killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from corral.api.config.profiles import keep, place_of, profile_spec
from corral.api.page import page_server, tracking_tunnel
from corral.errors import Code, CorralError
from corral.hosts.target import SshTarget
from corral.jobs.rest.client import RestClient
from corral.slurm.version import SlurmVersion
from corral.spec.client import Profile, public_part
from corral.spec.load import load_or_raise
from corral.spec.models import BackupController, ClusterSpec
from corral.spec.nodes import controller_of, nodes_of
from corral.web.settings import Settings
from tests.unit.jobs.rest.test_client import token

LAPTOP = Path(__file__).parents[4] / "examples" / "laptop.yaml"
SSH = """#!/bin/sh
# As ssh does: with -N nothing runs there, and the input is read by nobody.
for word do [ "$word" != -N ] || exec sleep 600; last=$word; done
exec sh -c "$last"
"""


class Running:
    """A running cluster: its session and its provider."""

    name = "ssh"

    def __init__(self, spec: ClusterSpec) -> None:
        self.nodes = nodes_of(spec)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None: ...

    def require_running(self) -> None: ...

    def addresses(self) -> dict[str, str]:
        return {node.name: "10.0.0.10" for node in self.nodes}

    administers = True

    async def read_machines(self) -> None: ...

    def ssh_target(self, name: str) -> SshTarget:
        return SshTarget(f"192.0.2.{name.removeprefix('node')}", "root")


async def page(spec: ClusterSpec, user: str = "") -> None:
    async with page_server.serve_page(spec, user=user):
        pass


async def tracking(spec: ClusterSpec) -> None:
    async with tracking_tunnel.tracking_page(spec, port=5001):
        pass


@pytest.mark.parametrize("tunnel", [page, tracking])
def test_a_tunnel_ends_with_its_input(
    tunnel: Callable[[ClusterSpec], Awaitable[None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The input ends when its owner does, even if that was killed."""
    commands: list[Sequence[str]] = []

    async def start(argv: Sequence[str], **options: Any) -> None:
        commands.append(argv)
        raise CorralError(Code.UNREACHABLE, "seen enough")

    async def opened(spec: ClusterSpec, *, root: bool = True) -> Running:
        return Running(spec)

    async def asked(spec: ClusterSpec) -> page_server.Asked:
        return page_server.Asked(SlurmVersion(22, 5), None, controller_of(spec))

    async def made(spec: ClusterSpec, user: str, seconds: int) -> str:
        return "token"

    for module in (page_server, tracking_tunnel):
        monkeypatch.setattr(module.Child, "start", start)
        monkeypatch.setattr(module.Connection, "open", opened)
    monkeypatch.setattr(page_server, "providers_of", lambda spec: [Running(spec)])
    monkeypatch.setattr(page_server, "_asked", asked)
    monkeypatch.setattr(page_server, "token_of", made)
    spec = load_or_raise(LAPTOP)
    spec = spec.model_copy(update={"services": spec.services.model_copy(update={"mlflow": True})})
    with pytest.raises(CorralError, match="seen enough"):
        asyncio.run(tunnel(spec))
    (argv,) = commands
    assert "-L" in argv
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    ended = subprocess.run([str(ssh), *argv[1:]], stdin=subprocess.DEVNULL, timeout=20, check=False)
    assert ended.returncode == 0


def servers(
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[list[Sequence[str]], list[dict[str, Any]]]:
    """Commands that are started, and the settings that servers among them receive."""
    started: list[Sequence[str]] = []
    settings: list[dict[str, Any]] = []

    class Started:
        running = True

        def __init__(self, argv: Sequence[str]) -> None:
            started.append(argv)

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *raised: object) -> None: ...

        async def write(self, line: bytes) -> None:
            settings.append(json.loads(line))

        async def line(self, timeout: float) -> str:
            return '{"port": 8765, "code": "c"}'

    async def start(argv: Sequence[str], **options: Any) -> Started:
        return Started(argv)

    monkeypatch.setattr(page_server.Child, "start", start)
    return started, settings


@pytest.mark.parametrize("lost", [False, True])
def test_a_lost_controllers_page_asks_the_backup_by_commands(
    lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurmrestd and Prometheus are on the first controller alone: no tunnel to them."""
    started, settings = servers(monkeypatch)

    async def asked(spec: ClusterSpec) -> page_server.Asked:
        return page_server.Asked(SlurmVersion(24, 11), None, "node1" if lost else "node0")

    async def made(spec: ClusterSpec, user: str, seconds: int) -> str:
        return "token"

    async def there(tunnel: object, socket: Path) -> None: ...

    monkeypatch.setattr(page_server, "providers_of", lambda spec: [Running(spec)])
    monkeypatch.setattr(page_server, "_asked", asked)
    monkeypatch.setattr(page_server, "token_of", made)
    monkeypatch.setattr(page_server, "_until", there)
    spec = load_or_raise(LAPTOP)
    backup = BackupController(node="node1", state="/shared/slurmctld")
    parts = {
        "services": spec.services.model_copy(update={"metrics": True}),
        "slurm": spec.slurm.model_copy(update={"backup_controller": backup}),
    }
    asyncio.run(page(spec.model_copy(update=parts)))
    tunnel, _ = started
    (given,) = settings
    assert ("192.0.2.1" if lost else "192.0.2.0") in tunnel
    assert ("-L" in tunnel) is not lost
    assert given["rest"].startswith("commands:" if lost else "unix:")
    assert given["prometheus"].startswith("unix:") is not lost
    assert given["handover"] == ["corral", "" if lost else "token"]


def test_a_profile_over_slurmrestd_has_a_page_here_without_a_tunnel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It failed: the controller's page was looked for, and ssh."""
    started, settings = servers(monkeypatch)
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    asked: list[str] = []

    async def partitions(self: RestClient) -> tuple[()]:
        asked.append(self.token)
        return ()

    monkeypatch.setattr(RestClient, "partitions", partitions)
    url, secret = "https://lab.example.org:6820", token(sun="alice")
    fields: dict[str, Any] = {"node": "node0", "cluster": public_part(load_or_raise(LAPTOP))}
    keep(Profile(name="mine", uid=0, user="alice", rest=url, host=url, **fields), "", token=secret)
    spec = profile_spec("mine")
    assert spec is not None
    asyncio.run(page(spec))
    (server,), (given,) = started, settings
    assert server[1:] == ["-m", "corral.web"]
    assert (given["rest"], given["handover"]) == (url, ["alice", secret])
    assert given["node_events"] == str(place_of("mine") / page_server.NODE_EVENTS)
    assert not given.keys() & {"spec", "tokens", "prometheus"}
    assert Settings.model_validate(given).spec is None
    assert asked == [secret]
    with pytest.raises(CorralError, match="has alice's token, not bob's"):
        asyncio.run(page(spec, "bob"))


@pytest.mark.enable_socket
def test_a_silent_tracking_server_leaves_no_connection_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracking_tunnel, "ANSWER_S", 0.02)
    monkeypatch.setattr(tracking_tunnel, "UP_S", 0.3)
    now, asked = 0, 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now, asked
        now, asked = now + 1, asked + 1
        await reader.read()
        writer.close()
        now -= 1

    async def work() -> None:
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(CorralError, match="does not answer"):
                await tracking_tunnel._until(cast("Any", SimpleNamespace(running=True)), port)
            await asyncio.sleep(0.05)
            assert asked > 1
            assert now == 0

    asyncio.run(work())
