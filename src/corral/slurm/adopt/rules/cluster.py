"""Rules about slurm.conf's own lines: controller, authentication, scheduling, accounting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.slurm.adopt.rule import E, I, Problem, Rule, W
from corral.slurm.adopt.rules.keys import drops
from corral.slurm.adopt.source import Edit, Kind
from corral.slurm.adopt.view import Existing, Setting
from corral.slurm.version import has
from corral.spec.findings import Level, shown
from corral.spec.slurm.releases import Feature, since

_MANUAL: Final = "slurm.conf(5)"
_FIRST: Final = ("SlurmctldHost", "ControlMachine", "AuthType", "SlurmUser", "NodeName")
NODES: Final = ("NodeName", "PartitionName")
# What files hold that another slurm.conf includes.
_FRAGMENT: Final = frozenset({"nodename", "partitionname", "downnodes", "nodeset", "grestypes"})
_OFF: Final = ("", "0", "none", "no")


def there(existing: Existing) -> bool:
    """Whether there is a slurm.conf to speak of: not a mere list of nodes for an Include."""
    conf = existing.slurm
    return bool(conf) and any(
        p.line.pairs and p.line.pairs[0].key.lower() not in _FRAGMENT for p in conf.lines
    )


def can_run(existing: Existing) -> bool:
    """Whether slurmctld gets as far as its state: a running cluster may depend on the file."""
    return bool(existing.slurm.get("ClusterName") and existing.controllers)


def missing(existing: Existing, key: str) -> bool:
    """Whether a key is in none of the files; not where an included file was not given."""
    return there(existing) and not existing.slurm.lost and existing.slurm.get(key) is None


def adds(existing: Existing, text: str, *before: str) -> tuple[Edit, ...]:
    """Edits that add a line to slurm.conf, before the first line of the keys."""
    return (existing.slurm.adds(text, *(before or NODES)),)


def cluster_name(existing: Existing) -> Iterator[Problem]:
    """ClusterName is missing."""
    if missing(existing, "ClusterName"):
        yield Problem(
            existing.slurm.spot,
            "ClusterName is missing: every daemon and command ends with "
            '"Unable to process configuration file"',
            "write ClusterName=cluster, or the name that slurmdbd knows it by",
            adds(existing, "ClusterName=cluster", *_FIRST),
            where="ClusterName",
        )


def controller(existing: Existing) -> Iterator[Problem]:
    """No controller, or the old spelling of it."""
    if not there(existing):
        return
    old = existing.slurm.get("ControlMachine")
    new = existing.slurm.get("SlurmctldHost")
    if old is None and new is None and not existing.slurm.lost:
        yield Problem(
            existing.slurm.spot,
            "no SlurmctldHost: no daemon knows its controller",
            "write SlurmctldHost=NAME(ADDRESS), NAME as hostname -s prints on the controller",
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
        (old.replaced_by(f"SlurmctldHost={value}"), *(drops(addr) if addr else ())),
        where=machine,
    )


def slurm_user(existing: Existing) -> Iterator[Problem]:
    """The controller runs as root."""
    setting = existing.slurm.get("SlurmUser")
    if not as_root(existing) or not (setting or missing(existing, "SlurmUser")):
        return
    message = "slurmctld runs as root" + ("" if setting else ", the default of SlurmUser")
    edits = (
        (setting.becomes("slurm"),) if setting else adds(existing, "SlurmUser=slurm", *_FIRST[2:])
    )
    yield Problem(
        setting.spot if setting else existing.slurm.spot,
        message,
        "stop slurmctld and slurmdbd, write SlurmUser=slurm in both files, with one numeric id on "
        "all nodes, and give it StateSaveLocation and the log files: chown -R slurm",
        # On a cluster that runs, root owns the state: the daemon could not read it any more.
        () if can_run(existing) else edits,
        where="SlurmUser",
    )


def as_root(existing: Existing) -> bool:
    """Whether slurmctld runs as root."""
    return there(existing) and existing.slurm.text("SlurmUser", "root") in ("root", "0")


def authentication(existing: Existing) -> Iterator[Problem]:
    """Which authentication, and whether the parts agree."""
    auth, cred = existing.slurm.get("AuthType"), existing.slurm.get("CredType")
    version = existing.version
    if auth and auth.value == "auth/none":
        message = "auth/none lets everybody be anybody"
        yield Problem(auth.spot, message, "write AuthType=auth/munge", level=Level.ERROR)
    if auth and auth.value == "auth/slurm" and version and not has(version, Feature.AUTH_SLURM):
        first = since(Feature.AUTH_SLURM)
        message = f"auth/slurm came with {first}, and this is {version.release}"
        edits = (auth.becomes("auth/munge"),)
        yield Problem(auth.spot, message, "write AuthType=auth/munge", edits, level=Level.ERROR)
    if auth and cred and auth.value.rpartition("/")[2] != cred.value.rpartition("/")[2]:
        right = f"cred/{auth.value.rpartition('/')[2]}"
        yield Problem(
            cred.spot,
            f"{cred.value} together with {auth.value} needs two kinds of keys",
            f"write CredType={right}",
            (cred.becomes(right),),
            where="CredType",
        )


def auth_slurm_possible(existing: Existing) -> Iterator[Problem]:
    """Munge where Slurm's own authentication would do."""
    auth = existing.slurm.get("AuthType")
    if auth and auth.value == "auth/munge":
        yield Problem(
            auth.spot,
            "auth/munge needs one more daemon with its own key on every node; auth/slurm is there "
            f"since {since(Feature.AUTH_SLURM)}, and rotates keys on a live cluster since "
            f"{since(Feature.JWKS_ROTATION)}",
            "keep it while jobs are running; to change it all daemons stop: AuthType=auth/slurm, "
            "CredType=cred/slurm and one /etc/slurm/slurm.key",
            where="AuthType",
        )


