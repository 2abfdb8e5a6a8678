"""Every key Corral writes to gres.conf, cgroup.conf and slurmdbd.conf, with its reason. Data."""

from __future__ import annotations

from typing import Final

from corral.slurm.conf.key import ImpactWord, Key
from corral.slurm.version import SlurmVersion


def _gres(name: str, value: str, reason: str, source: str = "") -> Key:
    source = f"gres.conf(5), {source}" if source else "gres.conf(5)"
    return Key("gres.conf", name, value, reason, source, "restart", line="NodeName")


def _topology(name: str, value: str, reason: str) -> Key:
    return Key(
        "topology.conf", name, value, reason, "topology.conf(5)", "restart", line="SwitchName"
    )


def _cgroup(
    name: str,
    value: str,
    reason: str,
    *,
    impact: ImpactWord = "restart",
    source: str = "",
    since: SlurmVersion | None = None,
) -> Key:
    source = f"cgroup.conf(5), {source}" if source else "cgroup.conf(5)"
    return Key("cgroup.conf", name, value, reason, source, impact, since=since)


def _dbd(name: str, value: str, reason: str, impact: ImpactWord = "restart") -> Key:
    return Key("slurmdbd.conf", name, value, reason, "slurmdbd.conf(5)", impact)


OTHER: Final = (
    _topology(
        "SwitchName",
        "an island of network.mesh, or a switch of network.topology",
        "Jobs only span nodes on switches that are connected: so a job of several nodes stays on "
        "one island.",
    ),
    _topology("Nodes", "the island's nodes", "Each node hangs on its island's switch."),
    _topology(
        "Switches",
        "all islands that reach each other, with jobs: across-islands",
        "One switch above them lets a job use several; Slurm still prefers one.",
    ),
    _gres(
        "NodeName",
        "nodes whose GPUs are alike, folded",
        "One gres.conf serves all nodes: the controller ships it (configless).",
    ),
    _gres(
        "AutoDetect",
        "nvidia, where the node is set to detect",
        "Finds devices, cores and links without NVML; alone on its line, since a bare Name=gpu "
        "makes slurmd ignore what it detected.",
        "F12, F14",
    ),
    _gres("Name", "gpu", "The kind of resource."),
    _gres("Type", "as in Gres=", "All records of a node have a type, or none has.", "F14"),
    _gres(
        "File",
        "device files such as /dev/nvidia[0-1]",
        "The device cgroup guards these files, and a GPU that fell off the bus is noticed.",
        "F10, F13, F16",
    ),
    _cgroup(
        "CgroupPlugin",
        "cgroup/v2, or cgroup/v1 on v1 and hybrid mounts",
        "Said outright: on hybrid mounts cgroup/v2 is fatal, and a wrong guess would only show "
        "in slurmd's log.",
        impact="drain",
        source="F52",
    ),
    _cgroup(
        "IgnoreSystemd",
        "yes, on cgroup v2 without systemd",
        "There is no dbus to ask for a scope; never written where systemd runs.",
        impact="drain",
        source="F15",
        since=SlurmVersion(22, 5),
    ),
    _cgroup("ConstrainCores", "yes", "A job runs on the cores it was given, no others."),
    _cgroup(
        "ConstrainDevices",
        "yes",
        "The default is no: a job given one GPU could open the others.",
        source="F16",
    ),
    _cgroup(
        "ConstrainRAMSpace",
        "yes",
        "A job over its memory is killed, and its neighbour lives.",
        source="F16",
    ),
    _cgroup(
        "ConstrainSwapSpace",
        "yes, where the kernel accounts swap",
        "Else a job over its memory swaps instead, and slows the whole node. slurmd refuses it "
        "where the memory controller has no swap files.",
    ),
    _dbd("AuthType", "as in slurm.conf", "slurmctld and slurmdbd must agree.", "drain"),
    _dbd(
        "AuthAltTypes",
        "auth/jwt, when rest is on",
        "slurmrestd passes its user's token on to slurmdbd for accounting.",
    ),
    _dbd("AuthAltParameters", "as in slurm.conf", "The same key checks the token."),
    _dbd("DbdHost", "host name of the accounting node", "slurmdbd runs only on this host."),
    _dbd("SlurmUser", "slurm", "Must be SlurmUser of slurm.conf; the database knows this user."),
    _dbd("LogFile", "/var/log/slurm/slurmdbd.log", "A file that doctor and people can read."),
    _dbd(
        "PidFile",
        "/run/slurmdbd/slurmdbd.pid; /run/slurmdbd.pid before 23.11",
        "As SlurmctldPidFile: where the unit lets it write.",
    ),
    _dbd("StorageType", "accounting_storage/mysql", "The only database plugin there is."),
    _dbd(
        "StorageHost",
        "localhost",
        "MariaDB's client library takes the unix socket for this very word, and the socket tells "
        "the server who is asking.",
    ),
    _dbd(
        "StorageUser",
        "slurm",
        "Logged in by unix_socket: MariaDB trusts the kernel's word for the uid, so there is no "
        "password (no StoragePass) to keep, leak or rotate.",
    ),
    _dbd("StorageLoc", "slurm_acct_db", "Name of the database.", "drain"),
)
