"""Whom a client of a daemon trusts, and what the environment's proxy gets."""

from __future__ import annotations

from typing import Any

import pytest

from corral.web import daemon_client as module
from corral.web.slurm.slurmrest import SlurmRest


@pytest.mark.parametrize(
    ("address", "proxied"),
    [
        ("https://lab.example.org:6820", True),
        ("http://lab.example.org:6820", False),
        ("https://127.0.0.1:6820", False),
        ("http://127.0.0.1:6820", False),
        ("unix:/run/rest", False),
    ],
)
def test_a_proxy_gets_what_tls_keeps_from_it_alone(
    monkeypatch: pytest.MonkeyPatch, address: str, proxied: bool
) -> None:
    """And the authorities are the system's, with SSL_CERT_FILE, as of ``corral login --rest``."""
    options: list[dict[str, Any]] = []

    class Made:
        def __init__(self, **given: Any) -> None:
            options.append(given)

    monkeypatch.setattr(module.httpx, "AsyncClient", Made)
    monkeypatch.setattr(module.ssl, "create_default_context", lambda **_: "the system's")
    SlurmRest(address)
    (given,) = options
    assert given["trust_env"] is proxied
    assert (given["verify"] == "the system's") is address.startswith("https:")
