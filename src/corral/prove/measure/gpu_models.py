"""What GPUs can do at most, and what healthy ones were seen to do (``gpu_models.yaml``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from pydantic import Field

from corral.tables import Row, read_table


class GpuModel(Row):
    """One kind of GPU.

    Attributes:
        title: its name.
        pattern: what its name looks like to PyTorch and nvidia-smi.
        half: peak of bfloat16 and float16 in TFLOP/s.
        tf32: peak in TFLOP/s, 0 where there is none.
        single: peak of float32 in TFLOP/s.
        memory: peak of its memory in GB/s.
        source: where the peaks are from.
        own: type to TFLOP/s, and ``memory`` to GB/s, that Corral's own program measured on a
            healthy one (docs/measurements/).
        seen: type to TFLOP/s that somebody else published for a healthy one.
        seen_source: who.
    """

    title: str
    pattern: str
    half: float
    tf32: float
    single: float
    memory: float
    source: str
    own: Mapping[str, float] = Field(default_factory=dict)
    seen: Mapping[str, float] = Field(default_factory=dict)
    seen_source: str = ""

    def peak(self, kind: str) -> float:
        """TFLOP/s, GB/s of ``memory``, that cannot be passed; 0: not known."""
        return {
            "bfloat16": self.half,
            "float16": self.half,
            "tf32": self.tf32,
            "float32": self.single,
            "memory": self.memory,
        }.get(kind, 0.0)


@cache
def gpu_models() -> tuple[GpuModel, ...]:
    """All known ones; the first whose pattern fits a name counts."""
    return read_table("corral.prove.measure", "gpu_models.yaml", tuple[GpuModel, ...])


def model_of(name: str) -> GpuModel | None:
    """The kind of GPU that has this name; None for one that is not known."""
    return next((m for m in gpu_models() if re.search(m.pattern, name, re.I)), None)
