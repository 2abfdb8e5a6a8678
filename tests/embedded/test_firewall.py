"""A cluster behind real firewalls, nftables and ufw: only its own ports open, and only to it.

CORRAL_TEST_WALL=NAME uses a running cluster of examples/laptop.yaml with that name.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.embedded.conftest import Live, named

from corral import api
from corral.hosts.quote import Script, join, sh
from corral.prove.model import Verdict
from corral.spec.models import ClusterSpec

pytestmark = pytest.mark.slow

INSTALL = Script("""set -e
export DEBIAN_FRONTEND=noninteractive
get() { apt-get update -q && apt-get install -y -q --no-install-recommends "$@"; }
""")
NFT = join(
    [
        INSTALL,
        Script("""[ -x /usr/sbin/nft ] || get nftables
cat > /etc/nftables.conf <<'X'
flush ruleset
table inet filter {
  chain input {
    type filter hook input priority filter; policy drop;
    ct state established,related accept
    iif "lo" accept
    tcp dport 22 accept
  }
}
X
systemctl enable -q nftables; systemctl restart nftables"""),
    ]
)
UFW = join(
    [
        INSTALL,
        Script("""[ -x /usr/sbin/ufw ] || get ufw iptables
ufw allow 22/tcp; ufw --force enable"""),
    ]
)
WALLS = {"node0": NFT, "node1": UFW, "node2": NFT}


@pytest.fixture(scope="module")
def walled(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    """A cluster that is up, behind firewalls that came on afterwards and know nothing of Slurm."""
    existing = os.environ.get("CORRAL_TEST_WALL", "")
    spec = named(existing or f"wall-{os.getpid()}")
    live = Live(spec, {}) if existing else fresh_cluster(spec)
    for node, script in WALLS.items():
        done = live.run(node, script, timeout=240)
        if not done.ok and "ufw" not in done.stdout and "E: " in done.tail:
            pytest.skip(f"no packages of firewalls are available: {done.tail[-200:]}")
        assert done.ok, done.tail
    return live


def diagnosed(live: Live) -> set[tuple[str, str]]:
    """What the doctor finds: the failure and each node that it names."""
    return {(f.failure.id, n) for f in asyncio.run(api.doctor(live.spec)).findings for n in f.nodes}


def address(live: Live, node: str) -> str:
    return live.run(node, sh("hostname -I")).stdout.split()[0]


def opens(host: str, port: int) -> bool:
    """Whether this machine, which is none of the cluster's, reaches a port."""
    try:
        with socket.create_connection((host, port), 2):
            return True
    except OSError:
        return False


def reaches(live: Live, node: str, host: str, port: int) -> bool:
    return live.run(node, sh("timeout 3 bash -c {s}", s=f": < /dev/tcp/{host}/{port}")).ok


def test_closed_first_and_named(walled: Live) -> None:
    walled.run("node0", sh("systemctl stop corral-firewall; :"))
    for node in ("node1", "node2"):
        walled.run(node, sh("systemctl stop corral-firewall; :"))
    everywhere = {("F18", "node0"), ("F18", "node1"), ("F18", "node2")}
    for _ in range(60):  # ports are tried once Slurm notices: slurmctld calls every 100 s
        failures = diagnosed(walled)
        if everywhere <= failures:
            break
        time.sleep(5)
    assert everywhere <= failures, failures
    assert {f for f, _ in failures} <= {"F18"}


def test_up_opens_what_is_declared_and_no_more(walled: Live) -> None:
    assert asyncio.run(api.up(walled.spec))
    assert asyncio.run(api.plan(walled.spec)).empty
    for node in ("node0", "node1", "node2"):
        # Each as the submit host: its srun listens in SrunPortRange, and all others call it there.
        done = walled.run(node, sh("timeout 60 srun -N3 hostname | sort"), timeout=90)
        assert done.stdout.split() == ["node0", "node1", "node2"], (node, done.tail)
    inner, outer = address(walled, "node1"), address(walled, "node0")
    for node in ("node1", "node2"):
        listen = "timeout 20 python3 -m http.server 8080 >/dev/null 2>&1 & sleep 1"
        walled.run(node, sh("sh -c {s}", s=listen))
        at = address(walled, node)
        assert not reaches(walled, "node0", at, 8080), "nobody declared this port"
        assert reaches(walled, "node0", at, 6818)
        assert not opens(at, 6818), "this machine is none of the cluster's"
        assert opens(at, 22)
    assert not opens(outer, 6817) and not opens(outer, 6819) and inner != outer


