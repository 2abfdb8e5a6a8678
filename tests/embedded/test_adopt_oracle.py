"""Real slurmctld as judge of ``lint --existing``: its claims hold, and corrected files start."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.embedded.test_conf_oracle import image, run, settings, version
from tests.unit.slurm.adopt.files import GOOD, SEED, existing

from corral.api.config.adoption import lint_existing, machine_from_file, write_corrections
from corral.slurm.adopt.review import judge
from corral.slurm.conf.real_memory import real_memory
from corral.slurm.version import SlurmVersion

__all__ = ["image", "version"]
pytestmark = pytest.mark.embedded

START = r"""
ip addr add 192.168.1.10/24 dev lo; ip link set lo up
i=10; for host in node0 node1 node2; do echo "192.168.1.$i $host"; i=$((i+1)); done >> /etc/hosts
rm -f /etc/slurm/*.conf; cp /conf/*.conf /etc/slurm/
install -d -o slurm -g slurm /var/spool/slurmctld /run/slurmctld /var/log/slurm
head -c 1024 /dev/urandom > /etc/munge/munge.key
chown munge:munge /etc/munge/munge.key; chmod 400 /etc/munge/munge.key
install -d -o munge -g munge /run/munge; runuser -u munge -- munged
runuser -u slurm -- slurmctld -D > /tmp/log 2>&1 &
pid=$!
for i in $(seq 400); do
  scontrol ping 2> /dev/null | grep -q 'is UP' && break
  kill -0 $pid 2> /dev/null || break
  sleep .2
done
for what in ping 'show node node0 --oneliner' 'show config' 'show partition --oneliner'; do
  echo "=== $what"
  if kill -0 $pid 2> /dev/null; then timeout 20 scontrol $what; fi
done
echo "=== log"; cat /tmp/log; scontrol ping 2>&1 | head -3
"""


def slurmctld_output(image: str, folder: Path) -> dict[str, str]:
    answer = run(image, START, "--volume", f"{folder}:/conf:ro")
    parts = [part.partition("\n") for part in answer.split("=== ")[1:]]
    return {title.split(" --")[0]: body for title, _, body in parts}


def seed_conf(folder: Path) -> None:
    for name in ("slurm.conf", "gres.conf"):
        (folder / name).write_bytes((SEED / name).read_bytes())


def test_the_seed_as_it_is(image: str, tmp_path: Path) -> None:
    seed_conf(tmp_path)
    answer = slurmctld_output(image, tmp_path)
    assert "ClusterName needs to be specified" in answer["log"]
    assert answer["ping"] == ""


def test_the_seed_corrected(image: str, version: SlurmVersion, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    seed_conf(old)
    seed_conf(new)
    machines = {
        f"node{i}": machine_from_file(f"node{i}", SEED / "facts" / f"node{i}.json")
        for i in range(3)
    }
    opinion = lint_existing([old], version=str(version.release), machines=machines)
    for path in write_corrections(opinion.corrections, tmp_path / "made"):
        (new / path.name).write_bytes(path.read_bytes())
    answer = slurmctld_output(image, new)
    assert "is UP" in answer["ping"], answer["log"]
    for word in ("fatal", "arse error", "arsing error", "nrecognized", "defunct", "Ignoring"):
        assert word not in answer["log"], answer["log"]
    node = answer["show node node0"]
    for text in (
        "NodeAddr=192.168.1.10",
        "CPUTot=24",
        f"RealMemory={real_memory(128491)}",
        "Gres=gpu:rtx5090:1",
    ):
        assert text in node
    now = settings(answer["show config"])
    assert now["ClusterName"] == "cluster"
    assert now["SlurmctldHost[0]"] == "node0"
    assert now["SlurmUser"].startswith("slurm(")
    assert set(now["TaskPlugin"].split(",")) == {"task/affinity", "task/cgroup"}
    assert now["ConstrainDevices"] == "yes"
    assert "Nodes=node[0-2]" in answer["show partition"]


CLAIMS = [  # what slurm.conf has besides, which rule minds, what slurmctld prints
    ("NoSuchKey=1\n", "unknown-key", "NoSuchKey"),
    ("CacheGroups=0\n", "removed-key", "CacheGroups"),
    ("FastSchedule=0\n", "obsolete-key", "FastSchedule option has been removed"),
    ("SallocDefaultCommand=x\n", "obsolete-key", "SallocDefaultCommand has been removed"),
    ("AccountingStoreJobComment=yes\n", "obsolete-key", "AccountingStoreJobComment"),
    ("MetricsType=metrics/openmetrics\n", "key-too-new", "MetricsType"),
    ("AccountingStorageTRES=gres/gpu\n", "accounting", "slurmdbd is required"),
    ("PartitionName=x Nodes=ghost9\n", "partition-nodes", "ghost9"),
    ("NodeName=node1 CPUs=1\n", "node-names", "node1"),
    ("KillWait=two\n", "wrong-type", "two"),
    ("this is nothing\n", "conf-syntax", "this is nothing"),
    ("Include conf.d/*.conf\n", "include-lost", "glob"),
    ("JobCredentialPrivateKey=/x\n", "defunct-key", "JobCredentialPrivateKey"),
    ("ControlMachine=a\n", "controller-spelling", "Ignoring ControlMachine"),
    ("KillWait=30\nKillWait=31\n", "repeated-key", "specified more than once"),
]


@pytest.mark.parametrize(("more", "rule", "printed"), CLAIMS, ids=[rule for _, rule, _ in CLAIMS])
def test_findings_agree_with_slurmctld(  # noqa: PLR0917  # pytest names them
    image: str, version: SlurmVersion, tmp_path: Path, more: str, rule: str, printed: str
) -> None:
    if rule == "key-too-new" and version >= SlurmVersion(25, 11):
        pytest.skip("this release knows the key")
    conf = GOOD["slurm.conf"].replace("accounting_storage/slurmdbd", "accounting_storage/none")
    conf = conf.replace("TopologyPlugin=topology/tree\n", "")
    files = {"slurm.conf": conf, "gres.conf": GOOD["gres.conf"], "cgroup.conf": GOOD["cgroup.conf"]}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert rule not in errors(files, version, rule)
    assert "is UP" in slurmctld_output(image, tmp_path)["ping"]
    files["slurm.conf"] = conf + more
    (tmp_path / "slurm.conf").write_text(files["slurm.conf"])
    level = errors(files, version, rule)[rule]
    answer = slurmctld_output(image, tmp_path)
    assert printed in answer["log"]
    if level == "error":
        assert "is UP" not in answer["ping"], answer["log"]


def errors(files: dict[str, str], version: SlurmVersion, rule: str) -> dict[str, str]:
    """The rule's level for these files; empty when it finds nothing."""
    opinions = [o for o in judge(existing(files, str(version.release))) if o.rule.id == rule]
    serious = [opinion for opinion in opinions if opinion.level.value != "info"]
    return {opinion.rule.id: opinion.level.value for opinion in serious}
