"""A node's machine is removed and made again, with other memory and other host keys."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.embedded.bare import Bare, container
from tests.embedded.conftest import Live, named

from corral import api
from corral.errors import Code, CorralError
from corral.hosts.quote import sh
from corral.hosts.sshkeys import make_key
from corral.providers.containers import layout
from corral.spec.models import ClusterSpec
from corral.spec.nodes import digest
from corral.state.slurm.members import REPLACED

pytestmark = pytest.mark.slow

REQUEUED_S = 180
"""Slurm holds a requeued job for 121 s (reason BeginTime, 24.11.5): its new credential must be
newer than the revoked one (``cred_expire``, 120 s; job_mgr.c)."""


def sized(spec: ClusterSpec, memory: int) -> ClusterSpec:
    """Two nodes, of which node1 is alone in its group and has this memory."""
    first = spec.groups[0].model_copy(update={"nodes": "node0"})
    last = first.model_copy(update={"name": "big", "nodes": "node1", "memory_mib": memory})
    main = spec.partitions[0].model_copy(update={"groups": (first.name, "big")})
    return spec.model_copy(update={"groups": (first, last), "partitions": (main,)})


def submitted(live: Live, *options: str) -> str:
    words = ["sbatch", "--parsable", "-w", "node1", "-t", "60", "-o", "/dev/null", *options]
    done = live.run(
        "node0",
        sh("cd /tmp && runuser -u corral -- {words} --wrap 'sleep 3000'", words=words),
    )
    assert done.ok, done.tail
    return done.stdout.strip()


def state_of(live: Live, job: str) -> str:
    asked = sh("sacct -X -n -P -D -o State -j {job} | tail -n 1", job=job)
    return live.run("node0", asked).stdout.strip()


def until_running(live: Live, job: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while live.run("node0", sh("squeue -h -o %T -j {j}", j=job)).stdout.strip() != "RUNNING":
        assert time.monotonic() < end
        time.sleep(0.3)


def test_a_container_re_created_with_other_memory(
    fresh_cluster: Callable[[ClusterSpec], Live],
) -> None:
    spec = sized(named(f"replaced-{os.getpid()}"), 900)
    live = fresh_cluster(spec)
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.plan_replacement(spec, "node1"))
    assert caught.value.code is Code.USAGE, "it is there and as declared"
    again = submitted(live, "--requeue", "-n", "1", "--mem=100")
    ends = submitted(live, "--no-requeue", "-n", "1", "--mem=100")
    for job in (again, ends):
        until_running(live, job)
    name = f"corral-{spec.name}-node1"
    subprocess.run(["podman", "rm", "--force", "--time", "0", name], check=True)
    larger = sized(spec.model_copy(update={"groups": spec.groups[:1]}), 1300)
    assert digest(larger) != digest(spec)
    plan = asyncio.run(api.plan_replacement(larger, "node1"))
    assert {job.label for job in plan.jobs} == {again, ends}
    notes: list[str] = []
    done = asyncio.run(api.replace_node(larger, plan, lambda event: notes.append(event.message)))
    assert done.good, done.fault
    seen = {each.what: (each.before, each.after) for each in done.differences}
    less, more = seen["memory of jobs (MiB)"]
    assert int(less) < 900 < int(more)
    shown = live.run("node0", sh("scontrol show node node1 -o; scontrol show reservation")).stdout
    assert f"RealMemory={more} " in shown
    assert "DRAIN" not in shown
    assert "No reservations" in shown
    # It starts on the new machine, and nobody submitted it again.
    until_running(live, again, REQUEUED_S)
    assert state_of(live, ends) == "NODE_FAIL"
    (history,) = asyncio.run(api.node_history(larger, "node1"))
    assert any(outage.reason == REPLACED for outage in history.outages)
    assert not history.causes
    assert asyncio.run(api.plan(larger)).empty
    live.run("node0", sh("scancel {a}", a=again))


def iron(spec: ClusterSpec, address: str, key: Path) -> ClusterSpec:
    """The same with node1 on a machine that the user owns."""
    data = spec.model_dump(mode="json")
    ssh = {"user": "root", "key": str(key)}
    group = {"name": "iron", "provider": "ssh", "nodes": "node1", "addresses": address, "ssh": ssh}
    data["groups"].append(group)
    data["partitions"][0]["groups"].append("iron")
    return ClusterSpec.model_validate(data)


def admit(machine: Bare, public: str) -> str:
    """Let the key in, as root; gives the fingerprint of the machine's own key."""
    admitted = 'mkdir -p -m 700 /root/.ssh && printf "%s\\n" "$1" > /root/.ssh/authorized_keys'
    machine.root(admitted, public)
    return machine.root("ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").split()[1]


def test_another_machine_with_other_host_keys_at_the_same_address(
    fresh_cluster: Callable[[ClusterSpec], Live], tmp_path: Path
) -> None:
    base = named(f"iron-{os.getpid()}", storage=())
    group = base.groups[0].model_copy(update={"nodes": "node0", "gpu": None})
    live = fresh_cluster(base.model_copy(update={"groups": (group,)}))
    public = make_key(tmp_path / "key")
    network = layout.network(live.spec.name)
    with container("old", network) as old:
        spec = iron(live.spec, old.address, tmp_path / "key")
        before = admit(old, public)
        assert asyncio.run(api.up(spec))
        live = Live(spec, {})
        job = submitted(live, "--requeue", "-n", "1", "--mem=100")
        until_running(live, job)
    with container("new", network) as new:
        new.take_address(old.address)
        after = admit(new, public)
        with pytest.raises(CorralError) as caught:
            asyncio.run(api.plan(spec))
        assert caught.value.code is Code.HOST_KEY_CHANGED
        assert "corral nodes replace node1" in caught.value.hint
        plan = asyncio.run(api.plan_replacement(spec, "node1"))
        assert before in plan.known
        assert after in plan.shown
        assert plan.new_key
        assert [each.label for each in plan.jobs] == [job]
        done = asyncio.run(api.replace_node(spec, plan))
        assert done.good, done.fault
        until_running(live, job, REQUEUED_S)
        assert asyncio.run(api.plan(spec)).empty
        again = asyncio.run(api.plan_replacement(spec, "node1"))
        assert not again.new_key
        live.run("node0", sh("scancel {j}; sleep 2", j=job))
        # The machine goes with this test, not by corral down, which would restore it.
        asyncio.run(api.up(live_without(spec)))


def live_without(spec: ClusterSpec) -> ClusterSpec:
    """The cluster without node1, which leaves."""
    main = spec.partitions[0].model_copy(update={"groups": (spec.groups[0].name,)})
    return spec.model_copy(update={"groups": spec.groups[:1], "partitions": (main,)})
