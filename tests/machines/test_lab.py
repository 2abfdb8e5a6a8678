"""From three bare machines to a proven cluster over SSH, and what a second time changes."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable

import pytest

from corral import api
from corral.hosts.quote import sh
from corral.prove.model import Verdict
from tests.embedded.conftest import Live
from tests.embedded.test_benchmarks import printed
from tests.embedded.test_prove import proof_of
from tests.machines.before_after import sections
from tests.machines.conftest import bring_up, spec_of
from tests.machines.lab import Lab

# By status: asked for by name, dpkg lists packages too that others merely mention.
NOT_BARE = (
    "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' 'slurm*' 'mariadb*' 'munge' 'chrony' "
    "'python3' 2>/dev/null | sed -n 's/^i. *//p'"
)


@pytest.mark.slow
def test_a_new_machine_is_bare(fresh_lab: Callable[..., Lab]) -> None:
    """Nothing but Debian, sshd and a user with a key: else ``up`` would prove less than it claims.

    And what it wrote before its power was cut is there again.
    """
    lab = fresh_lab(f"bare-{os.getpid()}", 1)
    machine = lab.machines[0]
    assert machine.root(NOT_BARE, check=False).split() == []
    assert machine.root("cat /etc/hostname; ls /var/lib/apt/lists").split() == ["debian"]
    assert machine.root("stat -fc %T /sys/fs/cgroup").strip() == "cgroup2fs"
    assert machine.ssh("true", user="root", check=False).returncode != 0
    machine.root("echo kept > /root/mark && sync")
    machine.power_cut()
    assert not machine.answers()
    machine.on()
    lab.wait()
    assert machine.root("cat /root/mark").strip() == "kept"
    lab.remove()
    assert lab.left() == []


def test_the_machines_were_bare(machines: Lab) -> None:
    """Before ``up`` they held nothing that it brings: else it would prove less than it claims."""
    for machine in machines.machines:
        was = sections((machines.folder / f"before{machine.index}").read_text())
        names = {line.split()[1].partition(":")[0] for line in was["packages"]}
        assert "openssh-server" in names
        assert not [n for n in names if re.match(r"slurm|mariadb|munge$|chrony$|python3$", n)]
        assert not [line for line in was["listening"] if not line.endswith(":22")]


def test_up_from_bare_is_proven(lab: Live) -> None:
    proof = proof_of(lab)
    seen = {r.check: (r.verdict, r.summary) for r in proof.results}
    assert proof.good, seen
    assert seen["smoke.launch"][0] is Verdict.PASS


def test_cgroup_v2_fences_the_jobs(lab: Live) -> None:
    """On its own kernel, a job that takes more memory than it asked for dies."""
    assert {f.cgroup for f in lab.facts.values()} == {"v2"}
    eat = "head -c 200000000 /dev/zero | tail >/dev/null"
    fits = sh("timeout 100 srun -t 1 --mem=400M -w node1 sh -c {eat}", eat=eat)
    over = sh("timeout 100 srun -t 1 --mem=50M -w node1 sh -c {eat}", eat=eat)
    assert lab.run("node0", fits, timeout=120).status == 0
    assert lab.run("node0", over, timeout=120).status != 0


def test_a_second_apply_is_empty_and_changes_nothing(lab: Live) -> None:
    mark = sh("touch /run/mark; sync")
    for node in lab.facts:
        lab.run(node, mark)
    plan = asyncio.run(api.plan(lab.spec))
    assert plan.empty, [c.change.summary for s in plan.stages for c in s.changes]
    assert asyncio.run(api.up(lab.spec)) in (True, False)
    for node in lab.facts:
        newer = lab.run(node, sh("find /etc /usr /root -xdev -newer /run/mark -not -type d"))
        assert newer.stdout.split() == []


def test_it_measures_a_plan(lab: Live, machines: Lab) -> None:
    """benchmarks.bare_metal of machines that are up; test_benchmarks makes one from bare."""
    words = ("--file", str(machines.folder / "lab.yaml"), "--machines", str(len(lab.facts)))
    assert "plan, nothing to do" in printed("bare_metal", *words)


def test_own_names_are_never_on_loopback(lab: Live) -> None:
    """Debian's installer writes 127.0.1.1 for the own name: slurmctld would answer there."""
    for node in lab.facts:
        resolved = lab.run(node, sh("hostname; getent ahostsv4 {node}", node=node)).stdout
        assert resolved.split()[0] == node
        assert " 127." not in f" {resolved}", resolved


@pytest.mark.slow
def test_debian_testing_with_slurm_26_is_proven(fresh_lab: Callable[..., Lab]) -> None:
    bare = fresh_lab(f"forky-{os.getpid()}", 2, "forky")
    cluster = bring_up(spec_of(bare))
    assert {f.slurm.split(".")[0] for f in cluster.facts.values()} == {"26"}
    assert {f.cgroup for f in cluster.facts.values()} == {"v2"}
    proof = proof_of(cluster)
    assert proof.good, {r.check: (r.verdict, r.summary) for r in proof.results}
