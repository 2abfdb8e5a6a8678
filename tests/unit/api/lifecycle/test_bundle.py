"""What a bundle cannot be made for, and what it lacks for a cluster file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from corral.api.lifecycle import bundle as use
from corral.errors import Code, CorralError
from corral.providers.base import Machine, Observed
from corral.providers.containers import bundle, recipe
from corral.providers.containers.bundle import Manifest, Member
from corral.providers.embedded.provider import EmbeddedProvider
from corral.slurm.packages import DebSet, Family
from corral.spec.load import load_or_raise
from corral.state.packages import Artifact, DebRepository, Packages
from corral.state.pyenv import Wheel
from corral.state.system.enroot import EnrootPackages, PyxisPlugin

WHEEL = Wheel("rich-15.0.0-py3-none-any.whl", "b" * 64)


def manifest(*members: Member) -> Manifest:
    return Manifest(
        corral="1",
        architecture="x86_64",
        python="3.13",
        image="localhost/corral-node:trixie-0",
        image_id="a" * 64,
        system="debian:13",
        packages={"slurmd": "24.11.5-4"},
        members=members,
    )


def test_a_bundle_for_another_cluster_file_names_what_it_lacks() -> None:
    held = Member(path=f"wheels/{WHEEL.file}", size=1, sha256=WHEEL.sha256)
    use._require(Path("kit"), manifest(held), use.Needs(("slurmd",), (WHEEL,)))
    with pytest.raises(CorralError, match="kit lacks prometheus, which this cluster needs"):
        use._require(Path("kit"), manifest(held), use.Needs(("slurmd", "prometheus"), ()))
    other = held.model_copy(update={"sha256": "c" * 64})
    with pytest.raises(CorralError, match=r"kit lacks rich-15\.0\.0"):
        use._require(Path("kit"), manifest(other), use.Needs((), (WHEEL,)))


def test_the_wheel_that_nodes_get_is_the_one_that_is_compared() -> None:
    right = Member(path=f"other/{WHEEL.file}", size=1, sha256=WHEEL.sha256)
    copied = Member(path=f"wheels/{WHEEL.file}", size=1, sha256="c" * 64)
    with pytest.raises(CorralError, match=r"kit lacks rich-15\.0\.0"):
        use._require(Path("kit"), manifest(right, copied), use.Needs((), (WHEEL,)))


def test_what_nodes_fetch_from_networks_is_refused() -> None:
    use._refuse_outside([Packages("slurmd", ("slurmd",)), Artifact("/srv/a.deb", "a" * 64, "a")])
    with pytest.raises(CorralError, match=r"cannot hold what slurm\.source needs"):
        use._refuse_outside([DebRepository(DebSet((), "/srv", Family.DISTRIBUTION, "1"))])
    with pytest.raises(CorralError, match=r"cannot hold what https://x/a\.deb needs") as caught:
        use._refuse_outside([Artifact("https://x/a.deb", "a" * 64, "a")])
    assert "software.pyxis.mirror" in caught.value.hint


def test_containers_by_files_need_packages_that_are_in_the_image() -> None:
    use._refuse_outside([EnrootPackages((), ()), PyxisPlugin("/p", "a" * 64, "libslurm-dev", ())])
    assert "libcap2-bin" in use._installed(EnrootPackages((), ()))
    plugin = use._installed(PyxisPlugin("/p", "a" * 64, "libslurm-dev", ()))
    assert plugin == ("gcc", "make", "libc6-dev", "libslurm-dev")
    debian = recipe.recipes()["debian"]
    assert recipe.HEADERS in recipe.slim(debian, ("prometheus",)).left_out
    assert recipe.HEADERS not in recipe.slim(debian, plugin).left_out


def test_wheels_are_for_a_known_python_and_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "architecture", lambda: "x86_64")
    files = [wheel.file for wheel in use._host_wheels("3.12")]
    assert any(file.startswith("corral-") for file in files)
    assert any(file.startswith("backports_zstd-") and "-cp312-" in file for file in files)
    for python in ("3.10", "2.7", "latest"):
        with pytest.raises(CorralError, match=f"no wheels are known for Python {python}") as caught:
            use._host_wheels(python)
        assert caught.value.code is Code.USAGE
    monkeypatch.setattr(bundle, "architecture", lambda: "aarch64")
    with pytest.raises(CorralError, match="wheels are known for x86_64 only"):
        use._host_wheels("3.12")


GPU_FILE = """\
corral: v1
name: one
groups:
  - {name: gpu, provider: embedded, nodes: node0, gpu: {type: h200, count: 1, source: host}}
"""


def test_a_gpu_in_use_is_refused_before_the_bundle_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Seen on H200: the node image was loaded before the sentence came."""
    busy = CorralError(Code.PROVIDER_FAILED, "/dev/nvidia0 is in use by process 7")

    async def seen(provider: EmbeddedProvider) -> Observed:
        absent = {n.name: Machine(n.name, False, False, "10.0.0.1") for n in provider.nodes}
        provider._memory.observed = Observed(absent, refusal=busy)
        return provider._memory.observed

    monkeypatch.setattr(EmbeddedProvider, "read_machines", seen)
    monkeypatch.setattr(bundle, "unpack", lambda *_: pytest.fail("the bundle was read"))
    file = tmp_path / "one.yaml"
    file.write_text(GPU_FILE)
    spec = load_or_raise(file)
    assert "slurmd" in asyncio.run(use.needs_of(spec)).packages  # for another machine
    with pytest.raises(CorralError, match="in use by process 7"):
        asyncio.run(use.use_bundle(spec, tmp_path / "kit.tar.zst"))