def test_sruns_own_ports_are_the_declared_ones(walled: Live) -> None:
    script = sh(
        "srun -w node1 sleep 4 & sleep 2; ss -Hltnp | grep '\"srun\"' | "
        "awk '{{ sub(/.*:/, \"\", $4); print $4 }}'; wait"
    )
    ports = [int(p) for p in walled.run("node2", script, timeout=60).stdout.split()]
    assert ports and all(60001 <= p <= 63000 for p in ports), ports


@dataclass(frozen=True)
class Rule:
    """What somebody else did to a firewall.

    Attributes:
        failure: the failure that the doctor names, "" where only the proof can see it.
        fails: a check of the proof that fails.
        planned: the next apply fixes it.
    """

    node: str
    do: Script
    undo: Script
    failure: str
    fails: str
    planned: bool = False


# New connections alone: the ports are those of outgoing connections too, whose answers must come.
_DROP = "insert rule inet filter input ip saddr != 127.0.0.0/8 ct state new tcp dport"
_BACK = sh("systemctl restart nftables; systemctl restart corral-firewall")
RULES = {
    "all rules flushed by nftables' own restart without us": Rule(
        "node2",
        sh("nft -f /etc/nftables.conf"),
        _BACK,
        "F18",
        "smoke.launch",
        planned=True,
    ),
    "ufw reset by hand": Rule(
        "node1",
        sh("ufw status numbered | grep -c corral; ufw --force reset >/dev/null; ufw allow 22/tcp; "
           "ufw --force enable"),
        sh("systemctl restart corral-firewall"),
        "F18",
        "smoke.launch",
        planned=True,
    ),
    "slurmd's port dropped above ours": Rule(
        "node2",
        sh("nft {rule}", rule=f"{_DROP} 6818 drop".split()),
        _BACK,
        "",
        "smoke.launch",
    ),
    "srun's ports dropped on the submit host": Rule(
        "node0",
        sh("nft {rule}", rule=f"{_DROP} 60001-63000 drop".split()),
        _BACK,
        "",
        "smoke.launch",
    ),
    "ranks cannot call each other": Rule(
        "node2",
        sh("nft {rule}", rule=f"{_DROP} 32768-60000 drop".split()),
        _BACK,
        "",
        "multinode.tcp",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_a_broken_rule_is_named(walled: Live, name: str) -> None:
    rule = RULES[name]
    before = walled.run(rule.node, rule.do)
    assert before.ok, before.tail
    try:
        failures = diagnosed(walled)
        plan = asyncio.run(api.plan(walled.spec))
        proof = asyncio.run(api.prove(walled.spec, only=["smoke", "multinode"]))
        if rule.planned:
            assert asyncio.run(api.up(walled.spec))
    finally:
        walled.run(rule.node, rule.undo)
        walled.run(
            "node0",
            sh(
                "for n in node0 node1 node2; do scontrol update nodename=$n "
                "state=resume 2>/dev/null; done; :"
            ),
        )
        repaired = asyncio.run(api.up(walled.spec))
    failed = {r.check: r for r in proof.results if r.verdict is Verdict.FAIL}
    print(name, sorted(failures), sorted(failed), [r.summary for r in failed.values()])
    if rule.failure:
        assert (rule.failure, rule.node) in failures
    else:  # the doctor tries ports only where Slurm has noticed something already
        assert {failure for failure, _ in failures} <= {"F18"}
    assert rule.fails in failed
    assert "F18" in failed[rule.fails].hint
    assert plan.empty is not rule.planned
    assert repaired
