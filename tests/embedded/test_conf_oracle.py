"""Real slurmctld and slurmdbd as judges of the rendered files: they start, and read what was meant.

Images: CORRAL_TEST_SLURM_IMAGES (names podman knows, separated by commas; each holds slurmctld,
slurmdbd, MariaDB, munge and iproute2), else the newest node image. One container for each case,
without a network; it is removed when it ends.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from tests.unit.slurm.clusters import render

from corral.slurm.conf.cluster import MARIADB_CONF
from corral.slurm.conf.model import ClusterConf, GpuConf, NodeConf, PartitionConf
from corral.slurm.text import parse_nodes
from corral.slurm.version import SlurmVersion, has
from corral.spec.slurm.hostlist import expand, fold_in_order
from corral.spec.slurm.releases import Feature

pytestmark = pytest.mark.embedded

HOSTS = ["n5", "n0", "n1", "n2", "n007", "a-09", "a-10", "x"]
PADDED = "n[08-99],n[100-101]"
START = r"""
ip addr add 10.9.9.1/24 dev lo; ip link set lo up
i=1; for host in node0 HOSTS; do echo "10.9.9.$i $host"; i=$((i+1)); done >> /etc/hosts
cp /conf/*.conf /etc/slurm/
install -d -o slurm -g slurm -m 700 /var/spool/slurmctld
install -d -o slurm -g slurm /run/slurmctld /run/slurmdbd /var/log/slurm
head -c 1024 /dev/urandom > /etc/slurm/slurm.key
head -c 32 /dev/urandom > /var/spool/slurmctld/jwt_hs256.key
chown slurm:slurm /etc/slurm/slurm.key /var/spool/slurmctld/jwt_hs256.key
chmod 600 /etc/slurm/slurm.key /var/spool/slurmctld/jwt_hs256.key
if grep -q auth/munge /etc/slurm/slurm.conf; then
  head -c 1024 /dev/urandom > /etc/munge/munge.key
  chown munge:munge /etc/munge/munge.key; chmod 400 /etc/munge/munge.key
  install -d -o munge -g munge /run/munge; runuser -u munge -- munged
fi
if [ -e /etc/slurm/slurmdbd.conf ]; then
  chown slurm:slurm /etc/slurm/slurmdbd.conf; chmod 600 /etc/slurm/slurmdbd.conf
  install -d -o mysql -g mysql /run/mysqld
  cp /conf/mariadb.cnf /etc/mysql/mariadb.conf.d/90-corral.cnf
  mariadbd --user=mysql --skip-networking > /tmp/mariadb.log 2>&1 &
  for i in $(seq 400); do mariadb -e 'select 1' > /dev/null 2>&1 && break; sleep .2; done
  mariadb -e "create database slurm_acct_db;
    create user slurm@localhost identified via unix_socket;
    grant all on slurm_acct_db.* to slurm@localhost"
  $AS slurmdbd -D > /tmp/dbd.log 2>&1 &
  for i in $(seq 400); do sacctmgr -n show cluster > /dev/null 2>&1 && break; sleep .2; done
  sacctmgr -i add cluster oracle > /dev/null
fi
$AS slurmctld -D > /tmp/ctld.log 2>&1 &
pid=$!
for i in $(seq 400); do
  scontrol ping 2> /dev/null | grep -q 'is UP' && break
  kill -0 $pid 2> /dev/null || break
  sleep .2
done
set -- ping 'show node --oneliner' 'show config' 'show hostnames LIST' 'show hostlist PADDED'
for what; do
  echo "=== $what"
  if kill -0 $pid 2> /dev/null; then timeout 20 scontrol $what; fi
done
echo "=== tres"
[ -e /etc/slurm/slurmdbd.conf ] && timeout 20 sacctmgr -nP show tres format=type,name
echo "=== log"; cat /tmp/ctld.log /tmp/dbd.log 2> /dev/null
"""


def podman(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["podman", "--runtime", "runc", *argv],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def run(image: str, script: str, *more: str) -> str:
    limits = [("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)]
    argv = ["run", "--rm", "--network", "none", "--cap-add", "NET_ADMIN", "--hostname", "node0"]
    for name, kind in limits:
        most = min(resource.getrlimit(kind)[1] & 0xFFFFFFFF, 8192)
        argv += ["--ulimit", f"{name}={most}:{most}"]
    done = podman(*argv, *more, "--entrypoint", "sh", image, "-c", script)
    return done.stdout + done.stderr


@cache
def images() -> tuple[str, ...]:
    """Names of the images to judge with; none: the reason is in ``missing()``."""
    named = os.environ.get("CORRAL_TEST_SLURM_IMAGES", "")
    if named:
        return tuple(named.split(","))
    if missing():
        return ("none",)
    listed = podman("images", "--format", "{{.Repository}}:{{.Tag}}", "localhost/corral-node")
    return tuple(listed.stdout.split()[:1]) or ("none",)


def missing() -> str:
    for program in ("podman", "runc"):
        if not shutil.which(program):
            return f"{program} is not installed"
    return "" if os.geteuid() == 0 else "needs root"


@pytest.fixture(scope="module", params=images())
def image(request: pytest.FixtureRequest) -> str:
    if missing():
        pytest.skip(missing())
    if request.param == "none":
        pytest.skip("no node image on this machine: corral image build makes one")
    return str(request.param)


@pytest.fixture(scope="module")
def version(image: str) -> SlurmVersion:
    return SlurmVersion.parse(run(image, "slurmctld -V"))


def conf_for(version: SlurmVersion) -> ClusterConf:
    model = NodeConf(
        *("", "", 2, 1, 2, 1, 2048),
        gpus=(GpuConf("fake", 2, "/dev/nvidia[0-1]"),),
        features=("compute",),
    )
    nodes = tuple(
        replace(model, name=name, address=f"10.9.9.{at + 2}") for at, name in enumerate(HOSTS)
    )
    return ClusterConf(
        name="oracle",
        controller="node0",
        controller_address="10.9.9.1",
        version=version,
        auth="slurm" if has(version, Feature.AUTH_SLURM) else "munge",
        accounting_host="",
        rest=False,
        cgroup="v1",
        systemd=True,
        nodes=nodes,
        partitions=(PartitionConf("main", tuple(HOSTS), True, "2-00:00:00"),),
    )


def judge(image: str, conf: ClusterConf, where: Path, more: str = "") -> dict[str, str]:
    """Start the daemons with the rendered files; what they print, by section."""
    for name, text in render(conf).items():
        (where / name).write_text(text + (more if name == "slurm.conf" else ""))
    (where / "mariadb.cnf").write_text(MARIADB_CONF)
    script = START.replace("LIST", fold_in_order(HOSTS)).replace("PADDED", PADDED)
    script = script.replace("HOSTS", " ".join(HOSTS))
    # before 23.11 the unit starts slurmctld as root
    user = "runuser -u slurm --" if has(conf.version, Feature.UNIT_RUNS_AS_SLURM) else ""
    answer = run(image, script, "--env", f"AS={user}", "--volume", f"{where}:/conf:ro")
    sections: dict[str, str] = {}
    for part in answer.split("=== ")[1:]:
        title, _, body = part.partition("\n")
        sections[title.split(" --")[0].split(" n[")[0]] = body
    return sections


def settings(text: str) -> dict[str, str]:
    rows = [line.split("=", 1) for line in text.splitlines() if "=" in line]
    return {key.strip(): value.strip() for key, value in rows}


def assert_taken(output: dict[str, str], conf: ClusterConf) -> None:
    log = output["log"]
    assert "is UP" in output["ping"], log
    for word in (
        "fatal",
        "arse error",
        "arsing error",
        "nrecognized",
        "nvalid",
        "obsolete",
        "eprecated",
        "defunct",
        "Permission denied",
        "no longer supported",
    ):
        lines = [line for line in log.splitlines() if word in line and "MailProg" not in line]
        assert not lines, lines
    got = {node.name: node for node in parse_nodes(output["show node"])}
    assert {name: node.address for name, node in got.items()} == {
        node.name: node.address for node in conf.nodes
    }
    for node in conf.nodes:
        assert (got[node.name].gres, got[node.name].memory) == (node.gres, node.real_memory)
    assert output["show hostnames"].split() == HOSTS == expand(fold_in_order(HOSTS))
    # One range of unlike lengths, which a cluster file refuses.
    folded = output["show hostlist"].strip()
    assert folded == "n[08-101]" and expand(folded) == expand(PADDED)
    now = settings(output["show config"])
    assert now["ClusterName"] == "oracle"
    assert now["SlurmctldHost[0]"] == "node0(10.9.9.1)"
    assert now["AuthType"] == f"auth/{conf.auth}"
    assert set(now["TaskPlugin"].split(",")) == {"task/affinity", "task/cgroup"}
    assert now["SelectTypeParameters"] == "CR_CORE_MEMORY"
    assert now["ReturnToService"] == "2"
    assert now["SlurmdTimeout"] == "120 sec"
    assert now["ConstrainDevices"] == "yes"
    assert now["ConstrainSwapSpace"] == "yes"
    assert now["CgroupPlugin"] == "cgroup/v1"
    assert now["SrunPortRange"] == "60001-63000"


@pytest.mark.parametrize("rest", [False, True])
def test_the_controller_takes_the_files(
    image: str, version: SlurmVersion, tmp_path: Path, rest: bool
) -> None:
    if rest and "auth_jwt.so" not in run(image, "ls /usr/lib/*/slurm-wlm/").split():
        pytest.skip("this image has no auth_jwt.so")
    conf = replace(conf_for(version), rest=rest)
    assert_taken(judge(image, conf, tmp_path), conf)


