"""``down`` gives machines back as they were: compared before and after, on real kernels.

CORRAL_TEST_LAB=NAME uses a lab of two bare machines that stands, and leaves it standing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from corral import api
from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec
from tests.machines.before_after import SNAPSHOT, differences
from tests.machines.lab import Lab, image

OWNERS = r"""
mkdir -p /etc/default
printf 'SLURMD_OPTIONS="-v" # the owner'"'"'s\n' > /etc/default/slurmd
chmod 640 /etc/default/slurmd
echo '10.0.0.5 printer # the owner'"'"'s' >> /etc/hosts
id owner >/dev/null 2>&1 || useradd -m -u 1500 owner
"""
"""What the owner of machine 1 has there before Corral comes."""


@pytest.fixture
def lab() -> Iterator[Lab]:
    reason = image.needs()
    if reason:
        pytest.skip(reason)
    standing = os.environ.get("CORRAL_TEST_LAB", "")
    made = Lab.make(standing or f"back-{os.getpid()}", 2)
    yield made
    if not standing:
        made.remove()
        assert made.left() == []


def spec_of(lab: Lab, nodes: int = 2) -> ClusterSpec:
    ssh = {"user": image.USER, "key": str(image.key())}
    addresses = ",".join(lab.addresses[:nodes])
    names = ",".join(f"n{i}" for i in range(nodes))
    group = {"name": "cpu", "provider": "ssh", "nodes": names, "addresses": addresses, "ssh": ssh}
    return ClusterSpec.model_validate(
        {
            "corral": "v1",
            "name": f"{lab.name}",
            "groups": [group],
            "users": [{"name": "ada", "uid": 2001}],
        }
    )


def test_machines_are_given_back_as_they_were(lab: Lab) -> None:
    spec, (first, second) = spec_of(lab), lab.machines
    second.root(OWNERS)
    before = [machine.root(SNAPSHOT, timeout=120) for machine in lab.machines]
    assert differences(before[0], before[1]), "the machines differ, so the comparison can fail"

    assert asyncio.run(api.up(spec))
    assert asyncio.run(api.plan(spec)).empty
    changed = differences(before[0], first.root(SNAPSHOT, timeout=120))
    for section in ("etc", "packages", "passwd", "units", "hostname", "processes", "listening"):
        assert [line for line in changed if line.startswith(section)], section

    # Not while jobs run.
    job = "cd /tmp && runuser -u ada -- sbatch --parsable -w n1 -o /dev/null --wrap 'sleep 900'"
    number = first.root(job).strip()
    first.root(f"timeout 60 sh -c 'until squeue -h -t R -j {number} | grep -q .; do sleep 1; done'")
    due = asyncio.run(api.due_back(spec))
    assert due.jobs == (f"{number} ada n1",)
    assert {m.node: m.error for m in due.machines} == {"n0": None, "n1": None}
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.down(spec))
    assert caught.value.code is Code.NOT_GOOD
    assert number in caught.value.tail
    assert asyncio.run(api.plan(spec)).empty
    first.root(f"scancel {number}; while squeue -h -j {number} | grep -q .; do sleep 1; done")

    # The owner wrote somewhere meanwhile.
    second.root("echo '10.0.0.6 scanner' >> /etc/hosts; echo '# by hand' >> /etc/default/slurmd")

    # One machine does not answer: the other is not given up, and the same again finishes.
    second.cut_network()
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.down(spec))
    assert "n1" in caught.value.tail
    second.mend_network()
    gone = asyncio.run(api.down(spec))
    assert (
        "n1: kept /etc/default/slurmd.corral-kept: somebody changed /etc/default/slurmd since"
        in gone
    )
    assert any(line.startswith("n0: kept /var/backups/corral-") for line in gone)

    # What the owner wrote is there, the rest is as it was.
    assert "scanner" in second.root("cat /etc/hosts")
    assert "by hand" in second.root("cat /etc/default/slurmd.corral-kept")
    second.root("sed -i /scanner/d /etc/hosts; rm /etc/default/slurmd.corral-kept")
    for machine, was in zip(lab.machines, before, strict=True):
        assert differences(was, machine.root(SNAPSHOT, timeout=120)) == []
        assert machine.root("ls -d /var/lib/corral 2>&1 || :").startswith("ls: cannot access")

    # Nothing is there any more, and that is no error.
    assert all("none" in line for line in asyncio.run(api.down(spec)))
