"""What training over a measured link of the mesh costs, before anything is trained. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from corral.mesh.link import Link
from corral.prove.measure.cost import Cost

BYTES: Final = 4
"""Of a parameter's gradient, or of its weight: fp32, as gloo and NCCL send it by default."""
SHARE: Final = 0.1
"""Of the time between two exchanges, what an exchange may take: the steps cost so much more."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Training by two nodes over one link.

    Attributes:
        source: one node.
        target: the other.
        size: bytes of the model's gradients, or of its weights.
        exchange_s: seconds to add them up over the link, once.
        ddp_s: of a step that exchanges gradients; what DDP hides under the backward pass is not
            subtracted.
        inner: steps between two exchanges of weights from which on the exchange takes a tenth.
        local_s: of a step with so many between two exchanges.
    """

    source: str
    target: str
    size: int
    exchange_s: float
    ddp_s: float
    inner: int
    local_s: float

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def predicted(links: Iterable[Link], parameters: int, step_s: float) -> list[Predicted]:
    """What a step takes over each link that was measured and that jobs may use.

    Args:
        links: as ``mesh_status`` measured them.
        parameters: of the model.
        step_s: seconds of a step on one node alone.
    """
    return [_over(link, parameters * BYTES, step_s) for link in links if link.mbps and link.mtu]


def _over(link: Link, size: int, step_s: float) -> Predicted:
    # The median of small exchanges is there and back.
    cost = Cost(alpha=link.rtt_ms / 2e3, beta=8e-6 / link.mbps)
    exchange = cost.reduce(2, size)
    inner = max(1, math.ceil(exchange / (SHARE * step_s)))
    return Predicted(
        link.source,
        link.target,
        size,
        exchange,
        step_s + exchange,
        inner,
        step_s + exchange / inner,
    )
