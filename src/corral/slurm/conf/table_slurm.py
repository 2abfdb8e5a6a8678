"""Every key Corral writes to slurm.conf, with its reason. Data.

The reasons name slurm.conf(5) and the failure catalogue (F-numbers); impacts are those that
slurm.conf(5) of 23.02 states, which are the sternest.
"""

from __future__ import annotations

from typing import Final

from corral.slurm.conf.key import ImpactWord, Key
from corral.slurm.version import SlurmVersion

_MANUAL: Final = "slurm.conf(5)"


def _key(name: str, value: str, reason: str, impact: ImpactWord, source: str = "") -> Key:
    return Key(
        "slurm.conf", name, value, reason, f"{_MANUAL}, {source}" if source else _MANUAL, impact
    )


SLURM: Final = (
    _key(
        "ClusterName",
        "the cluster file's name",
        "Every daemon refuses to start without it; it names the cluster in the accounting "
        "database and is kept in StateSaveLocation, where another name is fatal.",
        "recreate",
        "F31",
    ),
    _key(
        "SlurmctldHost",
        "short host name(address) of the controller",
        "slurmctld runs only where the host name agrees; the address spares every node a look-up.",
        "drain",
        "F05, F53",
    ),
    _key(
        "SlurmUser",
        "slurm",
        "The controller must not run as root, and its uid must be the same on all nodes.",
        "drain",
        "F17",
    ),
    _key(
        "SlurmctldParameters",
        "enable_configless",
        "Nodes fetch these files from the controller, so no node can hold an old copy.",
        "restart",
        "F04",
    ),
    _key(
        "AuthType",
        "auth/slurm or auth/munge",
        "auth/slurm needs no further daemon and rotates keys on a live cluster (24.05); munge "
        "works with every release. All daemons must be stopped to change it.",
        "drain",
        "F01",
    ),
    _key(
        "CredType",
        "cred/slurm or cred/munge",
        "Job credentials are signed with the same key as messages; a leftover default would need "
        "munged beside auth/slurm.",
        "drain",
        "F03",
    ),
    _key(
        "AuthAltTypes",
        "auth/jwt, when rest is on",
        "slurmrestd's users show a JSON web token; Slurm's own daemons go on with AuthType.",
        "restart",
    ),
    _key(
        "AuthAltParameters",
        "jwt_key=/var/spool/slurmctld/jwt_hs256.key",
        "The key that signs tokens lives beside the controller's state, readable by slurm alone.",
        "restart",
    ),
    _key(
        "StateSaveLocation",
        "/var/spool/slurmctld",
        "Jobs survive a restart of the controller through it; the default /var/spool is not "
        "writable by slurm. Moving it means moving its content while slurmctld is stopped.",
        "drain",
        "F53",
    ),
    _key(
        "SlurmdSpoolDir",
        "/var/spool/slurmd",
        "Running jobs' scripts and sockets lie here: it must exist on each node and may not move "
        "under a running job.",
        "drain",
    ),
    _key(
        "SlurmctldLogFile",
        "/var/log/slurm/slurmctld.log",
        "A file that doctor and people can read, also where journald keeps nothing.",
        "reload",
    ),
    _key(
        "SlurmdLogFile",
        "/var/log/slurm/slurmd.log",
        "As SlurmctldLogFile, on each node.",
        "reload",
    ),
    _key(
        "SlurmctldPidFile",
        "/run/slurmctld/slurmctld.pid; /run/slurmctld.pid before 23.11",
        "Where the unit lets it write: since 23.11 the unit starts it as user slurm, with this "
        "RuntimeDirectory; before, as root without one.",
        "restart",
        "slurmctld.service",
    ),
    _key(
        "SlurmdPidFile",
        "/run/slurmd.pid",
        "slurmd runs as root; below /run/slurm it would miss its directory where the unit makes "
        "none (22.05).",
        "restart",
        "slurmd.service",
    ),
    _key(
        "ProctrackType",
        "proctrack/cgroup",
        "No process of a job escapes its end; the others lose processes that double-fork.",
        "restart",
        "F16",
    ),
    _key(
        "TaskPlugin",
        "task/affinity,task/cgroup",
        "task/affinity pins cores, task/cgroup confines memory and devices; without it a job "
        "with one GPU opens all of them.",
        "restart",
        "F16",
    ),
    _key(
        "JobAcctGatherType",
        "jobacct_gather/cgroup",
        "Memory and CPU figures of a job come from its cgroup, all processes counted. It may "
        "only change while no job runs.",
        "drain",
    ),
    _key(
        "PrologFlags",
        "Contain",
        "Makes the job's cgroup when the job starts, so that pam_slurm_adopt has a place to put "
        "a user's ssh login.",
        "drain",
    ),
    _key(
        "SelectType",
        "select/cons_tres",
        "Hands out cores, memory and GPUs one by one. Changing it loses every job.",
        "drain",
    ),
    _key(
        "SelectTypeParameters",
        "CR_Core_Memory",
        "Memory is a consumable: without it cgroup memory limits have no effect.",
        "restart",
        "cgroup.conf(5)",
    ),
    _key(
        "GresTypes",
        "gpu, when a node has one",
        "Without it every --gres=gpu is an invalid generic resource, whatever gres.conf says.",
        "restart",
        "F11",
    ),
    _key(
        "MpiDefault",
        "none",
        "PyTorch ranks bring their own rendezvous; srun --mpi=pmix still asks for PMIx.",
        "reload",
    ),
    _key(
        "PropagateResourceLimitsExcept",
        "MEMLOCK",
        "The submit shell's small locked-memory limit would break RDMA registration on nodes.",
        "reload",
        "F29",
    ),
    _key(
        "SrunPortRange",
        "60001-63000",
        "srun listens on the submit host; a fixed range can be opened in a firewall.",
        "reload",
        "F18",
    ),
    _key(
        "MessageTimeout",
        "30",
        "The default of 10 s is short for a busy controller with two cores or a node that reads "
        "from a slow disk; calls that time out are repeated and add load.",
        "reload",
    ),
    _key(
        "SlurmdTimeout",
        "120",
        "A dead node is marked down and its jobs requeued after two minutes, not five; below "
        "120 s large systems lose nodes under load.",
        "reload",
        "big_sys.html",
    ),
    _key(
        "ReturnToService",
        "2",
        "A node that was down comes back once it registers with a valid configuration, also "
        "after a reboot nobody planned.",
        "reload",
        "F39",
    ),
    _key(
        "AccountingStorageType",
        "accounting_storage/slurmdbd, when accounting is on",
        "sacct, fair share and limits need the database daemon.",
        "restart",
    ),
    _key(
        "AccountingStorageHost",
        "host name of the accounting node",
        "Where slurmdbd listens; without it slurmctld asks localhost.",
        "restart",
        "F38",
    ),
    _key(
        "AccountingStorageTRES",
        "gres/gpu, when a node has one and accounting is on",
        "GPUs appear in AllocTRES of nodes and jobs, and in sacct. Without slurmdbd slurmctld dies "
        "of it: slurmdbd is required to run with TRES gres/gpu.",
        "restart",
    ),
    _key(
        "AccountingStorageEnforce",
        "associations,limits,qos, when accounts, qos or limits are declared",
        "Without it every limit is written down and none is held to; with it a user without an "
        "account cannot submit.",
        "restart",
    ),
    _key(
        "PriorityType",
        "priority/multifactor, when shares or QOS priorities are declared",
        "basic is first come, first served: shares would mean nothing.",
        "restart",
    ),
    _key(
        "PriorityWeightFairshare",
        "100000, with PriorityType",
        "Who used least of their share comes first: more than all other factors together.",
        "reload",
    ),
    _key(
        "PriorityWeightQOS",
        "10000, with PriorityType",
        "Between equals the QOS decides; the default 0 would drop its priority.",
        "reload",
    ),
    _key(
        "PriorityWeightAge",
        "1000, with PriorityType",
        "And then who waits longest, so that nobody waits for ever.",
        "reload",
    ),
    _key(
        "PriorityDecayHalfLife",
        "7-0, with PriorityType",
        "What was used a week ago counts half.",
        "reload",
    ),
    _key(
        "PreemptType",
        "preempt/qos, when a QOS preempts another; preempt/partition_prio with proof.every",
        "Which jobs give way follows from the QOS, or from the partition's tier.",
        "restart",
    ),
    _key(
        "PreemptMode",
        "REQUEUE with preempt/qos, CANCEL with preempt/partition_prio",
        "A job that gives way starts again later; suspended ones would keep their GPU's memory.",
        "restart",
    ),
    _key(
        "Prolog",
        "/etc/slurm/prolog.sh, with slurm.prolog",
        "Runs the scripts of prolog.d on each node of a job; one that fails drains the node with "
        "its name and output as the reason.",
        "reload",
        "F51",
    ),
    _key(
        "Epilog",
        "/etc/slurm/epilog.sh, with slurm.prolog",
        "Runs the scripts of epilog.d after the job: what it left would hold the next one back.",
        "reload",
        "F51",
    ),
    _key(
        "PrologEpilogTimeout",
        "slurm.prolog.minutes, in seconds",
        "By default a script that hangs holds its node for ever.",
        "reload",
        "F51",
    ),
    _key(
        "SchedulerParameters",
        "nohold_on_prolog_fail, with slurm.prolog; bf_interval=5 without accounting before 24.11",
        "A job whose node failed its prolog starts on another one; by default it is held until "
        "somebody releases it. Without slurmdbd older releases may start waiting jobs by backfill "
        "alone, every 30 s by default.",
        "reload",
        "F51",
    ),
    Key(
        "slurm.conf",
        "MetricsType",
        "metrics/openmetrics, with services: metrics",
        "slurmctld itself tells Prometheus of jobs, nodes, partitions and its scheduler.",
        "metrics.html",
        "restart",
        since=SlurmVersion(25, 11),
    ),
    _key(
        "HealthCheckProgram",
        "/usr/local/sbin/corral-health, unless health.every is off",
        "Each node looks at itself and is drained, with the check's id as the reason, before a job "
        "meets what is broken.",
        "reload",
        "F87",
    ),
    _key(
        "HealthCheckInterval",
        "health.every, in seconds",
        "0, the default, is never; slurmd ends a run after 60 s.",
        "reload",
    ),
    _key(
        "HealthCheckNodeState",
        "ANY,CYCLE",
        "Drained nodes too, or none would be taken back; one after the other over the interval, so "
        "that they do not all ask the controller and the file servers at once.",
        "reload",
    ),
    _key(
        "TCPTimeout",
        "15, over a mesh",
        "A first packet may wait for a handshake and a relay; the default is 2 s.",
        "reload",
        "F33",
    ),
    _key(
        "BatchStartTimeout",
        "60, over a mesh",
        "A batch job may begin late behind a slow link; the default is 10 s.",
        "reload",
        "F33",
    ),
    _key(
        "TreeWidth",
        "65533, over a mesh",
        "The controller speaks to each node itself: a node that hands messages on would add its "
        "own link's latency, and one that is reached by TCP only can hand on nothing.",
        "reload",
        "F33",
    ),
    _key(
        "TopologyPlugin",
        "topology/tree, with islands of network.mesh or network.topology; or topology/block",
        "Jobs of several nodes stay where the data network is: topology.conf says where.",
        "restart",
    ),
    _key(
        "DebugFlags",
        "NO_CONF_HASH, with nodes that have no init",
        "Their files say no cgroups and differ on purpose; slurmctld would log that at each "
        "registration.",
        "reload",
        "F04",
    ),
)
