"""A set of files without a finding, and helpers to break it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from corral.api.config.adoption import machine_from_file
from corral.slurm.adopt.machine import Machine
from corral.slurm.adopt.review import Judged, judge, source_of
from corral.slurm.adopt.source import Source
from corral.slurm.adopt.view import Existing
from corral.slurm.version import SlurmVersion
from corral.spec.findings import Level

SEED = Path(__file__).parents[3] / "golden" / "adopt" / "004"

SLURM = """\
ClusterName=lab
SlurmctldHost=node0(192.168.1.10)
SlurmUser=slurm
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldParameters=enable_configless
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=5000
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=node0
PropagateResourceLimitsExcept=MEMLOCK
ReturnToService=2
SrunPortRange=60001-63000
TopologyPlugin=topology/tree
GresTypes=gpu
NodeName=node[0-2] NodeAddr=192.168.1.[10-12] CPUs=24 Sockets=1 CoresPerSocket=24 \\
  ThreadsPerCore=1 RealMemory=124636 Gres=gpu:rtx5090:1 State=UNKNOWN
PartitionName=main Nodes=node[0-2] Default=YES MaxTime=INFINITE State=UP
"""
GOOD: Mapping[str, str] = {
    "slurm.conf": SLURM,
    "gres.conf": "Name=gpu Type=rtx5090 File=/dev/nvidia0\n",
    "cgroup.conf": "ConstrainCores=yes\nConstrainDevices=yes\nConstrainRAMSpace=yes\n",
    "slurmdbd.conf": (
        "DbdHost=node0\nSlurmUser=slurm\nAuthType=auth/munge\n"
        "StorageType=accounting_storage/mysql\nStorageHost=localhost\n"
    ),
    "topology.conf": "SwitchName=s0 Nodes=node[0-2]\n",
    "plugstack.conf": "# nothing\noptional /usr/lib/slurm/x.so\ninclude plugstack.conf.d/*\n",
    "hosts": (
        "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
        "192.168.1.10 node0\n192.168.1.11 node1\n192.168.1.12 node2 # last\n"
    ),
    "exports": "/srv node1(rw,sync,root_squash) node2(rw,sync,root_squash)\n",
    "fstab": "UUID=1 / ext4 defaults 0 1\nnode0:/srv /srv nfs defaults,_netdev,nofail 0 0\n",
    "sshd_config": "PasswordAuthentication no\n",
    "setup.sh": (
        "sudo mkdir -p /var/spool/slurmctld /var/spool/slurmd\n"
        "sudo useradd -u 64030 -r slurm\n"
        "sudo apt install -y slurm-wlm nvidia-driver-570-open cuda-toolkit-12-8\n"
        "sudo create-munge-key && sudo scp /etc/munge/munge.key node1:/etc/munge/munge.key\n"
        "sudo tee /etc/slurm/slurm.conf <<'EOF'\nwhatever \" here\nEOF\n"
        "awk '{\n print $1 }' /etc/hosts\n"
        "sudo systemctl enable --now munge slurmctld slurmd\n"
    ),
}
MODES = {"slurmdbd.conf": 0o600}


def machines() -> dict[str, Machine]:
    """The seed's three machines."""
    facts = sorted((SEED / "facts").glob("*.json"))
    return {file.stem: machine_from_file(file.stem, file) for file in facts}


def existing(
    files: Mapping[str, str],
    version: str = "",
    known: Mapping[str, Machine] | None = None,
    modes: Mapping[str, int] | None = None,
) -> Existing:
    sources: list[Source] = [
        source_of(name, text.encode("utf-8", "surrogateescape"), (modes or MODES).get(name))
        for name, text in files.items()
    ]
    release = SlurmVersion.parse(version) if version else None
    return Existing(tuple(sources), release, dict(known or {}))


def rule_ids(view: Existing) -> set[str]:
    """Ids of the rules that report something."""
    return {judgement.rule.id for judgement in judge(view)}


def serious(view: Existing) -> list[Judged]:
    return [judgement for judgement in judge(view) if judgement.level is not Level.INFO]
