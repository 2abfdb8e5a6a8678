"""What the rules of rented groups fire on."""

from __future__ import annotations

from typing import Any

from .cases import LAB
from .cases_iron import MEGA

Case = tuple[str, dict[str, Any], dict[str, Any], str]
RENTED: dict[str, object] = {
    "provider": "lambda",
    "addresses": None,
    "cloud": {"type": "gpu_1x_a10"},
}
AT: dict[str, object] = {f"groups.0.{k}": v for k, v in RENTED.items()}
PLAIN_CLOUD = {name: value for name, value in RENTED.items() if value is not None}
LIMITS = {"per_hour": 20, "total": 300}
ELASTIC = {"cpus": 1, "memory_gib": 1}
AS_ONE = {"groups.0.cloud": {"type": "x", "cluster": True}}
POD = {"groups.0.provider": "runpod"}
RUNPOD = {"provider": "runpod", "type": "x"}
TAILNET = {"network.control": "tailscale"}
CLOUD: list[Case] = [
    ("cloud-missing", LAB, {**AT, "groups.0.cloud": None}, "groups[0]"),
    ("cloud-unused", LAB, {"groups.0.cloud": {"type": "x"}}, "groups[0].cloud"),
    ("cloud-unused", LAB, {**AT, "groups.0.addresses": "10.0.0.[1-3]"}, "groups[0].addresses"),
    ("cloud-name-long", LAB, {**AT, "groups.0.nodes": "n" * 40}, "groups[0].nodes"),
    ("nvlink-rack", LAB, {**AT, "groups.0.gpu.type": "gb300"}, "groups[0].gpu.type"),
    ("budget-missing", LAB, AT, "groups[0].provider"),
    ("budget-unused", LAB, {"budget": LIMITS}, "budget"),
    ("budget-unused", MEGA, {"budget": LIMITS}, "budget"),
    (
        "budget-part",
        MEGA,
        {"groups.0": {"name": "pool", "nodes": "pool0", **PLAIN_CLOUD}, "budget": LIMITS},
        "groups[1].provider",
    ),
    ("dead-man-missing", LAB, {**AT, "budget": {}}, "groups[0].provider"),
    ("pod-limits", LAB, {**AT, "groups.0.provider": "runpod"}, "groups[0].provider"),
    ("pod-place", LAB, {**AT, **POD}, "groups[0].provider"),
    ("pod-place", LAB, {**AT, **POD, **TAILNET}, "groups[0].nodes"),
    ("pod-place", LAB, {**AT, "groups.0.cloud.fallback": [RUNPOD]}, "groups[0].provider"),
    ("rented-apart", LAB, AT, "groups[1].addresses"),
    ("cloud-cluster", LAB, {**AT, **AS_ONE}, "groups[0].cloud.cluster"),
    ("cloud-cluster", LAB, {**AT, **AS_ONE, **POD, "groups.0.nodes": "one0"}, "groups[0].nodes"),
    ("dead-man-missing", LAB, {**AT, **AS_ONE, **POD, "budget": {}}, "groups[0].provider"),
    (
        "elastic-place",
        LAB,
        {"groups.0.elastic": ELASTIC, "controller": "cpu0"},
        "groups[0].elastic",
    ),
]
