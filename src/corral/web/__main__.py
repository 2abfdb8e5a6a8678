"""``python -m corral.web``: the server of one cluster; settings as JSON on standard input.

It prints one JSON line once it listens: ``{"port": 8765, "code": "..."}``. It ends when standard
input closes with ``"attached": true`` (so that it never outlives ``corral ui``), or by a signal.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from contextlib import suppress

import uvicorn

from corral.web.app import create_app
from corral.web.settings import Settings
from corral.web.slurmrest import Login


def main() -> None:
    """Read the settings, listen, say where, serve."""
    settings = Settings.model_validate_json(sys.stdin.readline())
    app = create_app(settings)
    try:
        listening = socket.create_server((settings.host, settings.port), reuse_port=False)
    except OSError as error:
        sys.exit(f"corral: cannot listen on {settings.host}:{settings.port}: {error.strerror}")
    code = ""
    if settings.handover is not None:
        code = app.state.corral.sessions.code(Login(*settings.handover))
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # who looked at what is nobody's business; what was done is audited
        server_header=False,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=32768,
        limit_concurrency=2 * settings.max_viewers,
    )
    server = uvicorn.Server(config)
    sys.stdout.write(f"{json.dumps({'port': listening.getsockname()[1], 'code': code})}\n")
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(server, listening, attached=settings.handover is not None))


async def _serve(server: uvicorn.Server, listening: socket.socket, *, attached: bool) -> None:
    serving = asyncio.create_task(server.serve([listening]))
    waits = [serving]
    if attached:
        waits.append(asyncio.create_task(_input_ended()))
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await serving


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
