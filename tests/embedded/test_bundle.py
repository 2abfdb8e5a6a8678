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
from corral.api.lifecycle.bundle import needs_of
from corral.events import ignore
from corral.providers.containers import bundle, machine
from corral.providers.containers.image import Images
from corral.providers.containers.podman import Podman
from corral.spec.load import load_or_raise

pytestmark = pytest.mark.slow

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


@pytest.mark.skipif(bool(needs()), reason=needs())
def test_a_slim_image_has_at_most_60_mib_compressed(tmp_path: Path) -> None:
    """The image alone, as a bundle of it has it: archives of people without internet are small."""
    images, file = Images(Podman(machine.host_runtime())), tmp_path / "kit.yaml"
    file.write_text(FILE.format(name=f"slim-{os.getpid()}"))

    async def saved() -> str:
        packages = (await needs_of(load_or_raise(file))).packages
        reference = await images.slim(packages, ignore)
        await images.save(reference, tmp_path / bundle.IMAGE)
        return reference

    had = set(done("podman", "images", "-q", "--filter", "reference=localhost/corral-node").split())
    reference = asyncio.run(saved())
    try:
        manifest = bundle.Manifest(
            corral=bundle.release(),
            architecture=bundle.architecture(),
            python="3.13",
            image=reference,
            image_id="0" * 64,
            system="debian:13",
            packages={},
            members=(bundle.described(bundle.IMAGE, tmp_path / bundle.IMAGE),),
        )
        kit = tmp_path / "slim.tar.zst"
        bundle.write(kit, manifest, {bundle.IMAGE: tmp_path / bundle.IMAGE})
        size = kit.stat().st_size / 1024**2
        unpacked = manifest.members[0].size / 1000**2
        print(f"slim image: {unpacked:.0f} MB, {size:.1f} MiB compressed")
        assert size <= 60, f"{size:.1f} MiB"
    finally:
        if done("podman", "images", "-q", reference).strip() not in had:
            done("podman", "rmi", "--force", reference)
