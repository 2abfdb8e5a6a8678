"""HTTP clients of daemons of the controller: slurmrestd and Prometheus, by address or by socket."""

from __future__ import annotations

import httpx


def daemon_client(
    address: str, *, timeout: float, transport: httpx.AsyncBaseTransport | None = None
) -> httpx.AsyncClient:
    """A client of one daemon.

    Args:
        address: ``http://127.0.0.1:6820``, or ``unix:/path`` of a socket that leads there.
        timeout: seconds for each part of an answer.
        transport: another one than the network, in tests.
    """
    kind, _, path = address.partition(":")
    if kind == "unix" and transport is None:
        transport = httpx.AsyncHTTPTransport(uds=path)
    return httpx.AsyncClient(
        base_url="http://localhost" if kind == "unix" else address,
        timeout=timeout,
        transport=transport,
        trust_env=False,  # a proxy of the environment would get every token
        limits=httpx.Limits(max_connections=16),
    )
