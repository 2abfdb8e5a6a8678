"""People: logins and homes, accounts in Slurm, and where they may log in. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from corral.durations import interval_seconds, max_time
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.roles.slurm import packages
from corral.slurm.conf.conf_file import Setting
from corral.slurm.conf.model import Contribution
from corral.spec.models import ClusterSpec, Storage
from corral.spec.nodes import guarded_of, users_of
from corral.spec.sections.people import Limits, User
from corral.state.base import Desired, Resource
from corral.state.files import File, Gone
from corral.state.network.sshd import EXEMPT, SshdAdopt
from corral.state.packages import Packages
from corral.state.slurm.accounts import (
    Account,
    Limit,
    Member,
    Quality,
    SlurmAccounts,
)
from corral.state.system.users import FormerPeople, Person

OWN_ACCOUNT: Final = "corral"
SUDOERS: Final = "/etc/sudoers.d/corral"
NORMAL: Final = "normal"
PROOF: Final = "corral-proof"


def homes(site: Site) -> tuple[Share, ...]:
    """Homes on a shared folder are made by one node before the others look."""
    first = _home_makers(site)
    if not first:
        return ()
    desired = (Desired(first, _people(site, makes=True)),)
    return (Share(desired, title=f"people on {', '.join(first)}"),)


def everywhere(site: Site) -> tuple[Share, ...]:
    """Users on all nodes that have not got them with their homes."""
    first = _home_makers(site)
    others = tuple(n for n in site.names if n not in first)
    if not others:
        return ()
    desired = (Desired(others, _people(site, makes=not first)),)
    return (Share(desired, title="people on all nodes"),)


def admins(site: Site) -> tuple[str, ...]:
    """Declared users that administer the machines."""
    return tuple(u.name for u in site.users if u.admin)


def _people(site: Site, *, makes: bool) -> tuple[Resource, ...]:
    shared = [s for s in site.spec.storage if s.kind != "existing" or not makes]
    resources: list[Resource] = []
    for user in site.users:
        local = _folder_of(user, shared) is None
        resources.append(
            Person(user.name, user.uid, user.shell, user.home or "", user.keys, makes or local)
        )
    resources.append(FormerPeople(tuple(u.name for u in site.users)))
    names = admins(site)
    if not names:
        return (*resources, Gone(SUDOERS))
    lines = "".join(f"{name} ALL=(ALL:ALL) NOPASSWD: ALL\n" for name in names)
    # They have keys and no password, so there is none to ask for.
    text = f"# Written by Corral: the cluster file's admins.\n{lines}"
    return (*resources, Packages("sudo", ("sudo",)), File(SUDOERS, text, mode="440"))


def _folder_of(user: User, folders: list[Storage]) -> Storage | None:
    """The shared folder that holds a user's home."""
    home = PurePosixPath(user.home or f"/home/{user.name}")
    return next((s for s in folders if home.is_relative_to(s.mount)), None)


def _home_makers(site: Site) -> tuple[str, ...]:
    """Nodes that make homes which others see: root is itself there, whatever is squashed."""
    folders = [_folder_of(user, list(site.spec.storage)) for user in site.users]
    return tuple(dict.fromkeys(s.server or site.controller for s in folders if s is not None))


def accounts(site: Site) -> tuple[SlurmAccounts, ...]:
    """What slurmdbd holds; nothing without accounting."""
    desired = declared_accounts(site.spec)
    return (desired,) if desired else ()


def declared_accounts(spec: ClusterSpec) -> SlurmAccounts | None:
    """Accounts, users and QOS of a cluster file; None without accounting."""
    if not spec.slurm.accounting:
        return None
    people = users_of(spec)
    declared = {a.name: a for a in spec.accounts}
    slurm_accounts = [
        Account(
            a.name,
            a.parent or "root",
            a.fair_share,
            _limit(a.limits),
            a.qos or (NORMAL,),
            a.qos[0] if a.qos else "",
        )
        for a in spec.accounts
    ]
    if OWN_ACCOUNT not in declared and any(u.account in (None, OWN_ACCOUNT) for u in people):
        slurm_accounts.append(Account(OWN_ACCOUNT))
    by_name = {a.name: a for a in slurm_accounts}
    users = [_member(user, by_name[user.account or OWN_ACCOUNT]) for user in people]
    if own_proof_user(spec):
        # Where limits are held to, a user without an account cannot submit.
        own = (NORMAL, PROOF)
        slurm_accounts.append(Account(PROOF, qos=own, default_qos=PROOF, own=True))
        users.append(Member(PROOF, PROOF, qos=own, default_qos=PROOF, own=True))
    qos = [
        Quality(
            q.name,
            q.priority,
            q.preempts,
            "" if q.max_time == "infinite" else max_time(q.max_time),
            _limit(q.limits),
            _limit(q.per_user),
        )
        for q in spec.qos
    ]
    if own_proof_user(spec):
        qos.append(Quality(PROOF))
    held = limits_declared(spec)
    return SlurmAccounts(spec.name, tuple(slurm_accounts), tuple(users), tuple(qos), held)


