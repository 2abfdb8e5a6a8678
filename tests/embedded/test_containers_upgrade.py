"""A rolling upgrade of Slurm with Pyxis: nodes get a rebuilt plugin, jobs in containers live on.

Needs what test_containers.py needs, and another Slurm (tests/embedded/newer.py).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.newer import newer_debs
from tests.embedded.test_containers import IMAGE, MAKE, software, srun

from corral import api
from corral.apply.slurm_source import slurm_debs
from corral.events import ignore
from corral.hosts.quote import sh
from corral.prove.context import as_user
from corral.spec.models import ClusterSpec, Slurm, SlurmSource
from corral.state.system.enroot import STAMP

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("CORRAL_TEST_SLOW"), reason="fetches another Slurm: CORRAL_TEST_SLOW=1"
    ),
]
NODES = ("node0", "node1", "node2")
INSIDE = "grep ID= /etc/os-release; while [ ! -e /shared/stop ]; do sleep 0.3; done; echo lived"


def test_the_plugin_follows_slurm_and_containers_live_on(
    fresh_cluster: Callable[[ClusterSpec], Live], tmp_path: Path
) -> None:
    given = software()
    debs = newer_debs(tmp_path)
    live = fresh_cluster(named(f"pyxis-up-{os.getpid()}", software=given))
    made = live.run(live.controller, MAKE, timeout=300)
    assert made.ok, made.tail
    spec = live.spec.model_copy(update={"slurm": Slurm(source=SlurmSource(debs=str(debs)))})
    packages = asyncio.run(slurm_debs(spec, live.facts, ignore))
    assert packages is not None
    old = {node: stamp(live, node) for node in NODES}
    assert not any(str(packages.version) in made_from for made_from in old.values())
    inside = sh(
        "cd /shared && sbatch --parsable -N3 -n3 --mem=300M -t 30 -o /shared/inside.out --wrap {w}",
        w="srun -n3 --mem=100M --container-image="
        f"{IMAGE} --container-mounts=/shared:/shared sh -c '{INSIDE}'",
    )
    job = live.run(live.controller, as_user("corral", inside), timeout=120).stdout.strip()
    began = sh(
        "i=0; until [ $(grep -c ID= /shared/inside.out 2>/dev/null) = 3 ]; do i=$((i + 1)); "
        "[ $i -lt 600 ] || {{ cat /shared/inside.out; exit 1; }}; sleep 0.2; done"
    )
    there = live.run(live.controller, began, timeout=180)
    assert there.ok, there.tail
    assert asyncio.run(api.up(spec))
    new = Live(spec, live.facts)
    for node in NODES:
        assert stamp(new, node) == old[node].replace(old[node].split()[-1], str(packages.version))
    ended = sh(
        "touch /shared/stop; i=0; until sacct -X -n -P -j {job} -o state | grep -qv RUNNING; do "
        "i=$((i + 1)); [ $i -lt 600 ] || exit 1; sleep 0.2; done; "
        "sacct -X -n -P -j {job} -o state; cat /shared/inside.out",
        job=job,
    )
    finished = new.run(new.controller, ended, timeout=180)
    assert finished.ok, finished.tail
    assert finished.stdout.split()[0] == "COMPLETED", finished.stdout
    assert finished.stdout.count("lived") == 3
    done = srun(new, "-N3", "-n3", f"--container-image={IMAGE}", "cat", "/etc/os-release")
    assert done.stdout.splitlines() == ["ID=corral-test-image"] * 3, done.tail
    assert asyncio.run(api.plan(spec)).empty


def stamp(live: Live, node: str) -> str:
    answer = live.run(node, sh("cat {stamp}", stamp=STAMP))
    assert answer.ok, answer.tail
    return answer.stdout.strip()
