"""The table of all checks, and the reference page made from it."""

from __future__ import annotations

from typing import Final

from corral.inspect.rules import rules_table
from corral.prove import launch
from corral.prove.check import ALL_CORES, Check
from corral.prove.checks import access, isolation, ranks, rest, slots, smoke, storage
from corral.prove.checks.health import HEALTH_CHECKS
from corral.prove.checks.nccl import NCCL_CHECKS
from corral.prove.checks.tcpxo import TCPXO_CHECKS
from corral.prove.context import ProveContext
from corral.spec.nodes import guarded_of

GROUPS: Final = (
    "smoke",
    "concurrency",
    "isolation",
    "multinode",
    "accounting",
    "rest",
    "storage",
    "access",
    "health",
)
SEVERAL: Final = 2


def _gpus(ctx: ProveContext) -> str:
    declared = any(node.group.gpu_kinds for node in ctx.nodes if node.name in ctx.compute)
    return "" if declared else "no node declares a GPU"


def _several(ctx: ProveContext) -> str:
    return "" if len(ctx.compute) >= SEVERAL else "the cluster has one compute node"


def _accounting(ctx: ProveContext) -> str:
    return "" if ctx.spec.slurm.accounting else "slurm.accounting is false"


def _rest(ctx: ProveContext) -> str:
    return "" if ctx.spec.slurm.rest else "slurm.rest is false"


def _storage(ctx: ProveContext) -> str:
    return "" if ctx.spec.storage else "no shared folder is declared"


def _mounts(ctx: ProveContext) -> str:
    declared = any(storage.kind != "provider" for storage in ctx.spec.storage)
    return "" if declared else "no folder is mounted by NFS or by you"


def _directory(ctx: ProveContext) -> str:
    return "" if ctx.spec.directory else "no directory is declared"


def _access(ctx: ProveContext) -> str:
    return "" if guarded_of(ctx.spec) else "users may log in without a job"


