"""Use cases: open the page of a cluster, here or from its service on the controller.

The server runs here, as a separate process, and reaches slurmrestd, which listens on the
controller's loopback only, through an ssh tunnel that ends in a socket which is this user's alone.
Of a profile of ``corral login --rest`` it asks the profile's slurmrestd.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from corral.api.config.profiles import place_of
from corral.api.operations.nodes import login
from corral.api.page.token_store import tokens_file
from corral.api.workload.rest import rest_client
from corral.apply.connection import Connection
from corral.errors import BAD_JSON, Code, CorralError
from corral.extras import missing_extra
from corral.hosts.forward import UP
from corral.hosts.openssh import control_dir, control_path
from corral.hosts.ports import HeldPort, free_port
from corral.hosts.process import Child
from corral.hosts.quote import sh
from corral.hosts.transport import Result, check
from corral.inspect.slurm import RELEASE
from corral.passwords import SUDO, person
from corral.providers.lookup import here, providers_of
from corral.roles.services.metrics import PROMETHEUS
from corral.runtime.http_client import HttpClient, RefusedError, Response
from corral.runtime.threads import abandonable
from corral.slurm.version import SlurmVersion, has
from corral.spec.client import ClientSpec, by_rest
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of, users_of
from corral.spec.slurm.hostlist import fold
from corral.spec.slurm.releases import Feature
from corral.state_dir import cluster_dir

PROBE_S: Final = 10.0
"""How long an unresponsive machine may delay the page. Asking a person is not counted."""


async def sudo_of(session: Connection) -> dict[str, Any] | None:
    """The sudo password, where a machine of the cluster wants one, and which machines may have it.

    Whoever is there is asked once, and only when a machine's sudo has reported that it wants one.

    Args:
        session: the cluster.

    Returns:
        ``password`` and ``machines`` (``SshTarget.place``); None where no password is known.

    Raises:
        CorralError: USAGE, the password cannot be read or sent.
    """
    reached = {n: t for n, t in session.targets().items() if t.user != "root"}
    if reached and person().known(SUDO) is None:
        _report(await session.fleet.all(sh(":"), reached, timeout=PROBE_S))
    password = person().known(SUDO)
    if password is None:
        return None
    return {"password": password, "machines": [t.place(n) for n, t in reached.items()]}


def _report(answers: Mapping[str, Result | CorralError]) -> None:
    """Report which machines the page will not reach as root; the page reports it for each, too."""
    nodes_by_message: dict[str, list[str]] = {}
    for node, answer in answers.items():
        if isinstance(answer, CorralError):
            nodes_by_message.setdefault(answer.message, []).append(node)
    for message, nodes in nodes_by_message.items():
        person().show(fold(nodes), message)


NODE_EVENTS: Final = "node-events.json"
"""In the cluster's folder: what happened to nodes, as the page saw it."""
REST_PORT: Final = 6820
UP_S: Final = 30.0
CODE_S: Final = 30.0
"""For the answer to one question to the page."""
NEEDED: Final = ("fastapi", "httpx", "uvicorn")


@dataclass(frozen=True, slots=True)
class Page:
    """A page that is served.

    Attributes:
        url: where, on this machine.
        user: whose token it was opened with.
        code: opens it once, within two minutes.
    """

    url: str
    user: str
    code: str = field(repr=False)


@asynccontextmanager
async def serve_page(
    spec: ClusterSpec,
    *,
    user: str = "",
    source: str = "",
    port: int | HeldPort = 0,
    hours: float = 8.0,
    clusters: Mapping[str, str] = MappingProxyType({}),
) -> AsyncGenerator[tuple[Page, Callable[[], Any]]]:
    """Serve a cluster's page while the context is open.

    Args:
        spec: the cluster.
        user: the Slurm user to be; "" for the cluster's first one.
        source: path of the cluster file, for the editor; "" for none.
        port: where to listen on this machine's loopback; 0 takes a free one, a held one is kept.
        hours: how long the user's token is good.
        clusters: addresses of the pages of other clusters that this one shows, by their names.

    Yields:
        the page, and a coroutine function that returns when the tunnel or the server has ended.

    Raises:
        CorralError: MISSING_TOOL, the extra ``web`` is not installed; NOT_FOUND, the cluster is not
            up; UNREACHABLE.
    """
    _require()
    if by_rest(spec):
        serving = _serve_by_rest(spec, user, port, clusters)
    else:
        kept = {"session_s": hours * 3600}  # the token's time: a display shows the page for a week
        settings = {"clusters": dict(clusters), "source": source, **kept}
        serving = _serve_by_ssh(spec, user, port, hours, settings)
    async with serving as served:
        yield served


