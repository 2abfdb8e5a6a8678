"""Use case: what jobs and GPUs of some nodes use right now."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corral.apply.session import Session
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.roles.metrics import program
from corral.spec.models import ClusterSpec

TIMEOUT: Final = 30.0
_LINE: Final = re.compile(r"([a-z_]+)\{([^}]*)\} ([0-9.eE+-]+)")
_LABEL: Final = re.compile(r'([a-z_]+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Reading:
    """One value, as Prometheus' text has it: bytes, seconds, ratio, degrees, watts."""

    name: str
    labels: Mapping[str, str]
    value: float


async def node_figures(
    spec: ClusterSpec, nodes: Sequence[str]
) -> Mapping[str, tuple[Reading, ...]]:
    """Values of each node that answers.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up.
    """
    script = sh("sh -c {program}", program=program())
    async with await Session.open(spec) as session:
        session.require_running()
        known = [node for node in nodes if node in session.fleet.nodes]

        async def figures_of(node: str) -> tuple[Reading, ...]:
            try:
                answer = await session.fleet.run(node, script, timeout=TIMEOUT)
            except CorralError:
                return ()
            return readings(answer.stdout)

        answers = await asyncio.gather(*(figures_of(node) for node in known))
    return dict(zip(known, answers, strict=True))


def readings(text: str) -> tuple[Reading, ...]:
    """The values in a text; comments and what is not a value are left out."""
    values: list[Reading] = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        values.append(Reading(match[1], dict(_LABEL.findall(match[2])), value))
    return tuple(values)