CHECKS: Final[tuple[Check, ...]] = (
    Check(
        id="smoke.reached",
        title="All nodes answer",
        group="smoke",
        proves="Each node answers the questions of the smoke checks, and none takes 10 s and five "
        "times as long as the fastest.",
        how="One script on every node, all at once, by SSH. The limits of all checks grow with the "
        "slowest answer and the number of nodes.",
        breaks="A node that is off or hangs; a disk, a memory or a network that is worn out.",
        hint="other checks of these nodes are not made, as nothing can be read there: look at the "
        "node's power, load, memory and disks, and at the path to it (F69); `corral doctor` asks "
        "it as well",
        measure=smoke.reached,
    ),
    Check(
        id="smoke.nodes",
        title="All nodes are up",
        group="smoke",
        proves="slurmctld knows every declared compute node, and jobs can run there now.",
        how="Reads state and reason of each node from `scontrol show nodes`.",
        breaks="A drained or stopped node; RealMemory, CPUs or GPUs above what the machine has.",
        hint="see the reason: inval is a wrong RealMemory, CPUs or GPU count (F07, F09, F10), "
        "down* a slurmd that does not answer (F18, F01), drained needs `corral resume NODE` "
        "once its cause is gone (F39, F51)",
        measure=smoke.nodes,
        lead=True,
    ),
    Check(
        id="smoke.services",
        title="Services are active",
        group="smoke",
        proves="slurmd on each compute node; slurmctld, slurmdbd with MariaDB and slurmrestd on "
        "the controller; munge where it authenticates.",
        how="Asks systemd on each node.",
        breaks="A stopped or failed unit.",
        hint="read `journalctl -u UNIT` on the node named; `corral apply` starts what is stopped "
        "(slurmdbd: F38, munge: F03, slurmd: F13, F15)",
        measure=smoke.services,
    ),
    Check(
        id="smoke.names",
        title="Names resolve to real addresses",
        group="smoke",
        proves="Each node finds each node's name, its own too, at the same address, not on 127.x.",
        how="`getent ahostsv4` for all names on each node, against each node's own address.",
        breaks="The installer's `127.0.1.1 <own name>` line in /etc/hosts; a missing name.",
        hint="delete the node's name from every 127.* line of its /etc/hosts (F06); `corral apply` "
        "writes a block with all names (F05, F66)",
        measure=smoke.names,
    ),
    Check(
        id="smoke.directory",
        title="The directory answers on each node",
        group="smoke",
        proves="On each node a server of the directory is reached by TLS with a certificate that "
        "is trusted, takes the password and shows the base; SSSD knows each group of the file.",
        how="`ldapsearch` of the base with the node's password file, and `getent -s sss group`.",
        breaks="A server that is down, a changed password or certificate, a renamed group.",
        hint="correct what the sentence names in the cluster file, then `corral up`; people who "
        "were seen before are known for a time without a server, new ones are not (F446)",
        measure=smoke.directory,
        applies=_directory,
    ),
    Check(
        id="smoke.versions",
        title="One Slurm version",
        group="smoke",
        proves="Installed and running slurmctld and slurmd have the same version on all nodes.",
        how="`slurmd -V` and `slurmctld -V` on disk, and what the running daemons report.",
        breaks="One node with other packages, or upgraded but not restarted.",
        hint="install one version everywhere and restart the daemons, slurmdbd first, then "
        "slurmctld, then slurmd (F19)",
        measure=smoke.versions,
    ),
    Check(
        id="smoke.clocks",
        title="Clocks agree",
        group="smoke",
        proves="Clocks differ by less than 2 s (warning) and 30 s (failure); at 300 s "
        "authentication ends.",
        how="Reads all clocks at once; only what the round trip cannot explain counts.",
        breaks="A clock that runs ahead or behind.",
        hint="start chrony on the node named and check that it reaches a time server (F02)",
        measure=smoke.clocks,
    ),
    Check(
        id="smoke.config",
        title="Same settings everywhere",
        group="smoke",
        proves="Every node works from the settings that slurmctld runs.",
        how="HASH_VAL of `scontrol show config` on each node, and sha256 of slurm.conf, "
        "cgroup.conf and gres.conf where the node reads them, against slurmctld's folder.",
        breaks="A file changed on one node, or on the controller without reconfigure.",
        hint="run `scontrol reconfigure` on the controller; a node that keeps its own file: delete "
        "/etc/slurm/slurm.conf there and restart slurmd (F04)",
        measure=smoke.config,
    ),
    Check(
        id="smoke.registered",
        title="Hardware is registered",
        group="smoke",
        proves="CPUs and memory of each node in Slurm are those of the machine, GPUs those of "
        "the cluster file.",
        how="Compares `scontrol show nodes` with the machine's facts and the declared GPUs.",
        breaks="A changed CPUs=, RealMemory= or Gres=; GresTypes missing.",
        hint="`corral plan` shows the difference; too few GPUs: one fell off the bus (F10) or "
        "GresTypes is missing (F11); memory of 1 MiB: RealMemory is missing (F08)",
        measure=smoke.registered,
    ),
    Check(
        id="smoke.launch",
        title="srun runs on every node",
        group="smoke",
        proves="A job of the job user starts on every usable node and prints its own host name.",
        how="One srun over all nodes of each partition, one GPU each where there are GPUs.",
        breaks="Node unreachable from the controller, prolog failing, no usable node.",
        hint="srun's message names the cause: ports 6818 or srun's own closed (F18), a prolog that "
        "fails (F51), SlurmUser's uid differs (F17), unknown user on the node",
        measure=launch.launch,
        cores=1,
    ),
    Check(
        id="concurrency.slots",
        title="As many jobs as slots, one more waits",
        group="concurrency",
        proves="N one-GPU jobs (N: all GPUs) run at the same time and one more waits for "
        "resources; without GPUs the same with cores.",
        how="Submits N+1 jobs, checks once that N are running and one is pending, releases them, "
        "and compares start and end in their records.",
        breaks="More or fewer GPUs configured than declared; too few cores or too little memory.",
        hint="more ran than there are GPUs: Gres= counts too many; fewer: a job takes more than "
        "one share of memory or cores (DefMemPerCPU, SelectTypeParameters), or nodes lack GPUs "
        "(F10, F11)",
        measure=slots.slots,
        needs=("smoke.launch",),
        cores=ALL_CORES,
    ),
    Check(
        id="isolation.devices",
        title="A job reaches only its own GPU",
        group="isolation",
        proves="A job with one GPU opens that one and gets EPERM on each other one of the node; "
        "a job without GPUs gets EPERM on all.",
        how="Opens every /dev/nvidia* from both kinds of job on each node. `No such device` "
        "counts as let in: the cgroup let it through, only the driver is missing.",
        breaks="ConstrainDevices=no, TaskPlugin without task/cgroup.",
        hint="set ConstrainDevices=yes in cgroup.conf and task/cgroup in TaskPlugin (F16); "
        "`corral apply` does both",
        measure=isolation.devices,
        applies=_gpus,
        needs=("smoke.launch",),
        cores=1,
    ),
    Check(
        id="isolation.memory",
        title="A greedy job dies, its neighbour lives",
        group="isolation",
        proves="A job that takes more memory than it asked for is killed on each node, and a job "
        "next to it ends normally.",
        how="Starts an idling job and a greedy one on each node at the same time.",
        breaks="ConstrainRAMSpace=no; no memory controller; swap that takes the rest.",
        hint="set ConstrainRAMSpace=yes in cgroup.conf, and ConstrainSwapSpace=yes where there is "
        "swap (F15)",
        measure=isolation.memory,
        needs=("smoke.launch",),
        cores=2,
    ),
    Check(
        id="isolation.cores",
        title="A job keeps to its cores",
        group="isolation",
        proves="A job with one core of several cannot run on the others, even if it tries.",
        how="The job widens its own affinity and then reads Cpus_allowed_list.",
        breaks="ConstrainCores=no, TaskPlugin without task/cgroup.",
        hint="set ConstrainCores=yes in cgroup.conf and TaskPlugin=task/affinity,task/cgroup (F15)",
        measure=isolation.cores,
        needs=("smoke.launch",),
        cores=1,
    ),
    Check(
        id="multinode.ranks",
        title="One job spans all nodes",
        group="multinode",
        proves="A job over all nodes of a partition has one rank on each, numbered 0 to N-1.",
        how="One srun; each rank prints its number, its node and how many ranks it knows of.",
        breaks="A node that cannot start its share; srun's ports closed.",
        hint="open srun's ports between nodes and controller (F18); see srun's message",
        measure=ranks.ranks,
        applies=_several,
        needs=("smoke.launch",),
        cores=1,
    ),
    Check(
        id="multinode.tcp",
        title="Ranks reach each other",
        group="multinode",
        proves="Ranks on different nodes connect to each other over the nodes' addresses, in both "
        "directions (up to 16 nodes all pairs, beyond that a ring and the first node).",
        how="Each rank listens on a free port and calls the others; a call counts when the called "
        "rank reports it.",
        breaks="A firewall or a missing route between two nodes.",
        hint="open all TCP ports between the nodes (F18); wrong interface or subnet: F26, F37; "
        "rendezvous on 127.x: F06, F30",
        measure=ranks.tcp,
        applies=_several,
        needs=("smoke.launch",),
        cores=1,
    ),
    Check(
        id="multinode.mpi",
        title="MPI ranks find each other",
        group="multinode",
        proves="Ranks of one job exchange words through Slurm's PMI-2; where all nodes have one "
        "MPI library, it adds up all ranks over Slurm's PMIx (Open MPI) or PMI-2 (MPICH).",
        how="srun --mpi=pmi2 with a rank that speaks PMI-2 itself, then --mpi=pmix with the nodes' "
        "own library, loaded by Python.",
        breaks="Slurm's PMI plugin missing on a node; another library on one of them.",
        hint="each rank alone: library and --mpi speak different words (`srun --mpi=list`; Open "
        "MPI 5 speaks PMIx only); a plugin missing on a node: the same Slurm packages; a port: F18",
        measure=ranks.hello,
        applies=_several,
        needs=("smoke.launch",),
        cores=1,
    ),
    *NCCL_CHECKS,
    *TCPXO_CHECKS,
    Check(
        id="accounting.records",
        title="Jobs are recorded",
        group="accounting",
        proves="The proof's own job is in the database as COMPLETED, with its nodes and GPUs.",
        how="Asks sacct until slurmctld has handed the record over, at most 15 s.",
        breaks="slurmdbd or MariaDB stopped; AccountingStorageTRES without gres/gpu.",
        hint="see `systemctl status slurmdbd mariadb` on the controller (F38); GPUs missing: "
        "AccountingStorageTRES=gres/gpu",
        measure=launch.accounting,
        applies=_accounting,
        needs=("smoke.launch",),
    ),
    Check(
        id="rest.answers",
        title="REST answers with a token",
        group="rest",
        proves="slurmrestd gives a node's record to a user with a valid token.",
        how="Makes a token of 60 s and asks on loopback; the token travels by stdin only.",
        breaks="slurmrestd stopped; the JWT key missing or changed under slurmctld.",
        hint="see `journalctl -u slurmrestd`; no token or 511: AuthAltTypes=auth/jwt and the key "
        "file must be known to slurmctld, restart it after the key changed",
        measure=rest.answers,
        lead=True,
        applies=_rest,
    ),
    Check(
        id="rest.refuses",
        title="REST refuses without a token",
        group="rest",
        proves="A request without a token, or with a forged one, is refused.",
        how="Asks for the same record without a token (401) and with the last characters changed.",
        breaks="Something on the port that answers anyone, such as an open proxy.",
        hint="slurmrestd must run with `-a rest_auth/jwt` and nothing else may answer on its port",
        measure=rest.refuses,
        lead=True,
        applies=_rest,
    ),
    Check(
        id="rest.loopback",
        title="REST listens on loopback only",
        group="rest",
        proves="slurmrestd's port is open on 127.0.0.1 and on no other address.",
        how="Reads the listening sockets in /proc/net/tcp and tcp6 on the controller.",
        breaks="slurmrestd bound to 0.0.0.0, the default of the package's unit.",
        hint="slurmrestd speaks plain HTTP: bind it to 127.0.0.1:6820; `corral apply` writes that",
        measure=rest.loopback,
        lead=True,
        applies=_rest,
    ),
    Check(
        id="storage.shared",
        title="Shared folders are shared",
        group="storage",
        proves="What the job user writes on each node into each shared folder is read, with the "
        "same content, on others (the next one, and all read the first one's).",
        how="Writes one small file per node and folder, reads it elsewhere, removes it.",
        breaks="A folder that is not mounted on one node, is read-only, or closed to the user.",
        hint="check mount and mode of the folder on the node named (mode 1777, or the user's own); "
        "uids must be equal on all nodes (F17), root-squash: F41",
        measure=storage.shared,
        applies=_storage,
    ),
    Check(
        id="storage.mounts",
        title="The right folder answers on each node",
        group="storage",
        proves="Each node has the declared folder of the declared server mounted, it answers, and "
        "root of a client is squashed there, or not, as declared; no user can replace the first "
        "folder, which has the code of jobs.",
        how="stat with a deadline, /proc/mounts, an empty file that root makes and removes, and "
        "owner and mode of each folder on the path.",
        breaks="A folder unmounted on one node, mounted from elsewhere, or with a stale handle; an "
        "export with no_root_squash; a first folder open to all without the sticky bit (F230).",
        hint="`corral plan` shows what is not mounted as declared, `corral apply` mounts it; a "
        "server that is down: start it, hard mounts then go on; root-squash: F41",
        measure=storage.mounts,
        applies=_mounts,
    ),
    Check(
        id="access.adopt",
        title="Logging in needs a job",
        group="access",
        proves="On nodes with access.ssh: jobs_only a user without a job is refused, with one is "
        "let in, and the session is in the job's cgroup with the job's GPUs only; Corral's own "
        "login user is let in without one.",
        how="Logs in through each node's own sshd and PAM with a key that lives as long as the "
        "check, before and while a job of the job user runs there.",
        breaks="pam_slurm_adopt's line missing from /etc/pam.d/sshd; pam_systemd, which moves the "
        "session out of the job's cgroup.",
        hint="`corral apply` writes /etc/pam.d/sshd; refused for another reason: AllowUsers or "
        "AllowGroups in sshd_config; a session outside of the job: PrologFlags=Contain is missing, "
        "or cgroups are off (F16)",
        measure=access.adopt,
        applies=_access,
        needs=("smoke.launch",),
        cores=ALL_CORES,
    ),
    *HEALTH_CHECKS,
)


