"""Reservations: made by the controller once slurmctld knows the nodes. Pure."""

from __future__ import annotations

from typing import Final

from corral.durations import span_seconds
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.spec.sections.reservations import Reservation
from corral.spec.slurm.hostlist import expand
from corral.state.base import Desired
from corral.state.slurm.reservations import Declared, SlurmReservations

_NOBODY_ELSE = ("root",)
"""Slurm wants somebody; root may use every reservation anyway (reservations.html)."""


def _declared(site: Site, reservation: Reservation) -> Declared:
    compute = tuple(node.name for node in site.compute)
    nodes = compute
    if reservation.nodes:
        nodes = tuple(expand(reservation.nodes))
    elif reservation.groups:
        nodes = tuple(n.name for n in site.compute if n.group.name in reservation.groups)
    nobody = not reservation.users and not reservation.accounts
    return Declared(
        reservation.name,
        f"{reservation.start}:00",
        (span_seconds(reservation.duration) or 0) // 60,
        nodes,
        _NOBODY_ELSE if nobody else reservation.users,
        reservation.accounts,
        tuple(flag.upper() for flag in reservation.flags),
    )


def made(site: Site) -> tuple[Share, ...]:
    """The declared reservations; those that Corral made and nobody declares any more go."""
    reservations = tuple(_declared(site, each) for each in site.spec.reservations)
    resource = SlurmReservations(site.spec.name, reservations)
    title = f"{len(reservations)} reservations" if reservations else "no reservations"
    return (Share((Desired((site.controller,), (resource,)),), title=title),)


ROLE: Final = Role("reservations", {"reservations": made})