@asynccontextmanager
async def _serve_by_ssh(
    spec: ClusterSpec, user: str, port: int | HeldPort, hours: float, more: Mapping[str, Any]
) -> AsyncGenerator[tuple[Page, Callable[[], Any]]]:
    """Serve the page of a cluster file, with a tunnel to slurmrestd and Prometheus."""
    name = user or users_of(spec)[0].name
    _person(name)
    socket = control_dir() / f"rest-{secrets.token_hex(4)}"
    asked = await _asked(spec)
    first = asked.controller == controller_of(spec)  # slurmrestd and Prometheus are there alone
    rest = first and spec.slurm.rest and has(asked.version, Feature.READABLE_SLURMRESTD)
    token = await token_of(spec, name, int(hours * 3600)) if rest else ""
    figures = control_dir() / f"prom-{secrets.token_hex(4)}"
    forwards = [(str(socket), f"127.0.0.1:{REST_PORT}")] if rest else []
    prometheus = spec.services.prometheus or ""
    if first and spec.services.metrics and not prometheus:
        forwards.append((str(figures), f"127.0.0.1:{PROMETHEUS}"))
        prometheus = f"unix:{figures}"
    tunnel_argv = await tunnel_to(spec, *forwards, node=asked.controller)
    try:
        async with (
            await Child.start(tunnel_argv, quiet=True) as tunnel,
            await _server(port) as server,
        ):
            for near, _ in forwards:
                await _until(tunnel, Path(near))
            settings: dict[str, Any] = {
                "rest": f"unix:{socket}" if rest else "commands:",
                **{"handover": [name, token], "sudo": asked.sudo, "prometheus": prometheus},
                "spec": spec.model_dump(mode="json"),
                "tokens": str(tokens_file(spec.name)),
                "node_events": str(cluster_dir(spec.name) / NODE_EVENTS),
                **more,
            }
            page = await _started(server, spec, port, settings)
            yield page, lambda: _ended(server, tunnel)
    finally:
        socket.unlink(missing_ok=True)
        figures.unlink(missing_ok=True)


@asynccontextmanager
async def _serve_by_rest(
    spec: ClientSpec, user: str, port: int | HeldPort, clusters: Mapping[str, str]
) -> AsyncGenerator[tuple[Page, Callable[[], Any]]]:
    """Serve the page of a profile that reaches its cluster by slurmrestd, with its token.

    The server has no cluster file: what needs more than Slurm's REST API is refused with that.

    Raises:
        CorralError: FORBIDDEN, another user than the profile's; LOGIN_REFUSED, Slurm does not take
            the token; UNREACHABLE.
    """
    profile = spec.profile
    if user not in {"", profile.user}:
        raise CorralError(
            Code.FORBIDDEN,
            f"profile {profile.name} has {profile.user}'s token, not {user}'s",
            hint=f"corral login {user}@ --rest {profile.rest} --name NAME, with a token of {user}",
        )
    client = rest_client(spec)
    await client.partitions()  # unlike a ping, Slurm answers it for a good token only
    async with await _server(port) as server:
        settings: dict[str, Any] = {
            **{"rest": profile.rest, "clusters": dict(clusters)},
            "handover": [profile.user, client.token],
            "node_events": str(place_of(profile.name) / NODE_EVENTS),
        }
        page = await _started(server, spec, port, settings)
        yield page, lambda: _ended(server)


async def _server(port: int | HeldPort) -> Child:
    handles = (port.handle,) if isinstance(port, HeldPort) else ()
    return await Child.start([sys.executable, "-m", "corral.web"], handles=handles)


async def _started(
    server: Child, spec: ClusterSpec, at: int | HeldPort, more: Mapping[str, Any]
) -> Page:
    """Give the server its settings; the page once it listens."""
    port = at.number if isinstance(at, HeldPort) else at
    settings: dict[str, Any] = {
        "cluster": spec.name,
        "port": port,
        "listening": at.handle if isinstance(at, HeldPort) else None,
        **more,
    }
    await server.write(json.dumps(settings).encode() + b"\n")
    reply = json.loads(await server.line(UP_S) or "{}")
    if not reply:
        raise CorralError(
            Code.COMMAND_FAILED,
            "the page's server did not start",
            hint=f"its output is above; is port {port} taken?" if port else "",
        )
    return Page(f"http://127.0.0.1:{reply['port']}/", more["handover"][0], reply["code"])


def _require() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise missing_extra("web", "the page", ", ".join(missing))


def _person(user: str) -> None:
    if user in ("root", "slurm"):
        raise CorralError(
            Code.USAGE,
            f"{user} cannot log in to the page",
            hint="name a person with --user",
        )


