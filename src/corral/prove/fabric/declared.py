"""What a declared data network should reach. Pure data and arithmetic.

Shares of the line rate: reference/baselines.md, section 6. NVIDIA's rules of thumb (nccl-tests
issues 119 and 290): 46 to 48 GB/s of a 400G card; TCP costs CPU time from 25 Gb/s on.
"""

from __future__ import annotations

from typing import Final

_TCP: Final = ((10.0, 0.94), (25.0, 0.75))
_TCP_ABOVE: Final = 0.45
_RDMA: Final = 0.94


def efficiency(fabric: str, gbps: float) -> float:
    """The share of the line rate that a healthy network of this kind reaches."""
    if fabric != "ethernet":
        return _RDMA
    return next((share for rate, share in _TCP if gbps <= rate), _TCP_ABOVE)
