"""Use case: reach the page that runs as a service on the controller (``services: {ui: true}``)."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from corral.api.page.page_server import Page, token_of, tunnel_to
from corral.errors import Code, CorralError
from corral.hosts.child import Child
from corral.spec.models import ClusterSpec
from corral.spec.nodes import users_of
from corral.threads import abandonable

UP_S: Final = 30.0


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
            hint="set services: {ui: true} and apply it; without --controller the page runs here",
        )
    name = user or users_of(spec)[0].name
    token = await token_of(spec, name, int(hours * 3600))
    there = f"127.0.0.1:{spec.services.page.port}"
    number = port or _free()
    async with await Child.start(
        await tunnel_to(spec, (f"127.0.0.1:{number}", there)), quiet=True
    ) as tunnel:
        url = f"http://127.0.0.1:{number}/"
        code = await _code(url, token, tunnel)
        yield Page(url, name, code), lambda: _broken(tunnel)


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def _code(url: str, token: str, tunnel: Child) -> str:
    """A one-time code for the token; waits until the tunnel is there."""
    end = asyncio.get_running_loop().time() + UP_S
    while True:
        try:
            return str((await abandonable(_post, f"{url}api/login/handover", token))["code"])
        except urllib.error.HTTPError as error:
            raise _refused(error) from error
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
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
    # No proxy of the environment: it would get the token.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(asked, timeout=15) as answer:
        return json.loads(answer.read(1 << 16))


def _refused(error: urllib.error.HTTPError) -> CorralError:
    try:
        fields = json.loads(error.read(1 << 16))["error"]
        return CorralError(Code(fields["code"]), fields["message"], hint=fields.get("hint", ""))
    except (ValueError, KeyError):
        return CorralError(
            Code.COMMAND_FAILED,
            f"the controller's page answered {error.code}",
            hint="on the controller: journalctl -u corral-web",
        )


async def _broken(tunnel: Child) -> str:
    await tunnel.wait()
    return "the tunnel to the controller broke"