async def token_of(spec: ClusterSpec, user: str, seconds: int) -> str:
    """A Slurm token of a user, made on the controller.

    Raises:
        CorralError: USAGE, root has none; SLURM_REFUSED; NOT_FOUND, the cluster is not up.
    """
    _person(user)
    # Only the answer holds the token: it goes from ssh's output to the server's input.
    script = sh(
        "id -u {user} >/dev/null && scontrol token username={user} lifespan={seconds}",
        user=user,
        seconds=seconds,
    )
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        result = await session.fleet.run(session.controller, script, timeout=60)
    if not result.ok or "SLURM_JWT=" not in result.stdout:
        raise CorralError(
            Code.SLURM_REFUSED,
            f"Slurm made no token for {user}",
            node=session.controller,
            tail=result.stderr[-500:],
            hint="is this a user of the cluster? is slurmctld up? see corral status",
        )
    return result.stdout.partition("SLURM_JWT=")[2].strip()


async def slurm_version(spec: ClusterSpec) -> SlurmVersion:
    """The version of Slurm on the controller.

    Raises:
        CorralError: UNREACHABLE; NOT_FOUND, the cluster is not up.
    """
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        result = await session.fleet.run(session.controller, RELEASE.shell, timeout=60)
    return RELEASE.parse(check(result, "asking for Slurm's version").stdout)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a cluster reports before its page is opened.

    Attributes:
        version: of Slurm.
        sudo: what sudo on its machines wants, as ``sudo_of`` returns it.
        controller: the node that was asked: the backup where the first controller is lost.
    """

    version: SlurmVersion
    sudo: dict[str, Any] | None
    controller: str


async def _asked(spec: ClusterSpec) -> Asked:
    async with await Connection.open(spec) as session:
        session.require_running()
        result = await session.fleet.run(session.controller, RELEASE.shell, timeout=60)
        release = check(result, "asking for Slurm's version").stdout
        sudo = await sudo_of(session)
    if session.controller != controller_of(spec):
        lost = f"asked by Slurm's commands: {controller_of(spec)} is lost"
        person().show(session.controller, lost)
    return Asked(RELEASE.parse(release), sudo, session.controller)


async def tunnel_to(spec: ClusterSpec, *forwards: tuple[str, str], node: str = "") -> list[str]:
    """The command that forwards to a node: each from a socket or address here to one there.

    Args:
        spec: the cluster.
        *forwards: from where to where.
        node: the node; "" for the controller.

    Raises:
        CorralError: UNREACHABLE.
    """
    name = node or controller_of(spec)
    provider = next(p for p in providers_of(spec) if any(n.name == name for n in p.nodes))
    if here(provider):
        control_path(control_dir(), "tunnel")  # makes the folder of the sockets
        return [sys.executable, "-m", "corral.hosts.forward", *chain.from_iterable(forwards)]
    await provider.read_machines()
    # Not -N: cat ends with its input, so that a tunnel ends with who made it, killed or not, once
    # the last connection through it is closed.
    # ssh listens here before it runs the command, or ends: so after its line the port is ssh's.
    argv = login(provider.ssh_target(name), name, (f"echo {UP}; exec cat >/dev/null",))
    at = argv.index("--")
    options = (
        *("-T", "-o", "ExitOnForwardFailure=yes", "-o", "BatchMode=yes"),
        *("-o", "StreamLocalBindUnlink=yes", "-o", "StreamLocalBindMask=0177"),
        *("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"),
        # A connection that the user's ssh configuration shares would keep the port afterwards.
        *("-S", "none", "-o", "ControlMaster=no", "-o", "ControlPersist=no"),
        *("-o", "RemoteCommand=none", "-o", "PermitLocalCommand=no"),
        *(word for near, far in forwards for word in ("-L", f"{near}:{far}")),
    )
    return [*argv[:at], *options, *argv[at:]]


async def until_up(tunnel: Child, node: str) -> None:
    """Wait until a tunnel listens here; another program's listener on its port is not it.

    Raises:
        CorralError: UNREACHABLE.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(UP_S):
            while line := await tunnel.line(UP_S):
                if line.strip() == UP:
                    return
            await tunnel.wait()
    raise CorralError(
        Code.UNREACHABLE,
        f"no tunnel to {node}",
        node=node,
        tail=await tunnel.stderr_tail() if not tunnel.running else "",
        hint=f"does corral ssh {node} log in? sshd there must allow forwarding",
    )


