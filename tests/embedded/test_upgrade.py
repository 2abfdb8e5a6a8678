"""A rolling upgrade over two real versions of Slurm, with a job on all nodes running through it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.embedded.busy import BusyJob
from tests.embedded.conftest import Live, named
from tests.embedded.newer import newer_debs

from corral import api
from corral.apply.slurm_source import slurm_debs
from corral.errors import CorralError
from corral.events import ignore
from corral.hosts.quote import sh
from corral.spec.models import ClusterSpec, Slurm, SlurmSource

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("CORRAL_TEST_SLOW"), reason="fetches another Slurm: CORRAL_TEST_SLOW=1"
    ),
]


def upgraded(live: Live, debs: Path) -> ClusterSpec:
    source = SlurmSource(debs=str(debs))
    return live.spec.model_copy(update={"slurm": Slurm(source=source)})


@pytest.fixture(scope="module")
def live(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    return fresh_cluster(named(f"upgrade-{os.getpid()}"))


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return newer_debs(tmp_path_factory.mktemp("newer"))


def test_a_job_runs_through_the_upgrade(live: Live, debs: Path) -> None:
    was = {n: f.slurm for n, f in live.facts.items()}
    spec = upgraded(live, debs)
    packages = asyncio.run(slurm_debs(spec, live.facts, ignore))
    assert packages is not None and str(packages.version) not in was.values()
    job = BusyJob(live)
    assert asyncio.run(api.up(spec))
    job.more()
    ended = job.end()
    print(f"{was} to {packages.version}: {ended.ran} steps ran, {ended.failed} failed")
    # The step that was there before lives in its old slurmstepd. A step whose srun began before the
    # packages came, and went on after, may fail: it loads plugins of the other version.
    assert (ended.state, ended.lived) == ("COMPLETED", 3), ended.output
    assert ended.failed <= 2, ended.output
    new = Live(spec, live.facts)
    versions = new.run(live.controller, sh("sinfo -h -N -o '%v %T' | sort -u; sacctmgr -V"))
    assert versions.stdout.splitlines()[0].split()[0] == str(packages.version), versions.stdout
    assert len({line.split()[0] for line in versions.stdout.splitlines()[:-1]}) == 1
    assert asyncio.run(api.plan(spec)).empty
    kept = new.run(live.controller, sh("sacct -X -n -P -j {job} -o state,nnodes", job=job.job))
    assert kept.stdout.strip() == "COMPLETED|3"


def test_the_copies_can_be_read(live: Live, debs: Path) -> None:
    folder = "/var/lib/corral/backup/slurm-*-to-*"
    script = sh(
        "cd {f} && stat -c '%a %U' . accounting.sql.gz && zcat accounting.sql.gz | tail -n 1 && "
        "ls state/job_state etc/slurm.conf",
        f=sh(folder),  # type: ignore[arg-type]
    )
    answer = Live(upgraded(live, debs), {}).run(live.controller, script)
    lines = answer.stdout.splitlines()
    assert lines[:2] == ["700 root", "600 root"], answer.tail
    assert "Dump completed" in lines[2]


def test_there_is_no_way_back(live: Live, debs: Path, tmp_path: Path) -> None:
    for path in debs.glob("*.deb"):
        name, version, rest = path.name.split("_")
        version = "24.11.5-4" if version.startswith("26.05") else version
        (tmp_path / f"{name}_{version}_{rest}").write_bytes(path.read_bytes())
    with pytest.raises(CorralError, match="downgrade"):
        asyncio.run(api.plan(upgraded(live, tmp_path)))
