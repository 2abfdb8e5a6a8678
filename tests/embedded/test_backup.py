"""A backup of a real cluster, restored onto new machines: jobs, accounting and keys are there."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.test_doctor import ids, report_of

from corral import api
from corral.api.operations.encryption import encryption_of
from corral.errors import CorralError
from corral.events import Event, Kind
from corral.hosts.quote import sh
from corral.spec.models import ClusterSpec
from corral.spec.sections.backup import ScheduledBackup

pytestmark = pytest.mark.skipif(not shutil.which("age"), reason="age is not installed")
KEYS = ("/etc/slurm/slurm.key", "/var/spool/slurmctld/jwt_hs256.key")


@pytest.fixture
def key(tmp_path: Path) -> tuple[Path, str]:
    """A key of age: private file, public key."""
    return age_key(tmp_path / "key.txt")


def age_key(file: Path) -> tuple[Path, str]:
    subprocess.run(["age-keygen", "-o", file], capture_output=True, check=True)
    public = subprocess.run(["age-keygen", "-y", file], capture_output=True, text=True, check=True)
    return file, public.stdout.strip()


def saved(live: Live, folder: Path, public: str) -> Path:
    path = folder / "lab.tar.zst.age"
    made = asyncio.run(api.backup(live.spec, path, encryption_of([public])))
    assert made.encrypted
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in folder.glob(".*partial")] == []
    return path


def planned(spec: ClusterSpec, path: Path, *identities: Path) -> api.RestorePlan:
    return asyncio.run(api.plan_restore(spec, path, identities=identities))


def ended(live: Live, command: str = "hostname") -> str:
    """Number of a user's job that has ended, and that slurmdbd knows as completed."""
    script = sh(
        "cd /tmp && job=$(runuser -u corral -- sbatch --parsable -W -o /dev/null --wrap {c}) && "
        "echo $job && timeout 60 sh -c {wait} {name} $job",
        c=command,
        wait='until sacct -nXj "$1" -o State | grep -q COMPLETED; do sleep 0.3; done',
        name="sh",
    )
    answer = live.run(live.controller, script, timeout=120)
    assert answer.ok, answer.tail
    return answer.stdout.strip()


def printed(live: Live, command: str) -> str:
    answer = live.run(live.controller, sh("sh -c {c}", c=command))
    assert answer.ok, answer.tail
    return answer.stdout.strip()


def digests(live: Live, path: str) -> set[str]:
    answers = live.with_fleet(lambda fleet: fleet.all(sh("sha256sum < {path}", path=path)))
    return {a.stdout for a in answers.values() if not isinstance(a, CorralError) and a.ok}


ACCOUNTS = "sacctmgr -nP show assoc format=Cluster,Account,User,QOS | sort"


