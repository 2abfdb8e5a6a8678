"""The one shape of all roles. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from corral.roles.inventory import ConfiguredSite, Site
from corral.slurm.conf.model import Contribution
from corral.state.base import Desired, DesiredStage, Gate, Roll


@dataclass(frozen=True, slots=True)
class Share:
    """What one role has in one stage.

    Attributes:
        desired: resources on nodes, packages among them.
        gates: what must come true before the next stage begins.
        title: title of the stage; of several roles the first one that has a title names it.
        roll: how the stage goes over its nodes, None for all at once.
    """

    desired: tuple[Desired, ...] = ()
    gates: tuple[Gate, ...] = ()
    title: str = ""
    roll: Roll | None = None


Shares: TypeAlias = Callable[[ConfiguredSite], tuple[Share, ...]]


def _nothing(*_: object) -> None: ...


def _no_share(_: Site) -> tuple[Share, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Role:
    """One subject of a cluster: what it puts on machines, and what it adds to Slurm's files.

    Packages are resources among others, since they come between others: users before them, their
    settings too, their services after.

    Attributes:
        name: of the role, which no other role has.
        stages: what it has in each stage that it takes part in (``roles.order`` lists all).
        slurm_conf: what it adds to Slurm's files.
        check: raises NOT_GOOD where the machines cannot hold what the file declares.
        review: the same, of the stages of all roles.
        ahead: what it has to do before any other role can be asked; nothing else is planned then.
    """

    name: str
    stages: Mapping[str, Shares] = field(default_factory=lambda: MappingProxyType({}))
    slurm_conf: Callable[[Site], Contribution] | None = None
    check: Callable[[Site], None] = _nothing
    review: Callable[[Site, Iterable[DesiredStage]], None] = _nothing
    ahead: Callable[[Site], tuple[Share, ...]] = _no_share