def accounting(existing: Existing) -> Iterator[Problem]:
    """No accounting, or one that is gone."""
    if not there(existing):
        return
    kind = existing.slurm.get("AccountingStorageType")
    word = kind.value.rpartition("/")[2].lower() if kind else "none"
    if kind is None and existing.slurm.lost:
        return
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
            kind.spot,
            f"{shown(kind.value)} is not for slurm.conf: slurmctld refuses to start",
            "write AccountingStorageType=accounting_storage/slurmdbd",
            level=Level.ERROR,
            where="AccountingStorageType",
        )
    tracked = existing.slurm.get("AccountingStorageTRES")
    if tracked and "gres/" in tracked.value and word == "none":
        yield Problem(
            tracked.spot,
            "slurmdbd is required to run with TRES gres/...: slurmctld refuses to start",
            "leave it out until slurmdbd is there",
            drops(tracked),
            level=Level.ERROR,
            where="AccountingStorageTRES",
        )


def enforced(existing: Existing) -> Iterator[Problem]:
    """Limits that need the database, without it."""
    setting = existing.slurm.get("AccountingStorageEnforce")
    kind = existing.slurm.text("AccountingStorageType", "none").rpartition("/")[2].lower()
    if (
        setting is None
        or setting.value.lower() in _OFF
        or kind == "slurmdbd"
        or existing.slurm.lost
    ):
        return
    yield Problem(
        setting.spot,
        f"AccountingStorageEnforce={setting.value} needs associations and limits from slurmdbd, "
        "and AccountingStorageType is not slurmdbd: nothing can be enforced",
        "run slurmdbd and write AccountingStorageType=accounting_storage/slurmdbd, or leave "
        "AccountingStorageEnforce out",
        where="AccountingStorageEnforce",
    )


def limits(existing: Existing) -> Iterator[Problem]:
    """The submit shell's limit of locked memory reaches the job."""
    if not existing.gpus or not there(existing) or existing.slurm.lost:
        return
    spared = existing.slurm.text("PropagateResourceLimitsExcept").upper()
    only = existing.slurm.get("PropagateResourceLimits")
    if "MEMLOCK" in spared or "ALL" in spared or (only and "MEMLOCK" not in only.value.upper()):
        return
    yield Problem(
        existing.slurm.spot,
        "the submit shell's limit of locked memory is carried to the nodes, and RDMA fails there",
        "write PropagateResourceLimitsExcept=MEMLOCK",
        adds(existing, "PropagateResourceLimitsExcept=MEMLOCK") if not spared and not only else (),
        where="PropagateResourceLimitsExcept",
    )