def test_what_cannot_be_restored_is_one_sentence(
    cluster: Live, tmp_path: Path, key: tuple[Path, str]
) -> None:
    private, public = key
    ended(cluster)
    path = saved(cluster, tmp_path, public)
    plan = planned(cluster.spec, path, private)
    assert plan.archive.manifest.highest_job >= 1
    assert plan.keys
    assert any(name.startswith("state/") for name in plan.archive.manifest.members)

    other, _ = age_key(tmp_path / "other.txt")
    cut, changed = tmp_path / "cut", tmp_path / "changed"
    data = path.read_bytes()
    cut.write_bytes(data[: len(data) // 2])
    changed.write_bytes(data[:-100] + b"\0" + data[-99:])
    for file, identity, message in (
        (path, other, "is encrypted for other keys"),
        (cut, private, "damaged"),
        (changed, private, "damaged"),
        (tmp_path / "none", private, "does not exist"),
    ):
        with pytest.raises(CorralError, match=message):
            planned(cluster.spec, file, identity)
    renamed = cluster.spec.model_copy(update={"name": "another"})
    with pytest.raises(CorralError, match=r"is not up|of cluster"):
        planned(renamed, path, private)
    assert printed(cluster, "ls -A /var/lib/corral/restore 2>/dev/null; true") == ""


class Killed:
    """An Emit that ends its process with SIGKILL when a step of the restore begins."""

    def __init__(self, step: str) -> None:
        self._step = step

    def __call__(self, event: Event) -> None:
        note = event.kind is Kind.NOTE and event.message.startswith(self._step)
        if note or (event.kind is Kind.PHASE_STARTED and event.subject == self._step):
            os.kill(os.getpid(), signal.SIGKILL)


def restore_killed(spec: ClusterSpec, path: Path, private: Path, step: str) -> None:
    """Restore in a separate process, which is killed when the step begins."""
    child = os.fork()
    if child == 0:
        try:
            plan = planned(spec, path, private)
            killed = Killed(step)
            asyncio.run(api.restore(spec, path, plan, killed, identities=(private,), force=True))
        except BaseException:  # the child must not go on as a second pytest
            traceback.print_exc()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.slow
def test_made_by_the_controller_itself(
    fresh_cluster: Callable[[ClusterSpec], Live], tmp_path: Path, key: tuple[Path, str]
) -> None:
    private, public = key
    declared = ScheduledBackup(every="1d", to=(public,), folder="/shared/backups", keep=2)
    spec = named(f"backups-{os.getpid()}", backup=declared)
    live = fresh_cluster(spec)
    job = ended(live)
    assert printed(live, "systemctl is-active corral-backup.timer") == "active"
    assert (state := asyncio.run(api.status(spec)).backup) is not None
    assert state.age is None
    assert "F2240" not in ids(report_of(live))
    for _ in range(3):
        printed(live, "systemctl start corral-backup.service; sleep 1.1")
    names = printed(live, "ls /shared/backups").split()
    assert len(names) == 2
    path = tmp_path / names[-1]
    path.write_bytes(base64.b64decode(printed(live, f"base64 /shared/backups/{names[-1]}")))
    plan = planned(spec, path, private)
    assert plan.archive.manifest.highest_job == int(job)
    assert plan.in_place is False
    assert (state := asyncio.run(api.status(spec)).backup) is not None
    assert state.path == f"/shared/backups/{names[-1]}"

    # As after a boot: none before it is due.
    printed(live, "systemctl start corral-backup-due.service")
    assert printed(live, "ls -A /shared/backups").split() == names

    # What cannot be read is a failed unit and a sentence, and older archives stay.
    printed(live, "systemctl stop mariadb")
    assert (
        printed(live, "systemctl start corral-backup.service 2>&1 || echo failed")[-6:] == "failed"
    )
    journal = printed(live, "journalctl -u corral-backup.service -o cat -n 20 --no-pager")
    assert "the archive is incomplete: mariadb" in journal
    assert "no backup was made: reading the cluster ended with status 1" in journal
    assert printed(live, "ls -A /shared/backups").split() == names
    troubles = [t.message for t in asyncio.run(api.status(spec)).troubles]
    assert any(t.startswith("the last run failed, the last good backup is 00:") for t in troubles)
    assert "F2240" in ids(report_of(live))
    printed(live, "systemctl start mariadb && systemctl start corral-backup.service")
    assert "F2240" not in ids(report_of(live))
    printed(live, "sed -i 's/^[0-9]*/1000000000/' /var/lib/corral/backup/last")
    (trouble,) = asyncio.run(api.status(spec)).troubles
    assert "one is to be made every 1-00:00:00" in trouble.message
    assert "F2240" in ids(report_of(live))
    before = printed(live, "ls -A /shared/backups").split()
    printed(live, "systemctl start corral-backup-due.service")
    done = "until ls /shared/backups | grep -qvxF -f /tmp/before; do sleep 0.3; done"
    printed(live, f"printf '%s\\n' {' '.join(before)} >/tmp/before; timeout 60 sh -c '{done}'")

    off = spec.model_copy(update={"backup": ScheduledBackup()})
    asyncio.run(api.up(off))
    assert printed(live, "systemctl is-enabled corral-backup.timer 2>&1; true") == "not-found"
    assert printed(live, "ls /usr/local/sbin/corral-backup 2>/dev/null; true") == ""
    assert len(printed(live, "ls /shared/backups").split()) == 2


@pytest.mark.slow
def test_onto_new_machines(
    fresh_cluster: Callable[[ClusterSpec], Live], tmp_path: Path, key: tuple[Path, str]
) -> None:
    private, public = key
    spec = named(f"backup-{os.getpid()}")
    live = fresh_cluster(spec)
    jobs = [ended(live) for _ in range(3)]
    held = printed(
        live,
        "cd /tmp && runuser -u corral -- sbatch --parsable -H -o /dev/null "
        "--wrap 'echo it ran >/tmp/held-job'",
    )
    printed(live, "sacctmgr -i add account extra && sacctmgr -i add user corral account=extra")
    accounts, next_job = printed(live, ACCOUNTS), int(held) + 1
    keys = {path: digests(live, path) for path in KEYS}
    path = saved(live, tmp_path, public)

    asyncio.run(api.down(spec))
    asyncio.run(api.up(spec))
    assert printed(live, "sacct -anX -o JobID") == ""
    assert digests(live, KEYS[0]).isdisjoint(keys[KEYS[0]])
    lost = ended(live)  # a job of the new machines, which goes
    assert lost == "1"
    waits = printed(live, "cd /tmp && runuser -u corral -- sbatch --parsable -H --wrap hostname")
    plan = planned(spec, path, private)
    assert [job.split()[0] for job in plan.jobs] == [waits]
    with pytest.raises(CorralError, match="1 job would be lost"):
        asyncio.run(api.restore(spec, path, plan, identities=(private,)))

    for step in ("loading", "replacing", "starting"):
        restore_killed(spec, path, private, step)
    assert planned(spec, path, private).jobs == ()  # slurmctld is stopped
    restore_killed(spec, path, private, "probe")  # nodes have not got the keys
    plan = planned(spec, path, private)
    assert plan.in_place
    assert plan.jobs == ()  # those that are there are the restored ones
    restored = asyncio.run(api.restore(spec, path, plan, identities=(private,)))

    assert restored.next_job == next_job
    assert printed(live, "squeue -h -o '%A %T'") == f"{held} PENDING"
    known = printed(live, "sacct -anX -S 2020-01-01 -o JobID,State").split()
    assert [known[known.index(job) + 1] for job in jobs] == ["COMPLETED"] * 3
    assert printed(live, ACCOUNTS) == accounts
    assert {path: digests(live, path) for path in KEYS} == keys
    assert asyncio.run(api.plan(spec)).empty
    assert int(ended(live)) == next_job
    printed(live, f"scontrol release {held}")
    done = f"until sacct -nXj {held} -o State | grep -q COMPLETED; do sleep 0.3; done"
    printed(live, f"timeout 50 sh -c '{done}'")
    assert printed(live, "srun -N3 hostname | sort | tr '\\n' ' '") == "node0 node1 node2"
    assert printed(live, "ls -A /var/lib/corral/restore 2>/dev/null; true") == ""
    assert "before-restore" in printed(live, "ls /var/lib/corral/backup")
