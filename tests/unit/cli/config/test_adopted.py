"""lint --existing and init --existing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from corral.plan.model import Plan
from corral.spec.load import load
from corral.spec.models import ClusterSpec
from tests.unit.cli.conftest import Run, stdout_json

SEED = Path(__file__).parents[3] / "golden" / "adopt" / "004"
FACTS = [f"--facts=node{i}=facts/node{i}.json" for i in range(3)]


@pytest.fixture
def lab(home: Path) -> Path:
    """The seed's files in the working folder."""
    shutil.copytree(SEED, home, dirs_exist_ok=True)
    return home


def test_everything_that_is_wrong(corral: Run, lab: Path) -> None:
    result = corral("lint", "--existing", "slurm.conf", "gres.conf", "--version", "23.11", *FACTS)
    assert result.exit_code == 2
    assert "slurm.conf:13:20: error [cpus-wrong]: 64 CPUs are declared" in result.stdout
    assert not list(lab.glob("*.corrected"))


def test_corrected_copies(corral: Run, lab: Path) -> None:
    before = {file.name: file.read_bytes() for file in lab.iterdir() if file.is_file()}
    result = corral("lint", "--existing", ".", *FACTS, "--fix", "-o", "new")
    assert result.exit_code == 2  # what only people can fix is left
    assert "+SlurmctldHost=node0" in result.stdout
    assert {file.name for file in (lab / "new").iterdir()} == {
        *("slurm.conf", "cgroup.conf", "hosts", "setup.sh"),
    }
    assert {f.name: f.read_bytes() for f in lab.iterdir() if f.is_file()} == before
    files = ["new/slurm.conf", "new/cgroup.conf", "new/hosts", "gres.conf"]
    assert corral("lint", "--existing", *files, *FACTS).exit_code == 0
    again = corral("lint", "--existing", ".", *FACTS, "--fix", "-o", "new")
    assert again.exit_code == 2 and "is there already" in again.stderr


def test_json_and_secrets(corral: Run, lab: Path) -> None:
    (lab / "slurmdbd.conf").write_text(
        "# the database\nStoragePass=hushhush\nDbdHost=node0\nSlurmUser=boss\n"
    )
    (lab / "slurmdbd.conf").chmod(0o644)
    result = corral("lint", "--existing", ".", "--json", "--fix", "-o", "new")
    data = stdout_json(result)
    assert "hush" not in result.stdout + result.stderr
    rules = {finding["rule"]: finding for finding in data["findings"]}
    assert rules["slurmdbd-password"]["line"] == 2
    assert "StoragePass=hushhush" in (lab / "new/slurmdbd.conf").read_text()
    assert (lab / "new/slurmdbd.conf").stat().st_mode & 0o777 == 0o600
    assert data["written"] and not data["good"]


def test_what_is_refused(corral: Run, lab: Path) -> None:
    for words, reason in (
        (["--existing", "none.conf"], "none.conf does not exist"),
        (["--existing", "facts"], "none of these is a file of Slurm's"),
        (["slurm.conf", "--fix"], "need --existing"),
        (["--existing", "slurm.conf", "-o", "x"], "--output needs --fix"),
        (["--existing", "slurm.conf", "--facts", "x"], "--facts NODE=FILE"),
        (["--existing", "slurm.conf", "--facts", "x=gone"], "gone does not exist"),
        (["--existing", "slurm.conf", "--version", "new"], "no Slurm version"),
    ):
        result = corral("lint", *words)
        assert result.exit_code in (2, 3) and reason in result.stderr, words


def test_a_dash_is_standard_output(corral: Run, lab: Path) -> None:
    """``-o -``: the text and nothing else, and no file of that name."""
    direct = corral("init", "--existing", ".")
    for words in (["init", "--existing", "."], ["init", "laptop"], ["init", "--schema"]):
        result = corral(*words, "-o", "-")
        assert result.exit_code == 0
        assert result.stdout == corral(*words).stdout
    assert "Made by corral init" in direct.stdout
    for words in (
        ["lint", "--existing", ".", "--fix", "-o", "-"],
        ["export", "gcluster", "lab.yaml", "-o", "-"],
        ["export", "ansible", "lab.yaml", "-o", "-"],
    ):
        (lab / "lab.yaml").write_text(direct.stdout)
        result = corral(*words)
        assert result.exit_code == 2 and not result.stdout
        assert "- is standard output" in result.stderr, words
    assert not (lab / "-").exists()


def test_a_plan_on_standard_output(corral: Run, lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def planned(spec: ClusterSpec, emit: object = None, **_: object) -> Plan:
        return Plan(spec.name, "a", "b", stages=())

    monkeypatch.setattr("corral.api.plan", planned)
    corral("init", "--existing", ".", "-o", "lab.yaml")
    result = corral("plan", "lab.yaml", "--out", "-")
    assert json.loads(result.stdout)["cluster"] == "cluster"
    assert not (lab / "-").exists()


def test_a_template_is_no_cluster(corral: Run, lab: Path) -> None:
    (lab / "slurm.conf").write_text("ClusterName={name}\nNodeName=n1 CPUs=1\n")
    result = corral("init", "--existing", ".")
    assert result.exit_code == 2 and "is a template" in result.stderr and "{name}" in result.stderr


def test_a_cluster_file_from_what_is_there(corral: Run, lab: Path) -> None:
    result = corral("init", "--existing", ".", "-o", "lab.yaml")
    assert result.exit_code == 0
    loaded = load(lab / "lab.yaml")
    assert loaded.findings == () and loaded.spec is not None
    assert loaded.spec.groups[0].gpu is None  # gres.conf has no NodeName: it may be one machine's
    assert loaded.spec.groups[0].addresses == "192.168.1.[10-12]"
    assert (
        "TaskPlugin=task/none: Corral writes task/affinity,task/cgroup"
        in (lab / "lab.yaml").read_text()
    )
