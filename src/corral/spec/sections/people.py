"""Who uses a cluster: accounts, qualities of service, users and where they log in."""

from __future__ import annotations

from typing import Final, Literal

from corral.spec.values import (
    AbsolutePath,
    AccountName,
    HostList,
    Model,
    SshKey,
    TimeLimit,
    UserName,
    about,
)

SHELL: Final = "/bin/bash"
"""A person's login shell where the file names none."""


class Limits(Model):
    """What may be used at once; what is left out has no limit."""

    gpus: int | None = about("none", "GPUs.", default=None, ge=0, le=1000000)
    cpus: int | None = about("none", "CPUs.", default=None, ge=0, le=10000000)
    memory_gib: int | None = about("none", "Memory in GiB.", default=None, ge=0, le=10000000)
    nodes: int | None = about("none", "Nodes.", default=None, ge=0, le=100000)
    jobs: int | None = about("none", "Running jobs.", default=None, ge=0, le=10000000)
    submitted: int | None = about(
        "none", "Jobs in the queue, running and waiting.", default=None, ge=0, le=10000000
    )


class Account(Model):
    """A Slurm account: users with a common share and common limits."""

    name: AccountName = about("none", "Name of the account.")
    parent: AccountName | None = about(
        "none", "Account above it; left out: it is at the top.", default=None
    )
    fair_share: int = about(
        "none", "Its share against its siblings' (fair share).", default=1, ge=0, le=1000000
    )
    limits: Limits = about("none", "What all its users may use together.", default=Limits())
    qos: tuple[AccountName, ...] = about(
        "none",
        "QOS that its users may request; the first one is their default; left out: normal.",
        default=(),
    )


class Qos(Model):
    """A quality of service: priority and limits that a job can ask for."""

    name: AccountName = about("none", "Name of the QOS; normal is the one Slurm has already.")
    priority: int = about("none", "Added to a job's priority.", default=0, ge=0, le=1000000)
    # The first one turns preemption on, which slurmctld reads at its start only.
    preempts: tuple[AccountName, ...] = about(
        "restart",
        "QOS whose jobs its jobs preempt: those submitted with --requeue start again, others end.",
        default=(),
    )
    max_time: TimeLimit = about("none", "Longest job.", default="infinite")
    limits: Limits = about("none", "What all its jobs may use together.", default=Limits())
    per_user: Limits = about("none", "What one user's jobs in it may use.", default=Limits())


class User(Model):
    """A person who runs jobs; gets the same uid and gid on every node."""

    name: UserName = about("none", "Login name.")
    uid: int = about(
        "refused", "Numeric id of user and group, equal on all nodes.", ge=1000, le=60000
    )
    keys: tuple[SshKey, ...] = about(
        "none", "Public keys that log in; others in authorized_keys are left alone.", default=()
    )
    home: AbsolutePath | None = about(
        "none", "Home folder; left out: /home/NAME on each node.", default=None
    )
    shell: AbsolutePath = about("none", "Login shell.", default=SHELL)
    admin: bool = about(
        "none", "May use sudo without a password, and logs in to every node.", default=False
    )
    account: AccountName | None = about(
        "none", "Slurm account; left out: the one called corral.", default=None
    )
    qos: AccountName | None = about(
        "none", "QOS of jobs that name none; left out: the account's first.", default=None
    )
    fair_share: int = about(
        "none", "Share against the account's other users'.", default=1, ge=0, le=1000000
    )
    limits: Limits = about("none", "What this user may use.", default=Limits())


class Access(Model):
    """Who may log in where."""

    ssh: Literal["all", "jobs_only"] = about(
        "none",
        "jobs_only: users log in to a compute node only while a job of theirs runs there, and the "
        "session belongs to that job; root, Corral's login user and admins are exempt.",
        default="all",
    )
    login: HostList | None = about(
        "none",
        "Nodes where users may always log in; left out: the controller, and the backup controller.",
        default=None,
    )
    between_nodes: bool = about(
        "none",
        "Users log in from node to node without keys of theirs, by the keys of the nodes; root, "
        "admins, Corral's login user and members of the group sudo do not.",
        default=False,
    )