def return_to_service(existing: Existing) -> Iterator[Problem]:
    """Nodes that stay down after a boot."""
    setting = existing.slurm.get("ReturnToService")
    if (setting and setting.value == "2") or not (setting or missing(existing, "ReturnToService")):
        return
    yield Problem(
        setting.spot if setting else existing.slurm.spot,
        f"ReturnToService is {setting.value if setting else '0, the default'}: a node that booted "
        'without being asked stays down with "Node unexpectedly rebooted"',
        "write ReturnToService=2",
        (setting.becomes("2"),) if setting else adds(existing, "ReturnToService=2"),
        where="ReturnToService",
    )


def ports(existing: Existing) -> Iterator[Problem]:
    """Ports that a firewall cannot know, and ports used twice."""
    if not there(existing):
        return
    if missing(existing, "SrunPortRange"):
        yield Problem(
            existing.slurm.spot,
            "srun listens on any port of the submit host: a firewall there makes it hang",
            "write SrunPortRange=60001-63000 and open it, in addition to 6817 to 6819",
            adds(existing, "SrunPortRange=60001-63000"),
            where="SrunPortRange",
        )
    used: dict[str, Setting] = {}
    names = {"SlurmctldPort": "6817", "SlurmdPort": "6818", "AccountingStoragePort": "6819"}
    for key, port in names.items():
        current = existing.slurm.get(key)
        for other, setting in used.items():
            if current and current.value == setting.value:
                yield Problem(
                    current.spot,
                    f"{key} and {other} are both {shown(current.value)}",
                    f"write {key}={port}",
                    level=Level.ERROR,
                    where=key,
                )
        if current:
            used[key] = current


_SWITCHES: Final = (
    (
        "SlurmdParameters",
        "config_overrides",
        "a node with less memory, fewer CPUs or GPUs than this file declares is used as if it had "
        "them",
    ),
    ("DebugFlags", "NO_CONF_HASH", "nodes that have another slurm.conf are not reported"),
)


def hidden_faults(existing: Existing) -> Iterator[Problem]:
    """Switches that silence what should be heard."""
    for key, word, why in _SWITCHES:
        setting = existing.slurm.get(key)
        if setting and word.lower() in setting.value.lower():
            yield Problem(setting.spot, f"{word}: {why}", f"take {word} out", where=key)


def passwords(existing: Existing) -> Iterator[Problem]:
    """A password in a file that everybody reads."""
    for key in ("AccountingStoragePass", "JobCompPass"):
        setting = existing.slurm.get(key)
        if setting and "/" not in setting.value:
            yield Problem(
                setting.spot,
                f"{key} is a password in a file that every user reads",
                "leave it out; the database's password belongs in slurmdbd.conf, mode 0600",
                where=key,
            )


RULES: Final = (
    Rule("cluster-name-missing", E, Kind.SLURM, "ClusterName is missing.",
         "ClusterName=NAME", cluster_name, "F31", "Slurm's read_config.c"),
    Rule("controller-spelling", W, Kind.SLURM,
         "No controller, or the old ControlMachine and BackupController.",
         "SlurmctldHost=NAME(ADDRESS)", controller, "F53", _MANUAL,
         since(Feature.SLURMCTLD_HOST)),
    Rule("slurm-user-root", W, Kind.SLURM, "The controller runs as root.",
         "SlurmUser=slurm", slurm_user, "F17", _MANUAL),
    Rule("authentication", W, Kind.SLURM, "AuthType and CredType that are unsafe or do not agree.",
         "AuthType and CredType of one kind", authentication, "F01", "authentication.html"),
    Rule("auth-slurm-possible", I, Kind.SLURM, "munge where auth/slurm is there too.",
         "AuthType=auth/slurm", auth_slurm_possible, "F01", "authentication.html",
         since(Feature.AUTH_SLURM)),
    Rule("accounting-enforced", W, Kind.SLURM, "AccountingStorageEnforce without slurmdbd.",
         "slurmdbd, or nothing", enforced, "F38", _MANUAL),
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
