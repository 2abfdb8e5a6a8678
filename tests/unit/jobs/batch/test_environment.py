"""Which Python a job gets from its requirements, and that it is reported."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from corral.errors import CorralError
from corral.events import Event
from corral.jobs.batch import environment
from corral.jobs.batch.environment import packages
from corral.jobs.model import JobSpec, parse_job
from corral.jobs.submit import submit
from tests.unit.jobs.conftest import FakeSlurm
from tests.unit.jobs.test_submit import spec

HASHED = "numpy==2.1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"


def submitted(
    slurm: FakeSlurm,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: str | None = None,
    *,
    python: str | None = None,
) -> tuple[list[bytes], str]:
    """What an environment was made from, and what was reported of it."""
    made: list[bytes] = []
    events: list[Event] = []

    async def ensure(*_: object, text: bytes, **__: object) -> str:
        made.append(text)
        return "/env"

    monkeypatch.setattr(environment, "ensure", ensure)
    (project / "train.py").write_text("pass")
    job = JobSpec(script=str(project / "train.py"), environment=named, python=python)
    asyncio.run(submit(slurm.fleet, "node0", spec(slurm), job, events.append))
    return made, " ".join(event.message for event in events if event.subject == "environment")


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n  # at all\n", "--no-index\n"])
@pytest.mark.parametrize("explicit", [True, False])
def test_requirements_of_nothing_hide_nothing(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, text: str, explicit: bool
) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text(text)
    made, report = submitted(slurm, tmp_path, monkeypatch, str(lock) if explicit else None)
    assert made == []
    assert report == "requirements.txt names no package: the job has the nodes' own Python"


def test_a_list_without_pins_is_reported(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "requirements.txt").write_text("torch\nnumpy>=2\n")
    made, report = submitted(slurm, tmp_path, monkeypatch)
    assert made == []
    assert "'torch' is not pinned" in report
    assert report.endswith("the job has the nodes' own Python")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("numpy==2.1.0\n", "1 package, no torch"),
        (HASHED, "1 package, no torch"),
        ("torchvision==0.20.0\nnumpy==2.1.0\n", "2 packages, no torch"),
        ("numpy==2.1.0\nTorch==2.5.1 # here\n", "2 packages, torch 2.5.1 of it"),
        ("torch[opt]==2.5.1+cu128 ; python_version > '3'\n", "1 package, torch 2.5.1+cu128 of it"),
        ("torch @ file:///wheels/torch.whl\n", "torch file:///wheels/torch.whl of it"),
    ],
)
def test_what_hides_the_nodes_torch_is_reported(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, text: str, words: str
) -> None:
    (tmp_path / "requirements.txt").write_text(text)
    made, report = submitted(slurm, tmp_path, monkeypatch)
    assert made == [text.encode()]
    assert words in report
    assert "packages of the nodes' own Python are hidden (--environment none shows them)" in report


def test_without_requirements_nothing_is_reported(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert submitted(slurm, tmp_path, monkeypatch) == ([], "")
    (tmp_path / "requirements.txt").write_text("numpy==1\n")
    assert submitted(slurm, tmp_path, monkeypatch, "none") == ([], "")


def test_a_python_of_the_nodes_takes_the_place_of_the_lock(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "venv"
    there.mkdir()
    (tmp_path / "requirements.txt").write_text("numpy==1\n")
    made, report = submitted(slurm, tmp_path, monkeypatch, python=str(there))
    assert (made, report) == ([], f"Python of {there}; requirements.txt is not used")
    _, report = submitted(slurm, tmp_path, monkeypatch, "none", python="/opt/conda")
    assert report == "Python of /opt/conda"


def test_a_python_on_shared_storage_must_be_there(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One elsewhere may be a folder of each node's own, which the controller need not have."""
    mount = spec(slurm).storage[0].mount
    with pytest.raises(CorralError, match="Python"):
        submitted(slurm, tmp_path, monkeypatch, python=f"{mount}/ada/venv")


@pytest.mark.parametrize("other", [{"environment": "uv.lock"}, {"container": "ubuntu"}])
def test_a_job_has_one_python(other: dict[str, str]) -> None:
    with pytest.raises(CorralError, match="a job has one Python: give python or a"):
        parse_job({"script": "train.py", "python": "/opt/conda", **other})


def test_names_of_packages_are_compared_as_pip_does() -> None:
    assert packages("Foo_Bar.baz==1\n-r x\n") == {"foo-bar-baz": "1"}
