"""A cluster from a bundle alone: in a network namespace without a route, by its own wheels."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.conftest import needs

from corral import api
from corral.spec.load import load_or_raise

FILE = """\
corral: v1
name: {name}
groups:
  - name: cpu
    provider: embedded
    nodes: node[0-1]
    memory_mib: 1024
    gpu: {{type: slot, count: 1}}
storage:
  - {{mount: /shared, kind: provider}}
"""


def done(*argv: str | Path, status: int = 0, timeout: float = 300) -> str:
    words = [str(word) for word in argv]
    end = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
    assert end.returncode == status, f"{words}: {end.stdout[-2000:]}\n{end.stderr[-4000:]}"
    return end.stdout


@pytest.fixture
def without_network() -> Iterator[tuple[str, ...]]:
    """Begins a command that runs in a network namespace with nothing but a loopback device."""
    name = f"corral-test-{os.getpid()}"
    done("ip", "netns", "add", name)
    inside = ("nsenter", f"--net=/run/netns/{name}")
    try:
        done(*inside, "ip", "link", "set", "lo", "up")
        yield inside
    finally:
        done("ip", "netns", "del", name)


@pytest.mark.skipif(bool(needs()), reason=needs())
def test_a_cluster_comes_up_and_is_proven_without_any_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_network: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    file, kit = tmp_path / "kit.yaml", tmp_path / "kit.tar.zst"
    file.write_text(FILE.format(name=f"kit-{os.getpid()}"))
    made = asyncio.run(api.make_bundle(load_or_raise(file), kit, level=1))
    done("podman", "rmi", "--force", made.image)  # nothing but the bundle has it from here on
    done("tar", "--zstd", "-xf", kit, "-C", tmp_path, "--wildcards", "wheels/*")
    assert not done(*without_network, "ip", "route").strip()
    done(sys.executable, "-m", "venv", tmp_path / "venv")
    pip = (tmp_path / "venv/bin/pip", "install", "-q", "--no-index", "--require-hashes")
    wheels = tmp_path / "wheels"
    done(*without_network, *pip, "--find-links", wheels, "-r", wheels / "requirements.txt")
    # Not the state folder of the one that made it, which has a copy of the wheels.
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "other"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    corral = (*without_network, tmp_path / "venv/bin/corral")
    try:
        text = done(*corral, "up", file, "--bundle", kit, "--yes", "--json", timeout=600)
        assert json.loads(text.splitlines()[-1])["proof"]["proven"]
    finally:
        done(*corral, "down", file, "--yes")
    assert not done("podman", "ps", "-aq", "--filter", f"label=corral.cluster=kit-{os.getpid()}")