def checks_page() -> str:
    """The reference page of all checks, as Markdown."""
    out = [
        "# Checks",
        "",
        "Generated from `corral.prove.catalog`; do not edit. `corral prove` runs these checks and "
        "keeps the evidence of each.",
        "A check that another one needs and that failed makes the other one `skip`. Every check "
        "has a test that breaks a real cluster and sees it fail: `tests/embedded/prove_breaks.py` "
        "lists them.",
        "",
    ]
    for group in GROUPS:
        out += [f"## {group}", ""]
        for check in (check for check in CHECKS if check.group == group):
            out += [f"### {check.id}: {check.title}", ""]
            out += [f"- Proves: {check.proves}", f"- How: {check.how}"]
            out += [f"- Fails when: {check.breaks}", f"- Hint: {check.hint}."]
            if check.needs:
                out.append(f"- Needs: {', '.join(f'`{need}`' for need in check.needs)}.")
            out.append("")
    out += [
        "## Facts that several observers judge",
        "",
        "Each of these facts is found by one rule (`src/corral/inspect/rules.py`); who uses it "
        "decides what it means there: a check of the proof, a failure that `corral doctor` knows, "
        "a line of `corral status`, a check of the health program on nodes, a column of the page, "
        "the refusal of a provider.",
        "",
        rules_table(),
        "",
    ]
    return "\n".join(out)
