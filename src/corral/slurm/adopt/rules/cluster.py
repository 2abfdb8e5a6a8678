"""Rules about slurm.conf's own lines: controller, authentication, scheduling, accounting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.slurm.adopt.rule import E, I, Problem, Rule, W
from corral.slurm.adopt.rules.keys import drops
from corral.slurm.adopt.source import Edit, Kind
from corral.slurm.adopt.view import Existing, Setting
from corral.slurm.version import SlurmVersion
from corral.spec.findings import Level, shown

_MANUAL: Final = "slurm.conf(5)"
_FIRST: Final = ("SlurmctldHost", "ControlMachine", "AuthType", "SlurmUser", "NodeName")
NODES: Final = ("NodeName", "PartitionName")


def there(existing: Existing) -> bool:
    """Whether there is a slurm.conf to speak of: not a mere list of nodes for an Include."""
    conf = existing.slurm
    return bool(conf) and any(
        p.line.pairs
        and p.line.pairs[0].key.lower() not in ("nodename", "partitionname", "downnodes", "nodeset")
        for p in conf.lines
    )


def _missing(existing: Existing, key: str) -> bool:
    return there(existing) and existing.slurm.get(key) is None


def _adds(existing: Existing, text: str, *before: str) -> tuple[Edit, ...]:
    return (existing.slurm.adds(text, *(before or NODES)),)


def cluster_name(existing: Existing) -> Iterator[Problem]:
    """ClusterName is missing."""
    if _missing(existing, "ClusterName"):
        yield Problem(
            existing.slurm.spot,
            "ClusterName is missing: every daemon and command ends with "
            '"Unable to process configuration file"',
            "write ClusterName=cluster, or the name that slurmdbd knows it by",
            _adds(existing, "ClusterName=cluster", *_FIRST),
            where="ClusterName",
        )


def controller(existing: Existing) -> Iterator[Problem]:
    """No controller, or the old spelling of it."""
    if not there(existing):
        return
    old = existing.slurm.get("ControlMachine")
    new = existing.slurm.get("SlurmctldHost")
    if old is None and new is None:
        yield Problem(
            existing.slurm.spot,
            "no SlurmctldHost: no daemon knows its controller",
            "write SlurmctldHost=NAME(ADDRESS), NAME as hostname -s says on the controller",
            where="SlurmctldHost",
            level=Level.ERROR,
        )
    for pair in (("ControlMachine", "ControlAddr"), ("BackupController", "BackupAddr")):
        yield from _old_controller(existing, *pair, replaced=new is not None)


def _old_controller(
    existing: Existing, machine: str, address: str, *, replaced: bool
) -> Iterator[Problem]:
    old, addr = existing.slurm.get(machine), existing.slurm.get(address)
    if old is None:
        return
    if replaced:
        edits = drops(old) + (drops(addr) if addr else ())
        message = f"{machine} is ignored with an error, since SlurmctldHost is there"
        yield Problem(old.spot, message, "leave it out", edits, where=machine)
        return
    value = f"{old.value}({addr.value})" if addr and addr.value != old.value else old.value
    yield Problem(
        old.spot,
        f"{machine} is the old spelling; SlurmctldHost took its place in 18.08",
        f"write SlurmctldHost={value}",
        (old.whole(f"SlurmctldHost={value}"), *(drops(addr) if addr else ())),
        where=machine,
    )


def slurm_user(existing: Existing) -> Iterator[Problem]:
    """The controller runs as root."""
    found = existing.slurm.get("SlurmUser")
    if not there(existing) or (found and found.value not in ("root", "0")):
        return
    message = "slurmctld runs as root" + ("" if found else ", the default of SlurmUser")
    edits = (found.becomes("slurm"),) if found else _adds(existing, "SlurmUser=slurm", *_FIRST[2:])
    yield Problem(
        found.spot if found else existing.slurm.spot, message,
        "write SlurmUser=slurm, with one numeric id on all nodes; it must own StateSaveLocation",
        edits, where="SlurmUser",
    )  # fmt: skip


def state_save(existing: Existing) -> Iterator[Problem]:
    """State in a place that does not last or is not its own."""
    found = existing.slurm.get("StateSaveLocation")
    if there(existing) and found is None:
        yield Problem(
            existing.slurm.spot,
            "no StateSaveLocation: the default /var/spool is not writable by SlurmUser",
            "write StateSaveLocation=/var/spool/slurmctld",
            _adds(existing, "StateSaveLocation=/var/spool/slurmctld"),
            where="StateSaveLocation",
        )
    elif found and found.value.startswith(("/tmp", "/run", "/var/run", "/dev/shm")):  # noqa: S108
        yield Problem(
            found.spot,
            f"{shown(found.value)} does not outlive a boot: all jobs are lost with it",
            "write StateSaveLocation=/var/spool/slurmctld, and move what lies there while "
            "slurmctld is stopped",
            where="StateSaveLocation",
        )
    spool = existing.slurm.get("SlurmdSpoolDir")
    if found and spool and found.value.rstrip("/") == spool.value.rstrip("/"):
        yield Problem(
            spot=spool.spot,
            message="SlurmdSpoolDir and StateSaveLocation are one folder: on the controller the "
            "daemons would write over each other's files",
            hint="write SlurmdSpoolDir=/var/spool/slurmd",
            level=Level.ERROR if set(existing.controllers) & set(existing.node_names) else None,
            where="SlurmdSpoolDir",
        )


def authentication(existing: Existing) -> Iterator[Problem]:
    """Which authentication, and whether the parts agree."""
    auth, cred = existing.slurm.get("AuthType"), existing.slurm.get("CredType")
    version = existing.version
    if auth and auth.value == "auth/none":
        message = "auth/none lets everybody be anybody"
        yield Problem(auth.spot, message, "write AuthType=auth/munge", level=Level.ERROR)
    if auth and auth.value == "auth/slurm" and version and version < SlurmVersion(23, 11):
        message = f"auth/slurm came with 23.11, and this is {version.release}"
        edits = (auth.becomes("auth/munge"),)
        yield Problem(auth.spot, message, "write AuthType=auth/munge", edits, level=Level.ERROR)
    if auth and cred and auth.value.rpartition("/")[2] != cred.value.rpartition("/")[2]:
        right = f"cred/{auth.value.rpartition('/')[2]}"
        yield Problem(
            cred.spot, f"{cred.value} beside {auth.value} needs two kinds of keys",
            f"write CredType={right}", (cred.becomes(right),), where="CredType",
        )  # fmt: skip


def auth_slurm_possible(existing: Existing) -> Iterator[Problem]:
    """Munge where Slurm's own authentication would do."""
    auth = existing.slurm.get("AuthType")
    if auth and auth.value == "auth/munge":
        yield Problem(
            auth.spot,
            "auth/munge needs one more daemon with its own key on every node; auth/slurm is there "
            "since 23.11, and rotates keys on a live cluster since 24.05",
            "keep it while jobs run; to change it all daemons stop: AuthType=auth/slurm, "
            "CredType=cred/slurm and one /etc/slurm/slurm.key",
            where="AuthType",
        )


