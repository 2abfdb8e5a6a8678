"""The controller moved to another machine by a backup: jobs, accounting, users, MLflow."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.test_backup import ACCOUNTS, digests, ended, printed
from tests.embedded.test_mlflow import ASK

from corral import api
from corral.api.operations.encryption import encryption_of
from corral.errors import Code, CorralError
from corral.hosts.quote import sh
from corral.jobs.follow import as_user
from corral.roles.services.mlflow import PORT, PROGRAM
from corral.spec.models import ClusterSpec
from corral.spec.sections.people import Account, Limits, User
from corral.spec.sections.services import Services

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("gpg"), reason="gpg is not installed"),
]
KEY = "/etc/slurm/slurm.key"
USERS = (
    User(name="corral", uid=2000),
    User(name="alice", uid=2001, account="vision", limits=Limits(gpus=1)),
)
LOGGED = """\
import mlflow, sys
mlflow.set_tracking_uri(sys.argv[1])
with mlflow.start_run() as run:
    mlflow.log_metric("loss", 0.5)
    mlflow.log_text("weights", "model.txt")
print("run", run.info.run_id)
"""
READ = """\
import mlflow, sys
mlflow.set_tracking_uri(sys.argv[1])
print(mlflow.artifacts.load_text(f"runs:/{sys.argv[2]}/model.txt"))
"""


@pytest.fixture
def recipient(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A key in a keyring; the socket of gpg's agent wants a short path."""
    folder = tempfile.mkdtemp(prefix="g", dir="/tmp")
    monkeypatch.setenv("GNUPGHOME", folder)
    make = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", "admin@lab"]
    subprocess.run([*make, "default", "default", "never"], check=True, capture_output=True)
    yield "admin@lab"
    subprocess.run(["gpgconf", "--kill", "all"], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def python(live: Live, program: str, *words: str) -> str:
    """What a program of MLflow's client prints, as a user of the controller."""
    uri = f"http://{live.controller}:{PORT}"
    argv = [f"{PROGRAM}/bin/python", "-W", "ignore", "-c", program, uri, *words]
    script = as_user("corral", sh("cd /tmp; HOME=/tmp {argv}", argv=argv))
    done = live.run(live.controller, script, timeout=180)
    assert done.ok, done.tail
    return done.stdout


def loss(live: Live, run: str) -> float:
    uri = f"http://{live.controller}:{PORT}"
    words = [uri, f"/api/2.0/mlflow/runs/get?run_id={run}"]
    done = live.run(live.controller, sh("python3 -c {p} {w}", p=ASK, w=words))
    assert done.ok, done.tail
    return json.loads(done.stdout)["run"]["data"]["metrics"][0]["value"]


def brought_up(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    spec = named(
        f"moved-{os.getpid()}",
        controller="node0",
        users=USERS,
        accounts=(Account(name="vision", fair_share=5),),
        services=Services(mlflow=True),
    )
    try:
        return fresh_cluster(spec)
    except CorralError as error:
        if error.command == "pip download":
            pytest.skip(f"no package index: {error}")
        raise


def test_the_controller_moved_to_another_machine(
    fresh_cluster: Callable[[ClusterSpec], Live], tmp_path: Path, recipient: str
) -> None:
    old = brought_up(fresh_cluster)
    jobs = [ended(old) for _ in range(2)]
    submit = "cd /tmp && runuser -u alice -- sbatch --parsable -H -n1 --mem=50 -o /dev/null"
    held = printed(old, f"{submit} --wrap hostname")
    printed(old, "sacctmgr -i add account extra && sacctmgr -i add user corral account=extra")
    accounts, keys = printed(old, ACCOUNTS), digests(old, KEY)
    (run,) = [
        line.split()[1] for line in python(old, LOGGED).splitlines() if line.startswith("run ")
    ]
    path = tmp_path / "lab.tar.zst.gpg"
    made = asyncio.run(api.backup(old.spec, path, encryption_of(gpg=[recipient]), artifacts=True))
    assert made.encrypted

    moved = Live(old.spec.model_copy(update={"controller": "node1"}), old.facts)
    with pytest.raises(CorralError) as refused:
        asyncio.run(api.plan(moved.spec))
    assert refused.value.code is Code.NOT_GOOD
    asyncio.run(api.down(old.spec))
    asyncio.run(api.up(moved.spec))
    assert printed(moved, "hostname -s") == "node1"
    printed(moved, "rm -rf /shared/corral/mlflow/*")
    plan = asyncio.run(api.plan_restore(moved.spec, path))
    assert plan.jobs == ()
    restored = asyncio.run(api.restore(moved.spec, path, plan))

    assert restored.next_job == int(held) + 1
    assert asyncio.run(api.plan(moved.spec)).empty
    assert digests(moved, KEY) == keys
    assert printed(moved, ACCOUNTS) == accounts
    known = printed(moved, "sacct -anX -S 2020-01-01 -o JobID,State,User").split()
    assert [known[known.index(job) + 1] for job in jobs] == ["COMPLETED"] * 2
    assert printed(moved, "squeue -h -o '%A %u %T'") == f"{held} alice PENDING"
    printed(moved, f"scontrol release {held}")
    done = f"until sacct -nXj {held} -o State | grep -q COMPLETED; do sleep 0.3; done"
    printed(moved, f"timeout 50 sh -c '{done}'")
    assert int(ended(moved)) == restored.next_job
    assert printed(moved, "srun -N3 hostname | sort | tr '\\n' ' '") == "node0 node1 node2"
    assert loss(moved, run) == 0.5
    assert "weights" in python(moved, READ, run).splitlines()
    old_services = sh("systemctl is-active slurmctld slurmdbd mariadb corral-mlflow")
    assert "active" not in moved.run("node0", old_services).stdout.split()
