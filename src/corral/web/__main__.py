# Installed as: a module of Corral's own environment on the controller (/opt/corral/web)
# Started by: corral-web.service, and corral on the machine of a person
# Runs as: corral-web, or the person
"""``python -m corral.web``: the server of one cluster; settings as JSON on standard input.

It prints one JSON line once it listens: ``{"port": 8765, "code": "..."}``. With a login handed over
it ends when standard input closes (so that it never outlives ``corral ui``), else by a signal.
"""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import sys
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn

from corral.passwords import accompanied
from corral.runtime.stack_dump import on_signal
from corral.runtime.tasks import concurrently
from corral.web.app import create_app
from corral.web.listener.acceptor import Loop
from corral.web.listener.admission import Admission, Admitted
from corral.web.listener.connections import (
    Bounded,
    Waiting,
    at_hangup,
    more_files,
    without_cut_streams,
)
from corral.web.settings import Settings
from corral.web.slurm.slurmrest import Login
from corral.web.users.audit import attendant


def main() -> None:
    """Read the settings and serve; whoever started it answers what sudo on a machine asks."""
    on_signal()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # tokens and a password in no core dump
    more_files()
    settings = Settings.model_validate_json(sys.stdin.readline())
    with accompanied(attendant(settings.sudo)):
        serve(settings.model_copy(update={"sudo": None}))


def serve(settings: Settings) -> None:
    """Listen, print the address, serve."""
    app = create_app(settings)
    listening = _inherited(settings) or _listen(settings.host, settings.port)
    code = ""
    if settings.handover is not None:
        code = app.state.corral.sessions.code(Login(*settings.handover))
    http = partial(Bounded, Waiting())
    admission = Admission(app.state.corral.sessions, bearers=app.state.corral.bearers)
    admitted = Admitted(app, admission, proxied=bool(settings.names))
    servers = [(uvicorn.Server(_config(admitted, settings, http=http)), listening)]
    if settings.outside:
        outside = _config(admitted, settings, http=http, lifespan="off", **_tls(settings))
        servers.append((uvicorn.Server(outside), _listen(settings.outside, settings.port)))
    sys.stdout.write(f"{json.dumps({'port': listening.getsockname()[1], 'code': code})}\n")
    sys.stdout.flush()
    without_cut_streams()
    loop = partial(Loop, admission)
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_serve(servers, settings))


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), reuse_port=False)
    except OSError as error:
        sys.exit(f"corral: cannot listen on {host}:{port}: {error.strerror}")


def _inherited(settings: Settings) -> socket.socket | None:
    """The socket that who started this server holds."""
    if settings.listening is None:
        return None
    listening = socket.socket(fileno=settings.listening)
    listening.set_inheritable(False)
    listening.listen()
    # Else its ended connections keep the port for a minute (TIME_WAIT) from the next server. While
    # this one listens nobody else may, and its owner takes the option off when it has ended.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return listening


def _tls(settings: Settings) -> dict[str, Any]:
    if settings.certificate:
        return {"ssl_certfile": settings.certificate, "ssl_keyfile": settings.key}
    if not settings.plain:
        sys.exit("corral: no certificate, and no mesh that encrypts: see services: {page: ...}")
    return {}


def _config(app: Admitted, settings: Settings, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # page views are private; changes are audited
        server_header=False,
        proxy_headers=False,  # Admitted lets a declared reverse proxy name the client
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=32768,
        limit_concurrency=2 * settings.max_viewers,
        **more,
    )


async def _serve(servers: list[tuple[uvicorn.Server, socket.socket]], settings: Settings) -> None:
    if settings.outside and settings.certificate:
        at_hangup(servers[-1][0].config, settings.certificate, settings.key)
    serving = [asyncio.create_task(server.serve([bound])) for server, bound in servers]
    waits = [*serving]
    if settings.handover is not None:
        waits.append(asyncio.create_task(_input_ended()))
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for server, _ in servers:
        server.should_exit = True
    await concurrently(*serving)


async def _input_ended() -> None:
    """Who started this server is gone: its end of the pipe closed."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while await reader.read(4096):
        pass


if __name__ == "__main__":
    main()
