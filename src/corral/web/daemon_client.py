"""HTTP clients of daemons of the controller: slurmrestd and Prometheus, by address or by socket."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

import httpx

from corral.jobs.rest.client import LOOPBACK


def daemon_client(
    address: str,
    *,
    timeout: float,
    transport: httpx.AsyncBaseTransport | None = None,
    proxied: bool = False,
) -> httpx.AsyncClient:
    """A client of one daemon.

    Args:
        address: ``http://127.0.0.1:6820``, or ``unix:/path`` of a socket that leads there.
        timeout: seconds for each part of an answer.
        transport: another one than the network, in tests.
        proxied: by the environment's proxy, where the daemon is on another machine and TLS keeps
            what is sent from the proxy.
    """
    kind, _, path = address.partition(":")
    if kind == "unix" and transport is None:
        transport = httpx.AsyncHTTPTransport(uds=path)
    apart = kind == "https" and urlsplit(address).hostname not in LOOPBACK
    return httpx.AsyncClient(
        base_url="http://localhost" if kind == "unix" else address,
        timeout=timeout,
        transport=transport,
        # The system's authorities, as for ``corral login --rest``: httpx has another list.
        verify=ssl.create_default_context() if kind == "https" else True,
        # Without TLS a proxy of the environment would get every token.
        trust_env=proxied and apart,
        limits=httpx.Limits(max_connections=16),
    )