def slurm_conf(site: Site) -> Contribution:
    """Limits, fair share and preemption, where accounts or QOS declare them."""
    if not site.spec.slurm.accounting:
        return Contribution()
    settings: list[Setting] = []
    if limits_declared(site.spec):
        settings.append(Setting("AccountingStorageEnforce", "associations,limits,qos"))
    if shares_declared(site):
        settings += [
            Setting("PriorityType", "priority/multifactor"),
            Setting("PriorityWeightFairshare", "100000"),
            Setting("PriorityWeightQOS", "10000"),
            Setting("PriorityWeightAge", "1000"),
            Setting("PriorityDecayHalfLife", "7-0"),
        ]
    if preemption_declared(site.spec):
        settings += [Setting("PreemptType", "preempt/qos"), Setting("PreemptMode", "REQUEUE")]
    return Contribution(tuple(settings))


def preemption_declared(spec: ClusterSpec) -> bool:
    """A QOS preempts another one."""
    return any(qos.preempts for qos in spec.qos)


def _member(user: User, account: Account) -> Member:
    qos = tuple(dict.fromkeys((*account.qos, *((user.qos,) if user.qos else ()))))
    default = user.qos or account.default_qos
    limit = _limit(user.limits)
    return Member(user.name, account.name, user.fair_share, limit, qos, default)


def _limit(limits: Limits) -> Limit:
    mib = None if limits.memory_gib is None else limits.memory_gib * 1024
    named = (
        ("cpu", limits.cpus),
        ("gres/gpu", limits.gpus),
        ("mem", mib),
        ("node", limits.nodes),
    )
    tres = tuple((name, value) for name, value in named if value is not None)
    jobs = -1 if limits.jobs is None else limits.jobs
    return Limit(tres, jobs, -1 if limits.submitted is None else limits.submitted)


def limits_declared(spec: ClusterSpec) -> bool:
    """Whether the file declares more about accounts than that there are users."""
    plain = {"limits": Limits(), "account": None, "qos": None, "fair_share": 1}
    differs = any(
        getattr(u, name) != value for u in users_of(spec) for name, value in plain.items()
    )
    return bool(spec.accounts or spec.qos or differs)


def own_proof_user(spec: ClusterSpec) -> bool:
    """Whether a proof's jobs have a user and an account that no user's limits hold back.

    Always with accounting, so that no user's figures have them.
    """
    return bool(spec.slurm.accounting or interval_seconds(spec.proof.every))


def shares_declared(site: Site) -> bool:
    """Whether the file declares who gets how much of the cluster."""
    shares = any(u.fair_share != 1 for u in site.users)
    return bool(site.spec.accounts or shares or any(q.priority for q in site.spec.qos))


def access(site: Site) -> tuple[Share, ...]:
    """Sshd's PAM file on every node; last of all, when slurmd answers the module's questions."""
    shut = guarded_of(site.spec)
    desired: list[Desired] = []
    if shut:
        resources: tuple[Resource, ...] = (
            *packages.adopt(site),
            File(EXEMPT, _exempt(site)),
            SshdAdopt(on=True),
        )
        desired.append(Desired(shut, resources))
    free = tuple(n for n in site.names if n not in shut)
    if free:
        desired.append(Desired(free, (SshdAdopt(on=False), Gone(EXEMPT))))
    return (Share(tuple(desired), title="who may log in where"),)


def _exempt(site: Site) -> str:
    """pam_access's file: whom it lets in needs no job, and no Slurm that works."""
    logins = {n.group.ssh.user for n in site.nodes if n.group.capabilities.owned}
    names = " ".join(dict.fromkeys(["root", *sorted(logins), *admins(site), "(sudo)"]))
    return (
        "# Written by Corral: these log in without a job; who may sudo is never locked out.\n"
        f"+ : {names} : ALL\n"
        "- : ALL : ALL\n"
    )


ROLE: Final = Role("people", {"homes": homes, "people": everywhere, "access": access}, slurm_conf)