def select(existing: Existing) -> Iterator[Problem]:
    """A selection plugin that is gone, or that cannot hand out GPUs and memory."""
    kind, how = existing.slurm.get("SelectType"), existing.slurm.get("SelectTypeParameters")
    gone = existing.version is None or existing.version >= SlurmVersion(23, 11)
    if kind and kind.value in ("select/cons_res", "cons_res") and gone:
        yield Problem(
            kind.spot,
            "select/cons_res is gone since 23.11",
            "write SelectType=select/cons_tres; the same parameters hold",
            (kind.becomes("select/cons_tres"),),
            level=Level.ERROR if existing.version else Level.WARNING,
            where="SelectType",
        )
    linear = kind and kind.value.endswith("linear")
    if linear and existing.gpus:
        yield Problem(
            kind.spot if kind else existing.slurm.spot,
            "select/linear gives whole nodes: two jobs cannot share a node's GPUs",
            "write SelectType=select/cons_tres and SelectTypeParameters=CR_Core_Memory",
            where="SelectType",
        )
    if how and not linear and "memory" not in how.value.lower():
        yield Problem(
            how.spot,
            f"memory is no resource with {shown(how.value)}: ConstrainRAMSpace limits no job, and "
            "jobs that together need more than there is are started",
            "write SelectTypeParameters=CR_Core_Memory",
            (how.becomes("CR_Core_Memory"),) if "," not in how.value else (),
            where="SelectTypeParameters",
        )


