"""Wheels for machines: pip's arguments, and what is kept of what it downloads."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from corral.apply import wheelhouse
from corral.apply.wheelhouse import cached, fetch, fetch_wheels, wheels_in
from corral.errors import Code, CorralError
from corral.events import ignore
from corral.hosts.process import Ended
from corral.hosts.quote import Script
from corral.plan.model import NodeChange, Plan, Stage
from corral.state.base import HERE, Change, SecretRef
from corral.state.pyenv import Wheel

CONTENT = {"a-1.0-py3-none-any.whl": b"one", "b-2.0-cp313-cp313-manylinux_2_28_x86_64.whl": b"two"}
WHEELS = tuple(Wheel(f, hashlib.sha256(data).hexdigest()) for f, data in CONTENT.items())


class FakePip:
    """Brings files as `pip download --dest` does, and keeps its arguments."""

    def __init__(self, content: dict[str, bytes], status: int = 0) -> None:
        self.content, self.status, self.argv, self.asked = content, status, [""], ""

    async def __call__(self, argv: Sequence[str], *, timeout: float) -> Ended:
        self.argv = list(argv)
        self._download(argv)
        return Ended(self.status, b"", b"ERROR: No matching distribution found for a==1.0\n")

    def _download(self, argv: Sequence[str]) -> None:
        folder = Path(argv[argv.index("--dest") + 1])
        self.asked = Path(argv[argv.index("--requirement") + 1]).read_text()
        for name, data in self.content.items():
            (folder / name).write_bytes(data)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakePip:
    fake = FakePip(CONTENT)
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(wheelhouse.process, "run", fake)
    return fake


def test_pip_is_asked_for_exactly_these_files_once(pip: FakePip) -> None:
    asyncio.run(fetch(WHEELS, ignore))
    assert [cached(w.place).read_bytes() for w in WHEELS] == [b"one", b"two"]
    assert pip.asked.splitlines() == [f"{w.requirement} --hash=sha256:{w.sha256}" for w in WHEELS]
    command = " ".join(pip.argv)
    assert "--python-version 313" in command
    assert "--require-hashes" in command
    assert "--no-deps" in command
    assert not any("index" in word or "://" in word for word in pip.argv), "the user's settings"
    pip.argv = []
    asyncio.run(fetch(WHEELS, ignore))
    assert pip.argv == []


def test_what_was_damaged_in_the_cache_comes_again(pip: FakePip) -> None:
    asyncio.run(fetch(WHEELS, ignore))
    cached(WHEELS[0].place).write_bytes(b"on")
    asyncio.run(fetch(WHEELS, ignore))
    assert pip.asked.startswith("a==1.0 ")
    assert len(pip.asked.splitlines()) == 1
    assert cached(WHEELS[0].place).read_bytes() == b"one"


def test_another_build_under_the_same_name_is_refused(pip: FakePip) -> None:
    pip.content = {**CONTENT, "a-1.0-py3-none-any.whl": b"evil"}
    with pytest.raises(CorralError) as caught:
        asyncio.run(fetch(WHEELS, ignore))
    assert caught.value.code is Code.NOT_GOOD
    assert not cached(WHEELS[0].place).exists()


def test_pips_own_words_are_shown(pip: FakePip) -> None:
    pip.status = 1
    with pytest.raises(CorralError) as caught:
        asyncio.run(fetch(WHEELS, ignore))
    assert "No matching distribution" in caught.value.tail


def test_only_wheels_of_a_plan_are_fetched(pip: FakePip) -> None:
    def plan(*paths: str) -> Plan:
        refs = tuple(SecretRef("x", HERE, p) for p in paths)
        change = Change("pyenv:/x", "", "", "", Script(""), secrets=refs)
        return Plan("c", "d", "o", (), (Stage("s", "s", (NodeChange(("n",), change),)),))

    assert wheels_in(plan("/srv/debs/slurm.deb")) == ()
    assert wheels_in(plan(*(w.place for w in WHEELS))) == WHEELS
    asyncio.run(fetch_wheels(plan("/srv/debs/slurm.deb"), ignore))
    assert pip.argv == [""]
    assert cached("/srv/debs/slurm.deb") == Path("/srv/debs/slurm.deb")