def test_the_controller_takes_the_files_with_munge(
    image: str, version: SlurmVersion, tmp_path: Path
) -> None:
    conf = replace(conf_for(version), auth="munge")
    assert_taken(judge(image, conf, tmp_path), conf)


def test_accounting_without_a_password(image: str, version: SlurmVersion, tmp_path: Path) -> None:
    conf = replace(conf_for(version), accounting_host="node0")
    output = judge(image, conf, tmp_path)
    assert_taken(output, conf)
    assert "gres|gpu" in output["tres"].splitlines()
    assert "innodb_snapshot_isolation is enabled" not in output["log"]
    assert settings(output["show config"])["AccountingStorageHost"] == "node0"


def test_the_controller_takes_a_cluster_of_10000_nodes(
    image: str, version: SlurmVersion, tmp_path: Path
) -> None:
    small = conf_for(version)
    nodes = tuple(
        replace(small.nodes[0], name=f"big{at}", address=f"10.10.{at // 250}.{at % 250 + 1}")
        for at in range(10_000)
    )
    everywhere = (PartitionConf("main", tuple(n.name for n in nodes), True, "2-00:00:00"),)
    output = judge(image, replace(small, nodes=nodes, partitions=everywhere), tmp_path)
    assert "is UP" in output["ping"], output["log"]
    assert len(parse_nodes(output["show node"])) == len(nodes)
    now = settings(output["show config"])
    assert (now["TreeWidth"], now["MessageTimeout"]) == ("22", "60 sec")
    assert {"bf_continue", "max_rpc_cnt=150"} <= set(now["SchedulerParameters"].split(","))
    if has(version, Feature.CONMGR):
        assert "conmgr_max_connections=4096" in now["SlurmctldParameters"].split(",")
    wrong = [line for line in output["log"].splitlines() if "fatal" in line or "nvalid" in line]
    assert [line for line in wrong if "MailProg" not in line] == []


@pytest.mark.parametrize(
    ("more", "printed"),
    [
        ("NoSuchKey=1\n", "NoSuchKey"),
        ("AccountingStorageTRES=gres/gpu\n", "slurmdbd is required"),
        ("PartitionName=ghosts Nodes=ghost9\n", "ghost9"),
    ],
)
def test_the_judge_can_refuse(
    image: str, version: SlurmVersion, tmp_path: Path, more: str, printed: str
) -> None:
    output = judge(image, conf_for(version), tmp_path, more)
    assert printed in output["log"]
    with pytest.raises(AssertionError):
        assert_taken(output, conf_for(version))
