"""Each rule by a pair: files without the finding, and the same files with one thing broken."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from corral.slurm.adopt.conversion import cluster_file
from corral.slurm.adopt.review import corrected, judge
from corral.slurm.adopt.rules import RULES
from corral.slurm.adopt.view import Existing
from tests.unit.slurm.adopt.files import GOOD, existing, machines, rule_ids, serious

ALL = {rule.id: rule for rule in RULES}


def test_good_files_have_no_finding() -> None:
    for version in ("", "23.11", "24.11", "26.05"):
        view = existing(GOOD, version, machines())
        # The seed's machines have 2.5 Gb/s, whatever the files declare.
        assert [judgement.rule.id for judgement in serious(view)] == ["slow-link"]
    left = {judgement.rule.id for judgement in judge(existing(GOOD, "24.11"))}
    assert left == {"auth-slurm-possible"}


@dataclass
class Case:
    """What breaks: ``old`` becomes ``new`` in a file; ``line`` is where the finding must be.

    ``fixed``: the correction removes the finding. ``facts``: change of node1's facts.
    """

    rule: str
    file: str = "slurm.conf"
    old: str = ""
    new: str = ""
    at: tuple[str, int, int] | None = None
    fixed: bool = False
    version: str = "24.11"
    facts: dict[str, Any] | None = None
    drop: tuple[str, ...] = ()
    mode: dict[str, int] = field(default_factory=dict)

    def view(self) -> Existing:
        files = {name: text for name, text in GOOD.items() if name not in self.drop}
        if self.file in files:
            assert self.old in files[self.file], self
            files[self.file] = files[self.file].replace(self.old, self.new, 1)
        known = None
        if self.facts is not None:
            known = machines()
            known["node1"] = replace(known["node1"], **self.facts)
        return existing(files, self.version, known, {"slurmdbd.conf": 0o600, **self.mode})


NODE = "NodeName=node[0-2] NodeAddr=192.168.1.[10-12] "
CASES = [
    Case("conf-syntax", old="SlurmUser=slurm", new="SlurmUser = slurm boss",
         at=("slurm.conf", 3, 19)),
    Case("conf-syntax", "cgroup.conf", "ConstrainCores=yes", "\ufeffConstrainCores=yes"),
    Case("unknown-key", old="ReturnToService", new="ReturnToServise", at=("slurm.conf", 17, 1)),
    Case("unknown-key", old=" RealMemory=", new=" RealMemry=", at=("slurm.conf", 22, 20)),
    Case("unknown-key", "cgroup.conf", "ConstrainCores", "ConstrainCore"),
    Case("unknown-key", old="ClusterName=lab", new="ClusterName=lab SlurmUser=slurm"),
    Case("removed-key", old="SlurmUser=", new="CacheGroups=0\nSlurmUser=", at=("slurm.conf", 3, 1),
         fixed=True),
    Case("removed-key", "cgroup.conf", "ConstrainC", "TaskAffinity=no\nConstrainC", fixed=True),
    Case("defunct-key", "cgroup.conf", "ConstrainC", "CgroupAutomount=yes\nConstrainC", fixed=True),
    Case("defunct-key", old="SlurmUser=", new="JobCredentialPrivateKey=/x\nSlurmUser=", fixed=True),
    Case("key-too-new", old="SlurmUser=", new="MetricsType=metrics/openmetrics\nSlurmUser="),
    Case("obsolete-key", old="SlurmUser=", new="FastSchedule=1\nSlurmUser=", fixed=True),
    Case("obsolete-key", old="SlurmUser=", new="FastSchedule=0\nSlurmUser=", fixed=True),
    Case("obsolete-key", old="SlurmUser=", fixed=True,
         new="SlurmdParameters=l3cache_as_socket\nFastSchedule=2\nSlurmUser="),
    Case("obsolete-key", old="SlurmUser=", new="AccountingStorageLoc=x\nSlurmUser=", fixed=True),
    Case("removed-key", old="SlurmUser=", new="AccountingStorageLoc=x\nSlurmUser=", fixed=True,
         version="25.11"),
    Case("obsolete-key", old="SlurmUser=", new="MemLimitEnforce=no\nSlurmUser=", fixed=True,
         version="20.11"),
    Case("obsolete-key", old="SlurmUser=", new="FrontendName=a\nSlurmUser="),
    Case("obsolete-key", "cgroup.conf", "ConstrainCores", fixed=True,
         new="CgroupReleaseAgentDir=/x\nConstrainCores"),
    Case("obsolete-key", "cgroup.conf", "ConstrainCores", "TaskAffinity=yes\nConstrainCores",
         fixed=True, version="21.08"),
    Case("value-unknown", old="task/affinity,task/cgroup", fixed=True,
         new="task/affinity,task/cgroup\nTaskPluginParam=Cpusets,Cores"),
    Case("value-unknown", old="CR_Core_Memory", new="OTHER_CONS_TRES,CR_Core_Memory", fixed=True),
    Case("value-unknown", old="SlurmUser=", new="DebugFlags=NoRealTime\nSlurmUser=", fixed=True),
    Case("value-unknown", old="SlurmUser=", new="DebugFlags=Stepps\nSlurmUser="),
    Case("value-unknown", old="SlurmUser=", new="SchedulerType=sched/wiki\nSlurmUser="),
    Case("value-unknown", old="SlurmUser=", new="JobCompType=jobcop/none2\nSlurmUser="),
    Case("value-unknown", old="SlurmUser=", new="JobCompType=jobcomp/kafka\nSlurmUser=",
         version="22.05"),
    Case("value-unknown", old="SlurmUser=", fixed=True, version="26.05",
         new="AcctGatherEnergyType=acct_gather_energy/rsmi\nSlurmUser="),
    Case("values-refused", old="CR_Core_Memory", new="CR_Core_Memory,CR_CPU"),
    Case("values-refused", old="CR_Core_Memory", new="CR_Memory"),
    Case("values-refused", old="CR_Core_Memory", new="CR_CPU_Memory,CR_ONE_TASK_PER_CORE"),
    Case("values-refused", old="SelectTypeParameters=CR_Core_Memory\n", version="20.11"),
    Case("values-refused", old="select/cons_tres", new="select/linear"),
    Case("values-refused", drop=("topology.conf",)),
    Case("value-unknown", old="SlurmUser=", new="AccountingStorageEnforce=limit,qos\nSlurmUser="),
    Case("value-unknown", old="SlurmUser=", new="AccountingStorageEnforce=none\nSlurmUser="),
    Case("value-unknown", old="SlurmUser=", new="PreemptMode=none\nSlurmUser="),
    Case("value-unknown", old="SlurmUser=", new="PreemptMode=Suspend,WITHIN,GANG\nSlurmUser=",
         version="21.08"),
    Case("values-refused", old="SlurmUser=", new="PreemptMode=requeue\nSlurmUser="),
    Case("values-refused", old="SlurmUser=", new="PreemptType=preempt/qos\nSlurmUser="),
    Case("values-refused", old="SlurmUser=",
         new="PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND\nSlurmUser="),
    Case("values-refused", old="SlurmUser=", new="SlurmSchedLogLevel=3\nSlurmUser="),
    Case("values-refused", old="SlurmUser=", new="PriorityDecayHalfLife=0\nSlurmUser="),
    Case("values-refused", old="SlurmUser=", new="MCSPlugin=mcs/group\nSlurmUser="),
    Case("values-refused", version="22.05",
         old="PartitionName=main Nodes=node[0-2] Default=YES MaxTime=INFINITE State=UP"),
    Case("obsolete-key", old="SlurmUser=", new="FastSchedule=2\nSlurmUser=", fixed=True),
    Case("obsolete-key", old="SlurmUser=", new="CryptoType=crypto/munge\nSlurmUser=", fixed=True),
    Case("obsolete-key", old="SlurmUser=", new="KeepAliveTime=60\nSlurmUser=", fixed=True),
    Case("repeated-key", old="SlurmUser=", new="SlurmUser=boss\nSlurmUser=",
         at=("slurm.conf", 3, 1), fixed=True),
    Case("wrong-type", old="SlurmUser=", new="KillWait=two\nSlurmUser="),
    Case("wrong-type", "cgroup.conf", "Constrain", "EnableControllers=on\nConstrain"),
    Case("include-lost", old="SlurmUser=", new="include nodes.conf\nSlurmUser="),
    Case("include-lost", old="SlurmUser=", new="Include conf.d/*.conf\nSlurmUser="),
    Case("include-lost", old="SlurmUser=", new="include slurm.conf\nSlurmUser="),
    Case("line-ends", old="ClusterName=lab\n", new="ClusterName=lab\r\n"),
    Case("cluster-name-missing", old="ClusterName=lab\n", at=("slurm.conf", 1, 1), fixed=True),
    Case("controller-spelling", old="SlurmctldHost=node0(192.168.1.10)",
         new="ControlMachine=node0\nControlAddr=192.168.1.10", at=("slurm.conf", 2, 1), fixed=True),
    Case("controller-spelling", old="SlurmctldHost=node0(192.168.1.10)\n"),
    Case("controller-spelling", old="SlurmUser=", new="ControlMachine=a\nSlurmUser=", fixed=True),
    Case("slurm-user-root", old="SlurmUser=slurm\n"),
    Case("slurm-user-root", old="SlurmUser=slurm", new="SlurmUser=root"),
    Case("state-location", old="StateSaveLocation=/var/spool", new="StateSaveLocation=/tmp"),
    Case("state-location", old="StateSaveLocation=/var/spool/slurmctld\n", fixed=True),
    Case("state-location", old="SlurmdSpoolDir=/var/spool/slurmd",
         new="SlurmdSpoolDir=/var/spool/slurmctld/"),
    Case("state-location", old="StateSaveLocation=/var/spool/slurmctld",
         new="StateSaveLocation=/var/spool/", fixed=True),
    Case("state-not-shared", old="SlurmUser=", new="SlurmctldHost=node1\nSlurmUser=",
         at=("slurm.conf", 7, 1)),
    Case("authentication", old="AuthType=auth/munge", new="AuthType=auth/none"),
    Case("authentication", old="CredType=cred/munge", new="CredType=cred/slurm", fixed=True),
    Case("authentication", old="AuthType=auth/munge", new="AuthType=auth/slurm", version="22.05",
         fixed=True),
    Case("select-type", old="cons_tres", new="cons_res", fixed=True),
    Case("select-type", old="select/cons_tres", new="select/linear"),
    Case("select-type", old="CR_Core_Memory", new="CR_Core"),
    Case("memory-default-missing", old="DefMemPerCPU=5000\n", at=("slurm.conf", 12, 1)),
    Case("memory-default-missing", old="DefMemPerCPU=5000", new="DefMemPerNode=UNLIMITED"),
    Case("memory-default-missing", old="SelectTypeParameters=CR_Core_Memory\nDefMemPerCPU=5000\n"),
    Case("accounting-enforced", old="accounting_storage/slurmdbd",
         new="accounting_storage/none\nAccountingStorageEnforce=limits,qos"),
    Case("accounting", old="accounting_storage/slurmdbd", new="accounting_storage/none"),
    Case("partition-qos", old="accounting_storage/slurmdbd",
         new="accounting_storage/none\nPartitionName=b Nodes=ALL QOS=high"),
    Case("accounting", old="accounting_storage/slurmdbd", new="accounting_storage/filetxt"),
    Case("memlock", old="PropagateResourceLimitsExcept=MEMLOCK\n", fixed=True),
    Case("return-to-service", old="ReturnToService=2", new="ReturnToService=0", fixed=True),
    Case("ports", old="SrunPortRange=60001-63000\n", fixed=True),
    Case("ports", old="SlurmUser=", new="SlurmctldPort=7000\nSlurmdPort=7000\nSlurmUser="),
    Case("fault-hidden", old="SlurmUser=", new="SlurmdParameters=config_overrides\nSlurmUser="),
    Case("password-readable", old="SlurmUser=", new="AccountingStoragePass=x\nSlurmUser="),
    Case("task-plugin", old="TaskPlugin=task/affinity,task/cgroup", new="TaskPlugin=task/none",
         at=("slurm.conf", 10, 1), fixed=True),
    Case("task-plugin", old="TaskPlugin=task/affinity,task/cgroup\n", fixed=True),
    Case("process-tracking", old="proctrack/cgroup", new="proctrack/pgid", fixed=True),
    Case("devices-open", "cgroup.conf", "ConstrainDevices=yes", "ConstrainDevices=no", fixed=True),
    Case("devices-open", drop=("cgroup.conf",), fixed=True),
    Case("cores-memory-open", "cgroup.conf", "ConstrainRAMSpace=yes\n", fixed=True),
    Case("cgroup-plugin", "cgroup.conf", "Cons", "CgroupPlugin=disabled\nCons", fixed=True),
    Case("real-memory-missing", old=" RealMemory=124636", at=("slurm.conf", 21, 1)),
    Case("real-memory-missing", old=" RealMemory=124636", facts={}, fixed=True),
    Case("real-memory-wrong", facts={"memory_mib": 65536}, at=("slurm.conf", 22, 20), fixed=True),
    Case("cpus-wrong", old="CPUs=24 Sockets=1 CoresPerSocket=24", new="CPUs=64 Sockets=2 "
         "CoresPerSocket=32", facts={}, at=("slurm.conf", 21, 47), fixed=True),
    Case("cpus-wrong", facts={"cpus": 16, "cores": 16}),
    Case("cpu-layout", old="CPUs=24", new="CPUs=17", fixed=True),
    Case("procs-old-name", old="CPUs=24", new="Procs=24", at=("slurm.conf", 21, 47), fixed=True),
    Case("cpus-missing", old="CPUs=24 Sockets=1 CoresPerSocket=24 \\\n  ThreadsPerCore=1 ",
         at=("slurm.conf", 21, 1)),
    Case("cpus-missing", old="CPUs=24 Sockets=1 CoresPerSocket=24 \\\n  ThreadsPerCore=1 ",
         facts={}, fixed=True),
    Case("cpus-missing", old="CPUs=24 Sockets=1 CoresPerSocket=24 \\\n ",
         at=("slurm.conf", 21, 1)),
    Case("cpus-missing", old="CPUs=24 Sockets=1 CoresPerSocket=24 \\\n ", facts={}, fixed=True),
    Case("node-state", old="State=UNKNOWN", new="State=DOWN"),
    Case("node-names", old="NodeName=node[0-2]", new="NodeName=node[0-2"),
    Case("node-names", old="[10-12]", new="[10-11]"),
    Case("node-names", old="PartitionName", new="NodeName=node2 CPUs=1\nPartitionName"),
    Case("host-differs", facts={"hostname": "ubuntu"}),
    Case("host-differs", facts={"addresses": ("10.0.0.9",)}),
    Case("slurm-uid-differs", facts={"uids": {"slurm": 1002}}, at=("slurm.conf", 3, 1)),
    Case("slurm-version-mix", facts={"slurm": "21.08.5"}),
    Case("partition-nodes", old="Nodes=node[0-2] Default", new="Nodes=node[0-3] Default",
         at=("slurm.conf", 23, 20)),
    Case("partition-nodes", old="Nodes=node[0-2] Default", new="Nodes=fast Default"),
    Case("partition-twice", old="PartitionName=main",
         new="PartitionName=main Nodes=node0\nPartitionName=main"),
    Case("partition-default", old="Default=YES", new="Default=NO"),
    Case("partition-default", old="PartitionName=main", new="PartitionName=b Nodes=node0 "
         "Default=YES\nPartitionName=main"),
    Case("node-unused", old="Nodes=node[0-2] Default", new="Nodes=node[0-1] Default"),
    Case("gres-types-missing", old="GresTypes=gpu\n", at=("slurm.conf", 20, 1), fixed=True),
    Case("gres-types-missing", old="GresTypes=gpu", new="GresTypes=nic", fixed=True),
    Case("gres-not-on-node", old=" Gres=gpu:rtx5090:1", at=("gres.conf", 1, 1)),
    Case("gres-not-on-node", old=" Gres=gpu:rtx5090:1", facts={}, at=("slurm.conf", 21, 1),
         fixed=True),
    Case("gres-conf-missing", drop=("gres.conf",), at=("slurm.conf", 22, 38)),
    Case("gres-mismatch", old="Gres=gpu:rtx5090:1", new="Gres=gpu:rtx5090:2"),
    Case("gres-mismatch", old="Gres=gpu:rtx5090:1", new="Gres=gpu:rtx4090:1"),
    Case("gres-conflict", "gres.conf", "Name=", "Name=gpu File=/dev/nvidia1\nName="),
    Case("gres-conflict", "gres.conf", "Name=gpu Type=rtx5090 File=/dev/nvidia0",
         "Name=gpu Count=1\nName=gpu Count=1", fixed=True),
    Case("gres-autodetect", "gres.conf", "Name=", "AutoDetect=nvidia\nName="),
    Case("gres-autodetect", "gres.conf", "Name=gpu Type=rtx5090 File=/dev/nvidia0",
         "AutoDetect=nvidia", version="23.11"),
    Case("gres-autodetect", "gres.conf", "Name=gpu Type=rtx5090 File=/dev/nvidia0",
         "AutoDetect=nvml", facts={"plugins": frozenset({"gpu_generic.so"})}, fixed=True),
    Case("gres-autodetect", "gres.conf", "Name=gpu Type=rtx5090 File=/dev/nvidia0",
         "AutoDetect=cuda"),
    Case("gres-record", "gres.conf", "File=", "Count=2 File=", fixed=True),
    Case("device-missing", "gres.conf", "nvidia0", "nvidia1", facts={}),
    Case("device-missing", facts={"devices": ()}),
    Case("slurmdbd-mode", mode={"slurmdbd.conf": 0o644}, fixed=True),
    Case("slurmdbd-password", "slurmdbd.conf", "StorageHost", "StoragePass=hush\nStorageHost"),
    Case("slurmdbd-needed", "slurmdbd.conf", "DbdHost=node0\n"),
    Case("slurmdbd-needed", "slurmdbd.conf", "StorageType=accounting_storage/mysql\n", fixed=True),
    Case("slurmdbd-differs", "slurmdbd.conf", "SlurmUser=slurm", "SlurmUser=boss", fixed=True),
    Case("slurmdbd-differs", "slurmdbd.conf", "DbdHost=node0", "DbdHost=db"),
    Case("plugstack", "plugstack.conf", "optional ", "maybe "),
    Case("plugstack", "plugstack.conf", "optional ", "required "),
    Case("topology", "topology.conf", "Nodes=node[0-2]", "Nodes=node[0-3]"),
    Case("topology", "topology.conf", " Nodes=node[0-2]"),
    Case("topology", old="TopologyPlugin=topology/tree\n"),
    Case("own-name-loopback", "hosts", "127.0.0.1 localhost", "127.0.0.1 localhost node0",
         at=("hosts", 1, 21), fixed=True),
    Case("own-name-loopback", "hosts", "::1", "127.0.1.1 node0\n::1", fixed=True),
    Case("hosts-entry", "hosts", "192.168.1.11", "192.168.1.300"),
    Case("hosts-entry", "hosts", "192.168.1.12 node2", "192.168.1.12 node2 node1"),
    Case("node-addr-missing", old=" NodeAddr=192.168.1.[10-12]", fixed=True),
    Case("exports-root", "exports", "rw,sync,root_squash", "rw,sync,no_root_squash", fixed=True),
    Case("exports-wide", "exports", "node1(", "node1 (", at=("exports", 1, 12)),
    Case("exports-wide", "exports", "node1(", "*("),
    Case("exports-wide", "exports", "node1(", "100.64.0.7/10(", fixed=True),
    Case("exports-wide", "exports", "node2(", "node1("),
    Case("fstab-entry", "fstab", "UUID=1", "sudo mount -a\nUUID=1", at=("fstab", 1, 1), fixed=True),
    Case("fstab-nfs", "fstab", "defaults,_netdev,nofail", "defaults", fixed=True),
    Case("sshd-overridden", "sshd_config", "Pass", "Include /etc/ssh/sshd_config.d/*.conf\nPass"),
    Case("setup-folders", "setup.sh", "/var/spool/slurmd\n", "/var/spool/slurm/d\n", fixed=True),
    Case("setup-munge-key", "setup.sh", "scp /etc/munge/munge.key node1:",
         "cp /etc/munge/munge.key "),
    Case("setup-services", "setup.sh", " slurmctld slurmd\n", "\n"),
    Case("setup-one-copy", old="SlurmctldParameters=enable_configless\n"),
    Case("setup-driver", "setup.sh", "570-open", "560"),
    Case("setup-driver", "setup.sh", "cuda-toolkit-12-8", "cuda-toolkit-12-6"),
    Case("setup-uid", "setup.sh", "64030", "1002", at=("setup.sh", 2, 17)),
    Case("setup-two-sources", "setup.sh", "sudo useradd",
         "add-apt-repository ppa:graphics-drivers/ppa\ndpkg -i cuda-keyring_1_all.deb\nuseradd"),
    Case("setup-wrong-package", "setup.sh", "slurm-wlm", "slurm", fixed=True),
    Case("setup-quotes", "setup.sh", "-r slurm", "-r \u201cslurm\u201d", fixed=True),
    Case("setup-quotes", "setup.sh", "slurmctld slurmd\n", "slurmctld slurmd\"\n"),
    Case("job-environment", "setup.sh", "sudo mkdir", "export A=/x:\\$A\nsudo mkdir", fixed=True),
    Case("job-environment", "setup.sh", "sudo mkdir",
         "export NCCL_DEBUG=INFO\nsrun --container-image x ./a\nsudo mkdir"),
    Case("job-environment", "setup.sh", "sudo mkdir", "// note\nsudo mkdir", fixed=True),
]  # fmt: skip
INFO_ALWAYS = {"auth-slurm-possible"}
OWN_TESTS = {"auth-slurm-possible", "hosts-incomplete", "template", "slow-link",
             "key-without-passphrase"}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.rule}-{c.new or c.old or c.facts}"[:60])
def test_breaking_one_thing_finds_it(case: Case) -> None:
    good = existing(GOOD, case.version, machines() if case.facts is not None else None)
    assert case.rule not in rule_ids(good) - INFO_ALWAYS
    view = case.view()
    judgements = [judgement for judgement in judge(view) if judgement.rule.id == case.rule]
    assert judgements, rule_ids(view)
    for judgement in judgements:
        finding = judgement.finding()
        assert finding.line >= 1 and finding.column >= 1 and finding.message and finding.hint
    if case.at:
        places = [
            (f.file, f.line, f.column) for f in (judgement.finding() for judgement in judgements)
        ]
        assert case.at in places
    after = rule_ids(corrected(view))
    assert (case.rule not in after) is case.fixed


def test_every_rule_has_a_pair() -> None:
    assert {case.rule for case in CASES} | OWN_TESTS == set(ALL)


def test_links_between_nodes_with_gpus() -> None:
    def slow_links(*speeds: int) -> list[str]:
        pairs = zip(machines().items(), speeds, strict=False)
        known = {n: replace(m, link_mbps=s) for (n, m), s in pairs}
        judged = judge(existing(GOOD, "24.11", known))
        return [
            judgement.problem.message for judgement in judged if judgement.rule.id == "slow-link"
        ]

    (text,) = slow_links(2500, 2500, 2500)
    # failures.md S004-18: 2.26 s for GPT-2 124M in fp32, 63.7 s for 7B in bf16.
    assert "node[0-2] has 2.5 Gb/s" in text and "2.3 s of GPT-2" in text and "63.6 s of 7B" in text
    (text,) = slow_links(10000, 1000, 10000)
    assert "node1 has 1 Gb/s" in text
    assert slow_links(10000, 25000, 0) == []
    assert slow_links(1000) == [], "a node alone sends nothing"


def test_keys_that_are_open() -> None:
    known = machines()
    known["node1"] = replace(known["node1"], open_keys=("/root/.ssh/id_rsa",))
    judged = judge(existing(GOOD, "24.11", known))
    problems = [
        judgement.problem for judgement in judged if judgement.rule.id == "key-without-passphrase"
    ]
    assert ["/root/.ssh/id_rsa on node1" in problem.message for problem in problems] == [
        False,
        True,
    ]
    assert "ssh-keygen -p -f /root/.ssh/id_rsa" in problems[1].hint


def test_nodes_that_hosts_does_not_name() -> None:
    files = {**GOOD, "slurm.conf": GOOD["slurm.conf"].replace("NodeAddr=192.168.1.[10-12] ", "")}
    assert "hosts-incomplete" not in rule_ids(existing(files))
    files["hosts"] = files["hosts"].replace("192.168.1.11 node1\n", "")
    assert "hosts-incomplete" in rule_ids(existing(files))


def test_auth_slurm_is_possible_since_23_11() -> None:
    assert "auth-slurm-possible" in rule_ids(existing(GOOD, "23.11"))
    assert "auth-slurm-possible" not in rule_ids(existing(GOOD, "23.02"))


def test_what_a_release_knows() -> None:
    conf = GOOD["slurm.conf"]
    cases = [
        ("CacheGroups=0\n", "removed-key", "21.08", "20.11"),
        ("CgroupAutomount=yes\n", "unknown-key", "21.08", ""),  # belongs in cgroup.conf
        ("MaxNodeCount=9\n", "key-too-new", "21.08", "22.05"),
        ("FastSchedule=1\n", "obsolete-key", "20.02", "19.05"),
        ("AccountingStorageLoc=x\n", "removed-key", "25.11", "25.05"),
    ]
    for line, rule, bad, good in cases:
        files = {**GOOD, "slurm.conf": line + conf}
        assert rule in rule_ids(existing(files, bad)), (line, bad)
        if good:
            assert rule not in rule_ids(existing(files, good)), (line, good)


def test_did_you_mean() -> None:
    def hint(line: str) -> str:
        view = existing({**GOOD, "slurm.conf": line + GOOD["slurm.conf"]})
        return next(
            judgement.problem.hint
            for judgement in judge(view)
            if judgement.rule.id == "unknown-key"
        )

    assert hint("SlurmctldHosts=a\n") == "did you mean SlurmctldHost?"
    assert "belongs in cgroup.conf" in hint("ConstrainDevices=yes\n")
    assert "lines that begin with NodeName" in hint("RealMemory=5\n")


def test_defaults_reach_the_nodes_below_them() -> None:
    conf = GOOD["slurm.conf"].replace(" RealMemory=124636", "")
    conf = conf.replace("NodeName=node", "NodeName=DEFAULT RealMemory=124636\nNodeName=node", 1)
    view = existing({**GOOD, "slurm.conf": conf})
    assert "real-memory-missing" not in rule_ids(view)
    below = conf.replace("PartitionName=", "NodeName=late NodeAddr=1.2.3.4 CPUs=2\nPartitionName=")
    assert "real-memory-missing" not in rule_ids(existing({**GOOD, "slurm.conf": below}))


def test_includes_are_read_in_place() -> None:
    node, _, rest = GOOD["slurm.conf"].partition("NodeName=")
    body, _, partition = rest.partition("PartitionName=")
    files = {
        **GOOD,
        "slurm.conf": f"{node}include nodes-%c.conf\nPartitionName={partition}",
        "nodes-lab.conf": f"NodeName={body}".replace("RealMemory=124636 ", ""),
    }
    view = existing(files)
    places = [
        (f.rule, f.file, f.line) for f in (judgement.finding() for judgement in serious(view))
    ]
    assert places == [("real-memory-missing", "nodes-lab.conf", 1)]


def test_no_password_is_reported() -> None:
    conf = GOOD["slurmdbd.conf"] + 'StoragePass="hush hush\nStoragePass=hushhush zqx\n'
    for judgement in judge(existing({**GOOD, "slurmdbd.conf": conf})):
        finding = str(judgement.finding())
        assert "hush" not in finding and "zqx" not in finding


def test_files_that_are_something_else() -> None:
    """False alarms of real repositories: Jinja templates, Ansible inventories called hosts."""
    template = GOOD["slurm.conf"].replace("ClusterName=lab", "ClusterName={{ name }}\n{% if x %}")
    assert rule_ids(existing({"slurm.conf": template})) == {"template"}
    assert rule_ids(existing({"hosts": "[head]\nn1\n\n[compute:vars]\nx=1\n"})) == set()
    files = {**GOOD, "setup.sh": "chown munge /etc/munge/munge.key\nmkdir -p /data/x\n"}
    assert not {"setup-munge-key", "setup-folders"} & rule_ids(existing(files))
    files["setup.sh"] = "mkdir -p /var/spool/slurmctld /var/spool\n"
    assert "setup-folders" not in rule_ids(existing(files))
    shared = GOOD["slurm.conf"].replace("NodeAddr=192.168.1.[10-12]", "NodeHostname=h NodeAddr=h")
    assert "node-names" not in rule_ids(existing({**GOOD, "slurm.conf": shared}))


@pytest.mark.parametrize("tracking", ["proctrack/linuxproc", "proctrack/pgid", ""])
def test_a_site_without_cgroups_is_reported_and_left(tracking: str) -> None:
    """slurmd does not start with cgroup plugins in a container without a writable hierarchy."""
    files = {name: text for name, text in GOOD.items() if name != "cgroup.conf"}
    files["slurm.conf"] = (
        files["slurm.conf"]
        .replace("ProctrackType=proctrack/cgroup\n", f"ProctrackType={tracking}\n" * bool(tracking))
        .replace("TaskPlugin=task/affinity,task/cgroup", "TaskPlugin=task/none")
    )
    view = existing(files, "24.11")
    problems = {judgement.rule.id: judgement for judgement in judge(view)}
    assert {"task-plugin", "devices-open"} <= set(problems)
    assert "--fix leaves it" in problems["task-plugin"].problem.hint
    after = corrected(view)
    assert after.slurm.text("TaskPlugin") == "task/none"
    assert after.slurm.text("ProctrackType") == tracking
    assert [source.kind for source in after.sources] == [source.kind for source in view.sources]
    assert "TaskPlugin=task/none: Corral writes" in cluster_file(after, view)


def test_a_site_with_cgroups_elsewhere_gets_them_everywhere() -> None:
    files = dict(GOOD)
    files["slurm.conf"] = files["slurm.conf"].replace("proctrack/cgroup", "proctrack/linuxproc")
    assert corrected(existing(files, "24.11")).slurm.text("ProctrackType") == "proctrack/cgroup"
