"""What jobs can be kept from or wait for, besides machines: reservations and licences."""

from __future__ import annotations

from typing import Literal

from corral.spec.values import (
    AccountName,
    HostList,
    LicenseName,
    Model,
    Moment,
    Name,
    Span,
    UserName,
    about,
)

ReservationFlag = Literal[
    "maint",
    "ignore_jobs",
    "overlap",
    "flex",
    "magnetic",
    "daily",
    "weekday",
    "weekend",
    "weekly",
]


class Reservation(Model):
    """Nodes that only some people may use for a time, such as maintenance."""

    name: LicenseName = about(
        "none", "Name of the reservation; jobs use it by sbatch --reservation=NAME."
    )
    start: Moment = about("none", "When it begins, by the clock of the controller.")
    duration: Span = about("none", "How long it lasts: [days-]hours[:minutes].")
    groups: tuple[Name, ...] = about(
        "none",
        "Groups whose nodes it holds; without groups and nodes: all compute nodes.",
        default=(),
    )
    nodes: HostList | None = about("none", "Nodes that it holds, in place of groups.", default=None)
    users: tuple[UserName, ...] = about(
        "none", "Who may use it; without users and accounts: root alone.", default=()
    )
    accounts: tuple[AccountName, ...] = about(
        "none", "Slurm accounts whose users may use it.", default=()
    )
    flags: tuple[ReservationFlag, ...] = about(
        "none",
        "What kind it is, as scontrol's Flags. maint: not counted as idle, and over other "
        "reservations; ignore_jobs: running jobs do not stand against it, and go on.",
        default=("maint", "ignore_jobs"),
    )


class License(Model):
    """A licence that jobs hold while they run, counted by Slurm for this cluster."""

    name: LicenseName = about("reload", "Name of the licence, as in corral run --licenses NAME:2.")
    count: int = about("reload", "How many there are.", ge=1, le=10000000)
