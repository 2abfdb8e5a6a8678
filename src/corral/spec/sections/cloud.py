"""Rented groups, elastic groups and the budget of a cluster."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from corral.durations import UNITS, interval_seconds
from corral.spec import values
from corral.spec.providers import CLOUDS, RENTALS, CloudName, clouds_with, either, in_words
from corral.spec.values import (
    HostName,
    Interval,
    Model,
    about,
)

OfferType = Annotated[str, Field(pattern=values.OFFER_TYPE.pattern, max_length=128)]
Region = Annotated[str, Field(pattern=values.REGION.pattern)]
Duration = Annotated[str, Field(pattern=values.DURATION.pattern)]
VolumeName = Annotated[str, Field(pattern=values.VOLUME.pattern)]

_NO_TIMER: Final = tuple(name for name, rental in RENTALS.items() if not rental.ends_itself)
_TIMER: Final = tuple(name for name, rental in RENTALS.items() if rental.ends_itself)


class Source(Model):
    """One more place where the machines of a group may come from."""

    provider: CloudName = about("recreate", f"{either(CLOUDS)}.")
    type: OfferType = about("recreate", "The provider's name of what it rents; see corral offers.")
    regions: tuple[Region, ...] = about(
        "recreate", "Regions in order of preference; left out: any.", default=()
    )
    count: int | None = about(
        "recreate", "GPUs of each machine, where a type comes with several.", default=None, ge=1
    )


class Cloud(Model):
    """What is rented for a group of a provider that rents machines."""

    type: OfferType = about("recreate", "The provider's name of what it rents; see corral offers.")
    regions: tuple[Region, ...] = about(
        "recreate", "Regions in order of preference; left out: any.", default=()
    )
    count: int | None = about(
        "recreate",
        "GPUs of each machine, where a type comes with several "
        f"({', '.join(clouds_with('counts'))}); left out: the fewest.",
        default=None,
        ge=1,
        le=64,
    )
    image: OfferType | None = about(
        "recreate",
        f"{in_words('image').capitalize()}; left out: the provider's own.",
        default=None,
    )
    disk_gib: int = about(
        "recreate", "Disk of each machine, where the provider asks.", default=100, ge=10, le=4096
    )
    volumes: tuple[VolumeName, ...] = about(
        "recreate",
        f"File systems of the account to attach: {in_words('volumes')}.",
        default=(),
    )
    price_at_most: float | None = about(
        "none", "Dollars an hour that one machine may cost.", default=None, gt=0
    )
    fallback: tuple[Source, ...] = about(
        "none", "Where else to rent, in this order, when there is no capacity.", default=()
    )
    cluster: bool = about(
        "recreate",
        "All machines of the group as one of the provider's own clusters, with a separate "
        f"network ({', '.join(clouds_with('clusters'))}): they come and end together.",
        default=False,
    )
    prefer: Literal["order", "price"] = about(
        "none", "Try sources in the order given, or the cheapest first.", default="order"
    )


class Elastic(Model):
    """Nodes of a rented group come when pending jobs need them and go when they are idle.

    ``nodes`` of the group are the most there can be. They are in slurm.conf as CLOUD nodes with
    the size given here, whatever machine comes; so it must not be more than the offer has.
    """

    min: int = about("none", "Nodes that stay, also when no job needs them.", default=0, ge=0)
    idle: Duration = about("reload", "A node without a job goes after this time.", default="10m")
    boot: Duration = about(
        "reload", "A node that has not come after this time is given up.", default="30m"
    )
    replace: int = about(
        "none", "How often a node that fails its check is replaced.", default=2, ge=0, le=10
    )
    cpus: int = about("restart", "CPUs of each node, as corral offers shows them.", ge=1, le=1024)
    memory_gib: int = about("restart", "Memory of each node in GiB.", ge=1, le=65536)
    present: tuple[HostName, ...] = about(
        "none", "Nodes that are rented now: filled in by Corral, not for a file.", default=()
    )


ELASTIC_RETRY_S: Final = 30
"""Seconds from a poll of ``corral elastic`` that failed to the next; the others are shorter."""
TERMINATION_S: Final = 60
"""Seconds that ending machines may take where no guard, with its longer interval, ends them."""


class Budget(Model):
    """What the cluster may cost, in dollars; nothing is launched past it."""

    per_hour: float | None = about(
        "none", "All rented machines together, in dollars an hour.", default=None, gt=0
    )
    total: float | None = about(
        "none",
        "All that was rented since the first launch, in dollars; the end of what runs begins so "
        "early that it is within it, if cloud and slurmctld answer.",
        default=None,
        gt=0,
    )
    dead_man: Duration = about(
        "recreate",
        "Rented machines end themselves after this time, where the provider allows it "
        f"({', '.join(_TIMER)}), rounded up to full hours; 0h: never.",
        default="24h",
    )
    guard: Interval = about(
        "none",
        "How often a timer on the controller reads what is rented, ends what nobody needs, and "
        "all of it before total is spent; it needs the API keys there (mode 600).",
        default="off",
    )
    grace: Duration = about(
        "none",
        "Before total is spent: how long jobs have to save what they have until their nodes end.",
        default="10m",
    )
    unguarded: tuple[CloudName, ...] = about(
        "none",
        f"Providers whose machines cannot end themselves ({', '.join(_NO_TIMER)}): named here, "
        "they are known to cost money until somebody ends them.",
        default=(),
    )

    @property
    def ending_s(self) -> int:
        """Seconds that the end of what runs may take: jobs save, who ends it polls twice."""
        rounds = 2 * interval_seconds(self.guard)
        return interval_seconds(self.grace) + (rounds or 2 * ELASTIC_RETRY_S + TERMINATION_S)


def hours(text: str) -> int:
    """A duration in hours, as clouds count them: rounded up, so that only 0 is never."""
    return -(-interval_seconds(text) // UNITS["h"])
