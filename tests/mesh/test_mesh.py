"""A cluster over a real tailnet: headscale, NAT, a relay, a pod. In order; all share one lab."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from corral import api
from corral.apply.mesh import udp_of
from corral.apply.session import Session
from corral.errors import Code, CorralError
from corral.prove.model import Verdict
from corral.spec.models import ClusterSpec
from tests.mesh.conftest import Mesh

EXAMPLES = Path(__file__).parents[2] / "examples"
# As srun launches ranks without corral run, which wants shared storage for its files.
DDP = """\
export MASTER_ADDR={first} MASTER_PORT=45123 GLOO_SOCKET_IFNAME=tailscale0 USE_LIBUV=0
export OMP_NUM_THREADS=1
timeout 380 srun -N2 -n2 --ntasks-per-node=1 sh -c 'RANK=$SLURM_PROCID LOCAL_RANK=0 WORLD_SIZE=2 \
exec python3 /opt/digits/train_digits.py --epochs 3 --min-accuracy 0.5'"""


def until(
    true: Callable[[], object], seconds: float, what: str, more: Callable[[], object] = str
) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds:.0f} s: {what} {more()}")
        time.sleep(0.5)


def status(spec: ClusterSpec, *, links: bool = False) -> api.MeshStatus:
    return asyncio.run(api.mesh_status(spec, links=links))


def diagnosed(spec: ClusterSpec) -> set[tuple[str, str]]:
    """(failure, node) of all that ``corral doctor`` finds."""
    return {(f.failure.id, n) for f in asyncio.run(api.doctor(spec)).findings for n in f.nodes}


def test_a_first_plan_states_how_each_node_joins_and_nothing_else(mesh: Mesh) -> None:
    # The cluster is up by now; what the first plan reported is in the journal.
    journal = mesh.journal()
    assert "by its own interface (TUN)" in journal
    assert "in user space by TCP only, without /dev/net/tun and CAP_NET_ADMIN" in journal
    assert "a key for this machine alone, good once, for 10 minutes" in journal


def test_udp_is_asked_for_before_a_node_joins(mesh: Mesh) -> None:
    assert "no UDP goes out of it" not in mesh.journal()

    async def asked() -> dict[str, str]:
        async with await Session.open(mesh.spec()) as session:
            return await udp_of(session.spec, session.fleet, {})

    assert asyncio.run(asked()) == {"node0": "yes", "node1": "yes", "node2": "yes"}
    mesh.lab.networks.cut(1, "udp", "dport", "3478")
    try:
        assert asyncio.run(asked()) == {"node0": "yes", "node1": "no", "node2": "no"}
    finally:
        mesh.lab.networks.reconnect(1)


def test_there_is_no_path_but_the_mesh(mesh: Mesh) -> None:
    for address in ("192.168.1.11", mesh.rent.address, mesh.lab.networks.public(1)):
        ssh = f"timeout 5 bash -c ': </dev/tcp/{address}/22'"
        assert mesh.desk.ssh(ssh, check=False) is None, f"node1 answers on {address}"


def test_each_node_had_a_key_of_its_own_that_works_once(mesh: Mesh) -> None:
    keys = mesh.lab.control.keys()
    assert len(keys) >= 3
    assert all(key["used"] and not key.get("reusable") for key in keys)
    assert {tag for key in keys for tag in key["acl_tags"]} == {f"tag:corral-{mesh.lab.name}"}
    for key in keys:
        assert _seconds(key["expiration"]) - _seconds(key["created_at"]) <= 10 * 60 + 5


def test_no_key_is_left_anywhere(mesh: Mesh) -> None:
    assert "hskey" not in mesh.journal()
    for node in mesh.lab.nodes:
        files = node.ssh(
            "grep -rlE 'hskey-auth|tskey' /run /tmp /etc /root /var/lib/corral "
            "/var/log/corral 2>/dev/null",
            check=False,
        )
        assert not files, f"{node.name}: {files}"


def test_a_second_plan_is_empty(mesh: Mesh) -> None:
    assert mesh.plan().empty


def test_slurm_is_proven_over_the_mesh(mesh: Mesh) -> None:
    proof = asyncio.run(api.prove(mesh.spec()))
    bad = {r.check: r.summary for r in proof.results if r.verdict is Verdict.FAIL}
    assert not bad
    assert not {id_ for id_, _ in diagnosed(mesh.spec())} & {"F34", "F100"}
    nodes = mesh.desk.ssh("scontrol show nodes -o") or ""
    assert len(re.findall(r"NodeAddr=100\.64\.0\.\d+ ", nodes)) == 3


def test_the_pod_runs_jobs_without_init_or_rights(mesh: Mesh) -> None:
    assert mesh.pod.ssh("cat /proc/1/comm") == "sshd"
    assert mesh.pod.ssh("test ! -e /dev/net/tun") is not None
    output = mesh.job('timeout 60 srun -w node2 -n1 sh -c "hostname; seq 3"')
    assert output == "node2\n1\n2\n3"
    wrapped = mesh.job(
        'sbatch -W -w node2 -o /tmp/pod.out --wrap "srun hostname" >/dev/null; echo $?'
    )
    assert wrapped == "0"
    assert mesh.pod.ssh("cat /tmp/pod.out") == "node2"


def test_a_job_of_several_nodes_stays_within_an_island(mesh: Mesh) -> None:
    output = mesh.job("timeout 30 srun -N2 --immediate=5 hostname", check=False)
    assert output is None
    why = mesh.job("timeout 30 srun -N2 --immediate=5 hostname; true") or ""
    assert "topology configuration is not available" in why
    features = mesh.desk.ssh("sinfo -h -N -o '%N %f'") or ""
    assert "island-desk" in features
    assert "island-alone-node2,no-cgroups" in features


def test_links_have_a_verdict(mesh: Mesh) -> None:
    # The first packets go over the relay, until a hole is punched.
    mesh.desk.ssh(f"tailscale ping -c 20 {mesh.at('node1')}; true")
    seen = status(mesh.spec(), links=True)
    assert seen.good, seen
    links = {(link.source, link.target): link for link in seen.links}
    machines, pod = links["node0", "node1"], links["node0", "node2"]
    assert machines.path == "direct"
    assert machines.mtu == 1280
    assert machines.mbps > 1
    assert machines.rtt_ms > 0
    assert "TCP only" in pod.verdict
    assert pod.mbps > 1


def test_data_goes_to_nodes_without_shared_storage(mesh: Mesh) -> None:
    text = (EXAMPLES / "train_digits.py").read_text()
    mesh.desk.ssh("mkdir -p '/opt/digits/a b'")
    mesh.desk.ssh(f"cat > /opt/digits/train_digits.py <<'END'\n{text}\nEND\n")
    spec = mesh.spec()
    done = {c.node: c for c in asyncio.run(api.sync_data(spec, "/opt/digits"))}
    assert {n: c.error for n, c in done.items()} == {"node1": None, "node2": None}
    again = asyncio.run(api.sync_data(spec, "/opt/digits"))
    assert [c.files for c in again] == [0, 0]
    for node in (mesh.rent, mesh.pod):
        assert node.ssh("cat /opt/digits/train_digits.py | wc -c") == mesh.desk.ssh(
            "cat /opt/digits/train_digits.py | wc -c"
        )
        assert "corral-sync" not in (node.ssh("cat /root/.ssh/authorized_keys") or "")
    assert mesh.desk.ssh("ls -d /run/corral-sync*", check=False) is None
    with pytest.raises(CorralError) as refused:
        asyncio.run(api.sync_data(spec, "/opt/digits", source="node2"))
    assert refused.value.code is Code.NOT_GOOD


def test_training_runs_across_islands_where_the_file_allows_it(mesh: Mesh) -> None:
    mesh.up(jobs="across-islands")
    output = mesh.job(DDP.format(first=mesh.at("node0")), timeout=400) or ""
    assert "rank 0 of 2 on node0" in output
    assert "rank 1 of 2 on node1" in output
    assert re.search(r"accuracy", output)


def test_training_survives_a_relay_and_the_verdict_names_it(mesh: Mesh) -> None:
    networks = mesh.lab.networks
    networks.cut(0, "udp", "dport", "!=", "3478")
    try:
        mesh.desk.ssh("tailscale debug rebind; true")
        ask = f"tailscale ping -c 1 {mesh.at('node1')}; true"
        until(lambda: "via DERP(lab)" in (mesh.desk.ssh(ask) or ""), 90, "the pair is relayed")
        links = {(x.source, x.target): x for x in status(mesh.spec(), links=True).links}
        link = links["node0", "node1"]
        assert (link.path, link.via) == ("relayed", "lab")
        assert link.verdict.startswith("no: relayed")
        assert {("F33", "node0"), ("F33", "node1")} <= diagnosed(mesh.spec(jobs="across-islands"))
        output = mesh.job(DDP.format(first=mesh.at("node0")), timeout=400) or ""
        assert "rank 1 of 2 on node1" in output
    finally:
        networks.reconnect(0)


def test_new_node_keys_drop_no_job(mesh: Mesh) -> None:
    spec = mesh.spec(jobs="across-islands")
    before = {n["id"]: n["node_key"] for n in mesh.lab.control.nodes()}
    count = "seq 15 | while read -r i; do echo $i; sleep 1; done"
    job = f"timeout 100 srun -w node1 -n1 sh -c '{count}' >/tmp/long.out 2>&1"
    mesh.desk.ssh(f"({job}; echo $? >/tmp/long.rc) >/dev/null 2>&1 &")
    until(lambda: mesh.desk.ssh("grep -x 2 /tmp/long.out", check=False), 60, "the job runs")
    assert set(asyncio.run(api.rotate_mesh(spec))) == {"node0", "node1", "node2"}
    after = {n["id"]: n["node_key"] for n in mesh.lab.control.nodes()}
    assert set(after) == set(before)
    assert all(after[n] != before[n] for n in before)
    until(lambda: mesh.desk.ssh("cat /tmp/long.rc", check=False), 90, "the job ends")
    assert mesh.desk.ssh("cat /tmp/long.rc; tail -n 1 /tmp/long.out") == "0\n15"
    assert mesh.plan(jobs="across-islands").empty


def test_a_key_that_expires_is_found_and_replaced(mesh: Mesh) -> None:
    spec = mesh.spec(jobs="across-islands")
    node = next(n for n in mesh.lab.control.nodes() if n["name"] == "node1")
    mesh.lab.control.do("nodes", "expire", "-i", str(node["id"]))
    until(lambda: not status(spec).good, 60, "the expired key is a finding")
    seen = {n.node: n for n in status(spec).nodes}
    assert "expired" in seen["node1"].problem
    assert not seen["node0"].problem
    assert {n for id_, n in diagnosed(spec) if id_ == "F34"} == {"node1"}
    assert any(
        c.change.resource == "mesh:node1"
        for s in mesh.plan(jobs="across-islands").stages
        for c in s.changes
    )
    mesh.up(jobs="across-islands")
    assert status(spec).good
    assert mesh.job("timeout 60 srun -w node1 -n1 hostname") == "node1"


def test_a_node_that_is_cut_off_comes_back(mesh: Mesh) -> None:
    networks = mesh.lab.networks
    ask = f"timeout 5 tailscale ping -c 1 --timeout 2s {mesh.at('node1')}"
    networks.cut(1)
    try:
        until(lambda: "pong" not in (mesh.desk.ssh(f"{ask}; true") or ""), 60, "node1 is gone")
        output = mesh.job("timeout 40 srun -w node1 -n1 --immediate=5 hostname", check=False)
        assert output is None, "a job ran on a node that is cut off"
        spec = mesh.spec(jobs="across-islands")
        # The control server learns of it when a connection's time is up.
        until(lambda: ("F100", "node1") in diagnosed(spec), 300, "the doctor names node1")
        assert ("F100", "node0") not in diagnosed(spec)
    finally:
        networks.reconnect(1)
    until(lambda: "pong" in (mesh.desk.ssh(f"{ask}; true") or ""), 120, "node1 is back")
    back = "timeout 20 srun -w node1 -n1 --immediate=10 hostname"
    # slurmctld asks a node that did not answer again after a third of SlurmdTimeout (300 s here).
    until(
        lambda: mesh.job(back, check=False) == "node1",
        420,
        "jobs run on node1 again",
        lambda: mesh.desk.ssh("scontrol show node node1; squeue"),
    )
    until(lambda: mesh.plan(jobs="across-islands").empty, 120, "nothing is left to do")


def test_the_policy_gets_what_it_lacks_and_keeps_what_it_has(mesh: Mesh) -> None:
    spec = mesh.spec(jobs="across-islands")
    tag = f"tag:corral-{mesh.lab.name}"
    assert asyncio.run(api.apply_mesh_policy(spec))[0] is False  # no policy: nothing to add to
    file = mesh.lab.folder / "policy.json"
    other = {"action": "accept", "src": ["100.64.0.99"], "dst": ["100.64.0.98:22"]}
    file.write_text(json.dumps({"acls": [other]}))
    mesh.lab.control.do("policy", "set", "-f", str(file))
    ask = f"timeout 4 bash -c ': </dev/tcp/{mesh.at('node1')}/6818'"
    until(lambda: mesh.desk.ssh(ask, check=False) is None, 60, "the policy shuts node1 off")
    changed, outcome = asyncio.run(api.apply_mesh_policy(spec))
    assert changed, outcome
    assert asyncio.run(api.apply_mesh_policy(spec))[0] is False
    policy = mesh.lab.control.do("policy", "get")
    assert tag in policy
    assert "100.64.0.98:22" in policy
    until(lambda: mesh.desk.ssh(ask, check=False) is not None, 60, "node1 is open again")


def test_a_node_that_goes_leaves_the_tailnet(mesh: Mesh) -> None:
    mesh.up(pod=False, jobs="across-islands")
    assert {n["name"] for n in mesh.lab.control.nodes()} == {"node0", "node1"}
    assert mesh.pod.ssh("pgrep -x slurmd", check=False) is None
    assert mesh.pod.ssh("test ! -e /var/lib/tailscale/tailscaled.state") is not None


def test_down_leaves_nothing_in_the_tailnet_or_on_the_nodes(mesh: Mesh) -> None:
    gone = asyncio.run(api.down(mesh.spec(pod=False, jobs="across-islands"), force=True))
    assert {"node0: did left the tailnet", "node1: did left the tailnet"} <= set(gone)
    assert mesh.lab.control.nodes() == []
    for node in (mesh.desk, mesh.rent):
        assert node.ssh("ls /var/lib/corral /usr/local/sbin/tailscaled", check=False) is None
        assert node.ssh("pgrep -x tailscaled", check=False) is None


def _seconds(moment: object) -> float:
    """Headscale's command line gives protobuf times: {seconds, nanos}, or RFC 3339."""
    if isinstance(moment, dict):
        return float(moment["seconds"])
    return (
        datetime.fromisoformat(str(moment)) - datetime.fromisoformat("1970-01-01T00:00:00Z")
    ) / (timedelta(seconds=1))
