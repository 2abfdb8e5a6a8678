"""Jobs and programs that fail for real, and what the doctor reports of what they printed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from corral import api
from corral.hosts.quote import Script, sh
from corral.prove.context import as_user

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

RANKS = (Path(__file__).parent / "programs" / "ranks.py").read_text()


@dataclass(frozen=True)
class Case:
    """A job that fails.

    Attributes:
        id: the failure that must be named first.
        script: the job, as a user on the controller.
        also: failures that are true as well.
    """

    id: str
    script: Script
    also: frozenset[str] = frozenset()


def ranks(*words: str, **environment: str) -> Script:
    """Two ranks of gloo on node0 and node1, with something wrong about them."""
    # Slurm waits with a step's end for all its ranks unless set otherwise.
    return sh(
        "timeout 150 srun -Q -p main -t 4 -w node[0-1] -N2 -n2 --mem=900M --kill-on-bad-exit=1"
        " --export=ALL,USE_LIBUV=0,OMP_NUM_THREADS=1,MASTER_PORT=29531,{environment}"
        " python3 -c {program} {words}",
        environment=",".join(f"{k}={v}" for k, v in environment.items()),
        program=RANKS,
        words=list(words),
    )


def got(package: str) -> Script:
    """A package's file out of the node's archive, whose lists may be gone."""
    return sh(
        "{{ apt-get download -q {p} || {{ apt-get update -q && apt-get download -q {p}; }}; }}"
        " >/dev/null 2>&1",
        p=package,
    )


CASES: dict[str, Case] = {
    "torchrun with a store that Debian's PyTorch lacks": Case(
        "F62",
        sh(
            # USE_LIBUV=0 was thought to help: torchrun's agents do not look at it.
            "srun -Q -p main -t 2 --mem=600M -n1 timeout 90 env USE_LIBUV=0"
            " python3 -m torch.distributed.run"
            " --nnodes=1 --nproc-per-node=1 --rdzv-backend=c10d"
            " --rdzv-endpoint=127.0.0.1:29513 --no-python true"
        ),
    ),
    "rank 0 is sought on another node": Case("F30", ranks(MASTER_ADDR="node2")),
    "rank 0 is sought on each rank's own machine": Case("F30", ranks(MASTER_ADDR="127.0.0.1")),
    "gloo over loopback between two nodes": Case(
        "F26", ranks(MASTER_ADDR="node0", GLOO_SOCKET_IFNAME="lo")
    ),
    "an interface that is not there": Case(
        "F26", ranks(MASTER_ADDR="node0", GLOO_SOCKET_IFNAME="eth7")
    ),
    "one rank hangs": Case("F88", ranks("hang", MASTER_ADDR="node0")),
    "more memory than asked for": Case(
        "F90",
        sh("srun -Q -p main -t 2 --mem=60M perl -e '$x = \"a\" x (400 << 20); print length $x'"),
    ),
    "more than any node has": Case("F92", sh("srun -Q -p main -t 2 -N99 true")),
    "more time than asked for": Case("F91", sh("srun -Q -p main -t 0:01 -n1 sleep 300")),
    "an automatic requeue without scontrol": Case(
        "F43",
        sh(
            "srun -Q -p main -t 2 -n1 env PATH=/nonexistent /usr/bin/python3 -c "
            "\"import subprocess; subprocess.check_call(['scontrol', 'requeue', '1'])\""
        ),
    ),
    # A limit of a namespace counts for those within it: the machine's own stays as it is.
    "no user namespaces are left": Case(
        "F20",
        sh(
            "srun -Q -p main -t 2 -n1 unshare -Ur sh -c"
            " 'echo 0 >/proc/sys/user/max_user_namespaces && unshare -Ur true'"
        ),
    ),
}


PROFILE = """\
abi <abi/4.0>,
profile enroot /usr/bin/enroot-nsenter flags=(unconfined) {
  userns,
}
"""

PROGRAMS: dict[str, Case] = {
    # The node's own archive, that may be one second old at most.
    "apt on an archive that has run out": Case(
        "F58",
        sh(
            "d=$(mktemp -d) && chmod 755 $d && mkdir -p $d/lists/partial $d/cache;"
            " timeout 200 apt-get update -q -o Acquire::Check-Date=true"
            " -o Acquire::Check-Valid-Until=true -o Acquire::Max-ValidTime=1"
            " -o Dir::State::lists=$d/lists -o Dir::Cache=$d/cache; r=$?; rm -rf $d; exit $r"
        ),
    ),
    "/etc/hosts replaced where it is a mount": Case(
        "F65",
        sh(
            "unshare -m sh -c 'mount --bind /etc/hosts /etc/hosts && cp /etc/hosts /etc/hosts.new;"
            " mv /etc/hosts.new /etc/hosts'; r=$?; rm -f /etc/hosts.new; exit $r"
        ),
    ),
    "no TUN device and no right to make one": Case(
        "F32",
        sh(
            "unshare -m sh -c 'mkdir -p /dev/net && mount -t tmpfs none /dev/net &&"
            " setpriv --bounding-set=-mknod,-net_admin,-sys_admin"
            " --inh-caps=-mknod,-net_admin,-sys_admin mknod /dev/net/tun c 10 200'"
        ),
    ),
    # Unpacked into its own tree.
    "the other program that is called slurm": Case(
        "F61",
        sh(
            "set -e; d=$(mktemp -d); trap 'rm -rf $d' EXIT; cd $d;"
            " {got}; mkdir -p r/var/lib/dpkg/info r/var/lib/dpkg/updates; : >r/var/lib/dpkg/status;"
            " dpkg --root=$d/r --force-depends --unpack slurm_*.deb; exit 1",
            got=got("slurm"),
        ),
    ),
    # AppArmor's own parser in a tree that lacks abi/4.0, as Ubuntu 22.04's does.
    "enroot's AppArmor profile on an older system": Case(
        "F42",
        sh(
            "set -e; d=$(mktemp -d); trap 'rm -rf $d' EXIT; chmod 755 $d; cd $d;"
            " {got}; dpkg-deb -x apparmor_*.deb t;"
            " printf %s {profile} >enroot; p=$(find t -name apparmor_parser -type f);"
            ' "$p" -b t/etc/apparmor.d -Q -K -S enroot >/dev/null 2>&1;'
            " rm t/etc/apparmor.d/abi/4.0;"
            ' "$p" -b t/etc/apparmor.d -Q -K -S enroot >/dev/null',
            profile=PROFILE,
            got=got("apparmor"),
        ),
    ),
}
"""As root on the controller."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_job_that_fails_is_explained(name: str, cluster: Live) -> None:
    explained(CASES[name], cluster, as_user("corral", CASES[name].script))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_fails_is_explained(name: str, cluster: Live) -> None:
    explained(PROGRAMS[name], cluster, PROGRAMS[name].script)


def explained(case: Case, cluster: Live, script: Script) -> None:
    """It fails, and what it printed names the cause first and nothing that is not so."""
    done = cluster.run(cluster.controller, script, timeout=240)
    assert not done.ok
    report = api.doctor_log(f"{done.stdout}\n{done.stderr}")
    failures = [f.failure.id for f in report.findings]
    assert failures[:1] == [case.id], done.tail
    assert set(failures) <= {case.id} | case.also, done.tail
    assert report.findings[0].failure.fix


@pytest.mark.slow
def test_the_same_ranks_succeed_where_nothing_is_wrong(cluster: Live) -> None:
    """So each case above fails by what was done to it, and by nothing else."""
    script = as_user("corral", ranks(MASTER_ADDR="node0"))
    done = cluster.run(cluster.controller, script, timeout=240)
    assert done.ok, done.tail
    assert done.stdout.count("together [2.0, 2.0, 2.0, 2.0]") == 2
    assert api.doctor_log(f"{done.stdout}\n{done.stderr}").healthy, done.tail
