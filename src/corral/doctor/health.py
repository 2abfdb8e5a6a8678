"""What the node health check and the scheduled proof wrote as a drain reason, understood. Pure."""

from __future__ import annotations

import re
from typing import Final

from corral.doctor.catalog import catalog
from corral.doctor.diagnosis import read
from corral.doctor.model import Diagnosis, Source
from corral.roles.health_checks import HealthCheck, health_checks

_REASON: Final = re.compile(r"(health\.[a-z]+): (.*)", re.DOTALL)
BACK: Final = "the node's health check undrains it automatically once all its checks pass"


def health_kind(reason: str) -> HealthCheck | None:
    """The check that a reason begins with; None for any other reason."""
    match = _REASON.match(reason)
    return health_checks().get(match[1]) if match else None


def health_words(reason: str) -> tuple[str, str]:
    """What such a reason means, and what to do; two empty texts for any other reason."""
    kind = health_kind(reason)
    if kind is None:
        return "", ""
    return (
        f"{kind.title} ({kind.id}: looks at {kind.reads}; fails on {kind.fails})",
        f"{kind.fix}; {BACK} (at once: run corral-health on the node)",
    )


def read_reason(reason: str, node: str) -> tuple[Diagnosis, ...]:
    """The failures that a node's reason names: of the health check's own, the one it means."""
    kind = health_kind(reason)
    if kind is None:
        return read(reason, Source.REASON, node)
    findings = read(reason, Source.KERNEL, node) if kind.id == "health.xid" else ()
    return findings or (Diagnosis(catalog()[kind.failure], (node,), (reason,)),)