async def _until(tunnel: Child, socket: Path) -> None:
    end = asyncio.get_running_loop().time() + UP_S
    while not socket.exists():  # noqa: ASYNC240  # one stat of a local file
        if not tunnel.running or asyncio.get_running_loop().time() > end:
            raise CorralError(
                Code.UNREACHABLE,
                "no tunnel to the controller",
                tail=await tunnel.stderr_tail() if not tunnel.running else "",
                hint="does corral ssh reach it? sshd there must allow forwarding",
            )
        await asyncio.sleep(0.05)


async def _ended(server: Child, tunnel: Child | None = None) -> str:
    waits = {asyncio.create_task(server.wait()): "the page's server ended"}
    if tunnel is not None:
        waits[asyncio.create_task(tunnel.wait())] = "the tunnel to the controller broke"
    done, rest = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    return waits[done.pop()]


@asynccontextmanager
async def reach_page(
    spec: ClusterSpec, *, user: str = "", port: int = 0, hours: float = 8.0
) -> AsyncGenerator[tuple[Page, Callable[[], Any]]]:
    """Keep a tunnel to the controller's page while the context is open.

    Args:
        spec: the cluster.
        user: the Slurm user to be; "" for the cluster's first one.
        port: where to listen on this machine's loopback; 0 takes a free port.
        hours: how long the user's token is good.

    Yields:
        the page, and a coroutine function that returns when the tunnel has ended.

    Raises:
        CorralError: NOT_FOUND, the cluster has no such service or is not up; UNREACHABLE.
    """
    if not spec.services.ui:
        raise CorralError(
            Code.NOT_FOUND,
            f"cluster {spec.name} has no page on its controller",
            hint="an administrator sets services: {ui: true}; without that the page runs where the "
            "cluster file is (corral ui FILE), or by Slurm's REST API (corral login --rest URL)",
        )
    name = user or users_of(spec)[0].name
    token = await token_of(spec, name, int(hours * 3600))
    there = f"127.0.0.1:{spec.services.page.port}"
    number = port or free_port()
    async with await Child.start(
        await tunnel_to(spec, (f"127.0.0.1:{number}", there)), quiet=True
    ) as tunnel:
        await until_up(tunnel, controller_of(spec))
        url = f"http://127.0.0.1:{number}/"
        code = await _code(url, token, tunnel)
        yield Page(url, name, code), lambda: _broken(tunnel)


async def _code(url: str, token: str, tunnel: Child) -> str:
    """A one-time code for the token; waits until the tunnel is there."""
    end = asyncio.get_running_loop().time() + UP_S
    while True:
        try:
            return str((await abandonable(_post, f"{url}api/login/handover", token))["code"])
        except RefusedError as error:
            raise refusal(error) from error
        except OSError as error:
            if not tunnel.running or asyncio.get_running_loop().time() > end:
                raise CorralError(
                    Code.UNREACHABLE,
                    "the controller's page does not answer",
                    tail=await tunnel.stderr_tail() if not tunnel.running else str(error),
                    hint="corral doctor; on the controller: systemctl status corral-web",
                ) from error
        await asyncio.sleep(0.1)


def _post(url: str, token: str) -> dict[str, Any]:
    body = json.dumps({"token": token}).encode()
    headers = {"Content-Type": "application/json"}
    # No proxy of the environment: it would get the token.
    client = HttpClient(proxies=False)
    answer = client.send(
        *("POST", url, body), headers=headers, timeout_s=15, within_s=CODE_S, at_most=1 << 16
    )
    return fields_of(answer, "code")


def fields_of(answer: Response, needed: str = "") -> dict[str, Any]:
    """The object that the page answers.

    Args:
        answer: the page's.
        needed: a field that it has.

    Raises:
        CorralError: PARSE_FAILED, it is none: another program has the port, or it broke off.
    """
    try:
        fields: Any = json.loads(answer.body)
    except BAD_JSON:
        fields = None
    if not answer.missing and isinstance(fields, dict) and (not needed or needed in fields):
        return cast("dict[str, Any]", fields)
    raise CorralError(
        Code.PARSE_FAILED,
        "the controller's page gave an answer that cannot be read",
        tail=answer.body[:200].decode("utf-8", "replace"),
        hint="on the controller: systemctl status corral-web; is its port another program's?",
    )


def refusal(error: RefusedError) -> CorralError:
    """The error that a page's answer holds."""
    try:
        fields = json.loads(error.body)["error"]
        return CorralError(Code(fields["code"]), fields["message"], hint=fields.get("hint", ""))
    except BAD_JSON:
        return CorralError(
            Code.COMMAND_FAILED,
            f"the controller's page answered {error.status}",
            hint="on the controller: journalctl -u corral-web",
        )


async def _broken(tunnel: Child) -> str:
    await tunnel.wait()
    return "the tunnel to the controller broke"