def accounting(existing: Existing) -> Iterator[Problem]:
    """No accounting, or one that is gone."""
    if not there(existing):
        return
    kind = existing.slurm.get("AccountingStorageType")
    word = kind.value.rpartition("/")[2].lower() if kind else "none"
    if word == "none":
        yield Problem(
            kind.spot if kind else existing.slurm.spot,
            "no accounting: sacct, fair share, limits and GPU hours do not exist",
            "run slurmdbd and write AccountingStorageType=accounting_storage/slurmdbd and "
            "AccountingStorageHost=NAME",
            where="AccountingStorageType",
        )
    elif word in ("filetxt", "mysql", "pgsql") and kind:
        yield Problem(
            kind.spot, f"{shown(kind.value)} is not for slurm.conf: slurmctld refuses to start",
            "write AccountingStorageType=accounting_storage/slurmdbd",
            level=Level.ERROR, where="AccountingStorageType",
        )  # fmt: skip
    tracked = existing.slurm.get("AccountingStorageTRES")
    if tracked and "gres/" in tracked.value and word == "none":
        yield Problem(
            tracked.spot,
            "slurmdbd is required to run with TRES gres/...: slurmctld refuses to start",
            "leave it out until slurmdbd is there", drops(tracked),
            level=Level.ERROR, where="AccountingStorageTRES",
        )  # fmt: skip


def limits(existing: Existing) -> Iterator[Problem]:
    """The submit shell's limit of locked memory reaches the job."""
    if not existing.gpus or not there(existing):
        return
    spared = existing.slurm.text("PropagateResourceLimitsExcept").upper()
    only = existing.slurm.get("PropagateResourceLimits")
    if "MEMLOCK" in spared or "ALL" in spared or (only and "MEMLOCK" not in only.value.upper()):
        return
    yield Problem(
        existing.slurm.spot,
        "the submit shell's limit of locked memory is carried to the nodes, and RDMA fails there",
        "write PropagateResourceLimitsExcept=MEMLOCK",
        _adds(existing, "PropagateResourceLimitsExcept=MEMLOCK")
        if not spared and not only else (),
        where="PropagateResourceLimitsExcept",
    )  # fmt: skip


def return_to_service(existing: Existing) -> Iterator[Problem]:
    """Nodes that stay down after a boot."""
    found = existing.slurm.get("ReturnToService")
    if not there(existing) or (found and found.value == "2"):
        return
    yield Problem(
        found.spot if found else existing.slurm.spot,
        f"ReturnToService is {found.value if found else '0, the default'}: a node that booted "
        'without being asked stays down with "Node unexpectedly rebooted"',
        "write ReturnToService=2",
        (found.becomes("2"),) if found else _adds(existing, "ReturnToService=2"),
        where="ReturnToService",
    )


def ports(existing: Existing) -> Iterator[Problem]:
    """Ports that a firewall cannot know, and ports used twice."""
    if not there(existing):
        return
    if existing.slurm.get("SrunPortRange") is None:
        yield Problem(
            existing.slurm.spot,
            "srun listens on any port of the submit host: a firewall there makes it hang",
            "write SrunPortRange=60001-63000 and open it, beside 6817 to 6819",
            _adds(existing, "SrunPortRange=60001-63000"),
            where="SrunPortRange",
        )
    used: dict[str, Setting] = {}
    names = {"SlurmctldPort": "6817", "SlurmdPort": "6818", "AccountingStoragePort": "6819"}
    for key, port in names.items():
        found = existing.slurm.get(key)
        for other, setting in used.items():
            if found and found.value == setting.value:
                yield Problem(
                    found.spot, f"{key} and {other} are both {shown(found.value)}",
                    f"write {key}={port}", level=Level.ERROR, where=key,
                )  # fmt: skip
        if found:
            used[key] = found


