"""``corral cloud``: rules, ssh keys and file systems, over HTTP, checked by the documents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from corral.testing.clouds import SIMS, Sim
from corral.testing.clouds.server import CloudServer
from corral.testing.rentals import SECRET
from tests.clouds.common import CONTRACTS

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me"


@dataclass
class Shop:
    """Simulated clouds and the command line that talks to them."""

    sims: dict[str, Sim]
    environ: dict[str, str]

    def corral(self, *words: str) -> tuple[int, str, str]:
        argv = [sys.executable, "-m", "corral", "cloud", *words]
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    sims = {n: make(key=SECRET, limits={}, contract=CONTRACTS[n]) for n, make in SIMS.items()}
    server = CloudServer(sims)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environ = {**os.environ, "CORRAL_STATE_DIR": str(tmp_path)}
    for name in SIMS:
        environ |= {
            f"{name.upper()}_API_KEY": SECRET,
            f"CORRAL_{name.upper()}_URL": server.url(name),
        }
    yield Shop(sims, environ)
    server.shutdown()
    assert [v for sim in sims.values() for v in sim.violations] == []


def test_rules_and_keys_are_added_and_none_is_dropped(shop: Shop, tmp_path: Path) -> None:
    before = list(shop.sims["lambda"].rules)  # type: ignore[attr-defined]
    status, _, stderr = shop.corral("firewall", "--allow", "udp:41641:0.0.0.0/0")
    assert status == 2 and "--yes was not given" in stderr
    assert shop.sims["lambda"].rules == before  # type: ignore[attr-defined]
    status, stdout, _ = shop.corral("firewall", "--allow", "udp:41641:0.0.0.0/0", "--yes", "--json")
    assert status == 0 and json.loads(stdout)["changed"]
    rules = shop.sims["lambda"].rules  # type: ignore[attr-defined]
    assert rules[:-1] == before and rules[-1]["port_range"] == [41641, 41641]
    status, stdout, _ = shop.corral("firewall", "--allow", "udp:41641:0.0.0.0/0", "--yes", "--json")
    assert status == 0 and not json.loads(stdout)["changed"]

    file = tmp_path / "id.pub"
    file.write_text(f"{KEY}\n")
    other = list(shop.sims["runpod"].keys)  # type: ignore[attr-defined]
    assert shop.corral("ssh-keys", "--add", str(file), "--yes")[0] == 0
    assert shop.sims["runpod"].keys == [*other, KEY]  # type: ignore[attr-defined]
    file.write_text("no key")
    assert shop.corral("ssh-keys", "--add", str(file), "--yes")[0] == 2


def test_a_file_system_is_made_once(shop: Shop) -> None:
    for name, region in (("lambda", "us-west-1"), ("runpod", "US-KS-2")):
        words = ("volume", "data", "-p", name, "-r", region, "--json")
        first, again = (json.loads(shop.corral(*words)[1]) for _ in range(2))
        assert (first["made"], again["made"]) == (True, False)
        assert first["volume"]["id"] == again["volume"]["id"]
    status, _, stderr = shop.corral("volume", "data", "-p", "lambda", "-r", "nowhere-1")
    assert status == 3 and "Lambda Cloud" in stderr
    assert shop.corral("volume", "data", "-p", "paperspace", "-r", "ny2")[0] == 2
