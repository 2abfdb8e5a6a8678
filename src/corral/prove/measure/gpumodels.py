"""What GPUs can do at most, and what healthy ones were seen to do. Data, each with its source.

Peaks are dense, without sparsity; half precision with accumulation in float32, as PyTorch does it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

_ML: Final = "stas00/ml-engineering, accelerator tables (vendor data sheets)"
_SPECS: Final = "winston-zhang-orz/gpu-specs (vendor data sheets)"


@dataclass(frozen=True, slots=True)
class GpuModel:
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
    source: str = _ML
    own: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    seen: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
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


_MAMF: Final = "ml-engineering, best of many shapes (MAMF)"

# The first that fits: the narrower names stand first.
MODELS: Final = (
    GpuModel("B200", r"B200", 2250, 1125, 80, 8000),
    GpuModel(
        "H200 SXM",
        r"H200(?! NVL)",
        989,
        494.5,
        67,
        4800,
        own={
            "bfloat16": 679,
            "float16": 651,
            "tf32": 345,
            "float32": 51.3,
            "memory": 4296,
        },
    ),
    GpuModel("H100 PCIe", r"H100 PCIe", 756, 378, 51, 2000),
    GpuModel(
        "H100 SXM",
        r"H100 80GB HBM3|H100 SXM",
        989,
        494.5,
        67,
        3350,
        seen={"bfloat16": 794.5},
        seen_source=_MAMF,
    ),
    GpuModel(
        "A100 SXM 40 GB",
        r"A100-SXM\d-40GB",
        312,
        156,
        19.5,
        1555,
        seen={"bfloat16": 271.2},
        seen_source=_MAMF,
    ),
    GpuModel(
        "A100 SXM 80 GB",
        r"A100-SXM\d-80GB",
        312,
        156,
        19.5,
        2039,
        seen={"bfloat16": 271.2},
        seen_source=_MAMF,
    ),
    GpuModel(
        "A100 PCIe 40 GB",
        r"A100-PCIE-40GB",
        312,
        156,
        19.5,
        1555,
        seen={"bfloat16": 252.9},
        seen_source=_MAMF,
    ),
    GpuModel(
        "A100 PCIe 80 GB",
        r"A100 80GB PCIe",
        312,
        156,
        19.5,
        1935,
        seen={"bfloat16": 252.9},
        seen_source=_MAMF,
    ),
    GpuModel("L40S", r"L40S", 362, 183, 91.6, 864),
    GpuModel("L4", r"\bL4\b", 121, 60, 30.3, 300, source=_SPECS),
    GpuModel("A10", r"\bA10\b", 125, 62.5, 31.2, 600, source=_SPECS),
    GpuModel("V100 SXM2", r"V100-SXM2", 125, 0, 15.7, 900, source=_SPECS),
    GpuModel(
        "RTX 4090", r"RTX 4090(?! (?:D|Laptop))", 165.2, 82.6, 82.6, 1008, source="hmc-tech.com"
    ),
    GpuModel(
        "RTX 5090",
        r"RTX 5090(?! (?:D|Laptop))",
        209.6,
        104.8,
        104.8,
        1792,
        source="spheron.network: 838.4 sparse with float16 accumulation, a quarter of it dense "
        "with float32",
    ),
)


def model_of(name: str) -> GpuModel | None:
    """The kind of GPU that has this name; None for one that is not known."""
    return next((model for model in MODELS if re.search(model.pattern, name, re.I)), None)