def hidden_faults(existing: Existing) -> Iterator[Problem]:
    """Switches that silence what should be heard."""
    for key, word, why in (
        ("SlurmdParameters", "config_overrides", "a node with less memory, fewer CPUs or GPUs than "
         "this file says is used as if it had them"),
        ("DebugFlags", "NO_CONF_HASH", "nobody hears of nodes that have another slurm.conf"),
    ):  # fmt: skip
        found = existing.slurm.get(key)
        if found and word.lower() in found.value.lower():
            yield Problem(found.spot, f"{word}: {why}", f"take {word} out", where=key)


def passwords(existing: Existing) -> Iterator[Problem]:
    """A password in a file that everybody reads."""
    for key in ("AccountingStoragePass", "JobCompPass"):
        found = existing.slurm.get(key)
        if found and "/" not in found.value:
            yield Problem(
                found.spot, f"{key} is a password in a file that every user reads",
                "leave it out; the database's password belongs in slurmdbd.conf, mode 0600",
                where=key,
            )  # fmt: skip


RULES: Final = (
    Rule("cluster-name-missing", E, Kind.SLURM, "ClusterName is missing.",
         "ClusterName=NAME", cluster_name, "F31", "Slurm's read_config.c"),
    Rule("controller-spelling", W, Kind.SLURM,
         "No controller, or the old ControlMachine and BackupController.",
         "SlurmctldHost=NAME(ADDRESS)", controller, "F53", _MANUAL, SlurmVersion(18, 8)),
    Rule("slurm-user-root", W, Kind.SLURM, "The controller runs as root.",
         "SlurmUser=slurm", slurm_user, "F17", _MANUAL),
    Rule("state-location", W, Kind.SLURM,
         "StateSaveLocation is missing, does not last, or is slurmd's folder too.",
         "StateSaveLocation=/var/spool/slurmctld", state_save, "F53", _MANUAL),
    Rule("authentication", W, Kind.SLURM, "AuthType and CredType that are unsafe or do not agree.",
         "AuthType and CredType of one kind", authentication, "F01", "authentication.html"),
    Rule("auth-slurm-possible", I, Kind.SLURM, "munge where auth/slurm is there too.",
         "AuthType=auth/slurm", auth_slurm_possible, "F01", "authentication.html",
         SlurmVersion(23, 11)),
    Rule("select-type", W, Kind.SLURM,
         "A SelectType that is gone or wastes GPUs, parameters without memory.",
         "select/cons_tres with CR_Core_Memory", select, "", "cgroup.conf(5), cons_tres.html"),
    Rule("accounting", I, Kind.SLURM, "No accounting, or one that slurmctld refuses.",
         "AccountingStorageType=accounting_storage/slurmdbd", accounting, "F38", _MANUAL),
    Rule("memlock", I, Kind.SLURM, "The submit shell's locked-memory limit reaches jobs.",
         "PropagateResourceLimitsExcept=MEMLOCK", limits, "F29", "faq.html"),
    Rule("return-to-service", I, Kind.SLURM, "Nodes stay down after a boot nobody planned.",
         "ReturnToService=2", return_to_service, "F39", _MANUAL),
    Rule("ports", I, Kind.SLURM, "srun's ports are open-ended, or a port is used twice.",
         "SrunPortRange=60001-63000", ports, "F18", "network.html"),
    Rule("fault-hidden", W, Kind.SLURM, "config_overrides or NO_CONF_HASH hides faults.",
         "nothing", hidden_faults, "F04, F07", _MANUAL),
    Rule("password-readable", W, Kind.SLURM, "A password in slurm.conf.",
         "nothing", passwords, "", _MANUAL),
)  # fmt: skip
