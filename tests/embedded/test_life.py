"""The life of a cluster on the real thing: nothing to do, drift, stale plans, reboot, down."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest
from tests.embedded.conftest import Live, named, needs
from tests.embedded.traces import containers_of, gateway_of, traces

from corral import api
from corral.errors import Code, CorralError
from corral.events import Event, Kind
from corral.hosts.quote import sh
from corral.plan.model import Plan
from corral.prove.model import Verdict
from corral.spec.impacts import Impact
from corral.spec.models import ClusterSpec, Slurm
from corral.state_dir import cluster_dir


def summaries(plan: Plan) -> list[str]:
    return [c.change.summary for s in plan.stages for c in s.changes]


def test_nothing_to_do_is_an_empty_plan_that_changes_nothing(cluster: Live) -> None:
    mark = "find /etc /var/lib/corral /home /usr /root -xdev -newer /tmp/mark -not -type d"
    for node in cluster.facts:
        cluster.run(node, sh("touch /tmp/mark"))
    began = {
        n: cluster.run(
            n, sh("systemctl show -p ExecMainStartTimestampMonotonic slurmd slurmctld")
        ).stdout
        for n in cluster.facts
    }
    events: list[Event] = []
    plan = asyncio.run(api.plan(cluster.spec))
    assert summaries(plan) == []
    assert plan.empty
    asyncio.run(api.apply(cluster.spec, plan, events.append))
    assert asyncio.run(api.up(cluster.spec, events.append))
    assert not [e for e in events if e.kind is Kind.CHANGE_STARTED]
    for node in cluster.facts:
        assert cluster.run(node, sh("{f}", f=sh(mark))).stdout.strip() == ""
        now = cluster.run(
            node, sh("systemctl show -p ExecMainStartTimestampMonotonic slurmd slurmctld")
        )
        assert now.stdout == began[node]


def test_drift_is_shown_and_fixed(cluster: Live) -> None:
    cluster.run("node1", sh("echo 127.0.1.1 node1 >> /etc/hosts; chmod 777 /var/spool/slurmd"))
    cluster.run(
        "node0", sh("sed -i s/ConstrainDevices=yes/ConstrainDevices=no/ /etc/slurm/cgroup.conf")
    )
    cluster.run("node2", sh("systemctl stop slurmd"))
    plan = asyncio.run(api.plan(cluster.spec))
    by_node = {(c.nodes, c.change.resource) for s in plan.stages for c in s.changes}
    assert (("node1",), "hosts") in by_node
    assert (("node1",), "directory:/var/spool/slurmd") in by_node
    assert (("node0",), "file:/etc/slurm/cgroup.conf") in by_node
    assert (("node2",), "service:slurmd") in by_node
    changed = next(
        c.change for s in plan.stages for c in s.changes if "cgroup.conf" in c.change.resource
    )
    assert "ConstrainDevices=no" in changed.before
    assert "ConstrainDevices=yes" in changed.after
    asyncio.run(api.apply(cluster.spec, plan))
    assert asyncio.run(api.plan(cluster.spec)).empty
    assert "127.0.1.1" not in cluster.run("node1", sh("cat /etc/hosts")).stdout
    answer = cluster.run("node0", sh("timeout 60 srun -N3 -t 1 hostname | wc -l"))
    assert answer.stdout.strip() == "3", answer.tail


def test_a_plan_made_before_the_machines_moved_is_refused(cluster: Live) -> None:
    cluster.run("node1", sh("chmod 700 /var/spool/slurmd"))
    plan = asyncio.run(api.plan(cluster.spec))
    assert summaries(plan) == ["folder /var/spool/slurmd (755 root:root)"]
    cluster.run("node1", sh("chmod 711 /var/spool/slurmd"))
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.apply(cluster.spec, plan))
    assert caught.value.code is Code.STALE_PLAN
    assert cluster.run("node1", sh("stat -c %a /var/spool/slurmd")).stdout.strip() == "711"
    assert asyncio.run(api.up(cluster.spec))


def test_a_plan_of_another_file_is_refused(cluster: Live) -> None:
    plan = asyncio.run(api.plan(cluster.spec))
    other = cluster.spec.model_copy(update={"slurm": Slurm(version=">=24.05")})
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.apply(other, plan))
    assert caught.value.code is Code.STALE_PLAN


def test_a_change_of_the_file_reloads_and_does_not_kill_jobs(cluster: Live) -> None:
    # It is cancelled at the end, and may not end before that, however slow the machine is.
    submit = "cd /tmp && timeout 30 sbatch --parsable -t 60 -o /dev/null --wrap 'sleep 3000'"
    job = cluster.run("node0", sh("runuser -u corral -- sh -c {s}", s=submit)).stdout.strip()
    assert job.isdigit()
    runs = f"until squeue -h -o %T -j {job} | grep -q RUNNING; do sleep 0.2; done"
    assert cluster.run("node0", sh("timeout 60 sh -c {r}", r=runs)).ok
    partition = {"name": "short", "groups": ("cpu",), "max_time": "1:00:00"}
    data = cluster.spec.model_dump()
    data["partitions"] = [*data["partitions"], partition]
    wider = ClusterSpec.model_validate(data)
    plan = asyncio.run(api.plan(wider))
    assert plan.impact is Impact.RELOAD, summaries(plan)
    assert [s for s in summaries(plan) if s.startswith("reload slurmctld")]
    asyncio.run(api.apply(wider, plan))
    try:
        assert asyncio.run(api.plan(wider)).empty
        shown = cluster.run("node0", sh("scontrol show partition short -o")).stdout
        assert "MaxTime=01:00:00" in shown
        state = cluster.run("node0", sh("squeue -h -o %T -j {j}", j=job)).stdout.strip()
        assert state in ("RUNNING", "CONFIGURING")
    finally:
        # A slurmd that reconfigures answers no step that ends: to its end before the next reload.
        gone = f"scancel {job}; while squeue -h -j {job} | grep -q .; do sleep 0.2; done"
        ended = cluster.run("node0", sh("timeout 100 sh -c {g}", g=gone), timeout=120)
        assert asyncio.run(api.up(cluster.spec))
    assert ended.ok, ended.stderr


@pytest.fixture
def small() -> Iterator[Callable[..., ClusterSpec]]:
    """Clusters of one node, removed at the end."""
    reason = needs()
    if reason:
        pytest.skip(reason)
    made: list[ClusterSpec] = []

    def make(name: str, **changes: object) -> ClusterSpec:
        spec = named(f"{name}-{os.getpid()}")
        group = spec.groups[0].model_copy(update={"nodes": "node[0-1]"})
        made.append(spec.model_copy(update={"groups": (group,), **changes}))
        return made[-1]

    yield make
    for spec in made:
        asyncio.run(api.down(spec))


def test_munge_and_no_accounting_and_no_rest(small: Callable[..., ClusterSpec]) -> None:
    spec = small("bare-munge", slurm=Slurm(auth="munge", accounting=False, rest=False))
    assert asyncio.run(api.up(spec))
    live = Live(spec, {})
    shown = live.run("node0", sh("scontrol show config | grep -i ^AuthType; srun -N2 hostname"))
    assert "auth/munge" in shown.stdout
    assert {"node0", "node1"} <= set(shown.stdout.split())
    proof = asyncio.run(api.prove(spec))
    assert [r.check for r in proof.results if r.verdict is Verdict.FAIL] == []
    assert proof.count(Verdict.PASS) >= 12  # accounting and REST are not declared: skipped
    units = live.run("node0", sh("systemctl is-active munge slurmdbd slurmrestd mariadb")).stdout
    assert units.split() == ["active", "inactive", "inactive", "inactive"]


def test_reboot_of_the_host_keeps_jobs_users_and_accounting(
    small: Callable[..., ClusterSpec],
) -> None:
    spec = small("boot")
    assert asyncio.run(api.up(spec))
    live = Live(spec, {})
    run = sh("cd /tmp && runuser -u corral -- timeout 60 srun -J before -t 1 hostname")
    assert live.run("node0", run).ok
    hold = sh("cd /tmp && runuser -u corral -- sbatch --parsable --hold -J waits --wrap hostname")
    job = live.run("node0", hold).stdout.strip()
    live.run("node0", sh("echo kept > /shared/kept; cp /etc/slurm/slurm.key /shared/key"))
    # slurmctld writes its state within seconds, not at once (slurmctld/state_save.c): what a power
    # cut takes before that is Slurm's to lose.
    saved = "until grep -qs waits /var/spool/slurmctld/job_state; do sleep 0.2; done"
    assert live.run("node0", sh("timeout 60 sh -c {s}", s=saved)).ok
    names = [f"corral-{spec.name}-{n}" for n in ("node0", "node1")]
    subprocess.run(["podman", "kill", *names], check=True, capture_output=True)
    plan = asyncio.run(api.plan(spec))
    assert {(m.node, m.action) for m in plan.machines} == {("node0", "start"), ("node1", "start")}
    assert asyncio.run(api.up(spec))
    assert asyncio.run(api.plan(spec)).empty
    past = live.run("node0", sh("sacct -X -n -P -o JobName,State,User --name before -S now-1hour"))
    assert "before|COMPLETED|corral" in past.stdout
    assert live.run("node0", sh("squeue -h -o %j -j {j}", j=job)).stdout.strip() == "waits"
    assert (
        live.run("node1", sh("cat /shared/kept; cmp /shared/key /etc/slurm/slurm.key")).stdout
        == "kept\n"
    )
    assert live.run("node0", sh("scontrol release {j}", j=job)).ok
    assert live.run("node0", run).ok


def test_down_leaves_nothing(small: Callable[..., ClusterSpec]) -> None:
    spec = small("down")
    assert asyncio.run(api.up(spec))
    ids = containers_of(spec.name)
    assert len(ids) == 2
    gateway = gateway_of(ids[0])
    # The folder is in the arguments of each ssh, for its key and its control socket.
    ids.append(str(cluster_dir(spec.name)))
    while_up = traces(spec.name, ids, gateway)
    assert all(while_up.values()), f"each place is really looked at: {while_up}"
    gone = asyncio.run(api.down(spec))
    assert len([g for g in gone if "container" in g]) == 2
    assert not any(traces(spec.name, ids, gateway).values())
    assert asyncio.run(api.down(spec)) == ()
