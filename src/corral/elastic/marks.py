"""What Slurm wants of its cloud nodes, from their states. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh

READ: Final[Script] = sh("timeout 20 scontrol --oneliner show nodes")
_STATE: Final = re.compile(r"^NodeName=(\S+) .*? State=(\S+)", re.MULTILINE)
_GONE: Final = frozenset(("POWERED_DOWN", "POWERING_DOWN"))


@dataclass(frozen=True, slots=True)
class Marks:
    """What is to be done.

    Attributes:
        come: a job waits for these nodes.
        go: these are powered down, and their machines are still rented.
        failed: these did not come in time, or were given up.
        wake: these are to be powered up, so that ``min`` nodes stay.
    """

    come: tuple[str, ...] = ()
    go: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    wake: tuple[str, ...] = ()


def states(text: str) -> dict[str, frozenset[str]]:
    """The words of each node's state, from what ``READ`` printed."""
    return {name: frozenset(state.split("+")) for name, state in _STATE.findall(text)}


def decide(
    seen: Mapping[str, frozenset[str]],
    rented: Collection[str],
    joined: Collection[str],
    groups: Mapping[str, tuple[tuple[str, ...], int]],
) -> Marks:
    """What is to be done now.

    Level, not edge: a mark that was missed while nobody looked is still there, and what an earlier
    process began goes on.

    Args:
        seen: state words by node.
        rented: nodes that have a machine.
        joined: nodes that this process has set up, and that may still be registering.
        groups: of each elastic group its nodes and how many of them stay.
    """
    elastic = [name for nodes, _ in groups.values() for name in nodes]
    words = {name: seen.get(name, frozenset[str]()) for name in elastic}
    wake: list[str] = []
    for nodes, least in groups.values():
        up = [n for n in nodes if n in seen and not words[n] & _GONE]
        away = [n for n in nodes if "POWERED_DOWN" in words[n] and "POWERING_UP" not in words[n]]
        wake += away[: max(0, least - len(up))]
    return Marks(
        tuple(n for n in elastic if "POWERING_UP" in words[n] and n not in joined),
        tuple(n for n in elastic if words[n] & _GONE and n in rented),
        tuple(n for n in elastic if "DOWN" in words[n] and not words[n] & _GONE),
        tuple(wake),
    )
