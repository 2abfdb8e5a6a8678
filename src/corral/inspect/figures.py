"""The question what a node's jobs and GPUs use now."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from corral.agents import program
from corral.hosts.quote import sh
from corral.inspect.question import Question

_LINE: Final = re.compile(r"([a-z_]+)\{([^}]*)\} ([0-9.eE+-]+)")
_LABEL: Final = re.compile(r'([a-z_]+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Reading:
    """One value, as Prometheus' text has it: bytes, seconds, ratio, degrees, watts."""

    name: str
    labels: Mapping[str, str]
    value: float


def readings(answer: str) -> tuple[Reading, ...]:
    """The values in a text; comments and what is not a value are left out."""
    values: list[Reading] = []
    for line in answer.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        values.append(Reading(match[1], dict(_LABEL.findall(match[2])), value))
    return tuple(values)


FIGURES: Final = Question("figures", sh("sh -c {program}", program=program("figures.sh")), readings)
