"""Verdicts on GPUs, from two real H200 and from what is done to their record."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.errors import CorralError
from corral.prove.fabric.verdict import Outcome
from corral.prove.measure.gpu import gpu_models, judge_gpus, model_of, peer_matrix, read_gpus

RECORD = json.loads((Path(__file__).parents[3] / "recorded" / "gpu" / "h200x2.json").read_text())


def nodes(spoil: Callable[[dict[str, Any]], object] = lambda _: None) -> tuple[Any, ...]:
    record = copy.deepcopy(RECORD)
    spoil(record)
    return read_gpus([f"0: @@corral-gpus {json.dumps(record)}"])


def first(record: dict[str, Any]) -> dict[str, Any]:
    return record["gpus"][0]


def slow(kind: str, share: float) -> Callable[[dict[str, Any]], object]:
    def spoil(record: dict[str, Any]) -> None:
        first(record)["matrix"][kind]["tflops"] *= share

    return spoil


def test_two_real_h200_pass() -> None:
    remarks = judge_gpus(nodes(), 2)
    assert [r.outcome for r in remarks] == [Outcome.PASS, Outcome.PASS]
    assert "bfloat16 679.1" in remarks[0].text
    matrix = peer_matrix(nodes()[0])
    assert matrix is not None and matrix.cells[0][1] == pytest.approx(394.6, abs=0.1)


@pytest.mark.parametrize(
    ("spoil", "outcome", "words"),
    [
        (slow("bfloat16", 0.7), Outcome.FAIL, "70% of 679 (measured on a healthy H200 SXM)"),
        (slow("float32", 0.85), Outcome.WARN, "85% of 51.3"),
        (slow("float64", 0.5), Outcome.FAIL, "its siblings"),
        (slow("tf32", 2.0), Outcome.WARN, "another model"),
        (lambda t: first(t)["memory"].update(gb_s=2000.0), Outcome.FAIL, "memory 2000 GB/s"),
        (lambda t: first(t)["host"].update(to_gb_s=12.0), Outcome.FAIL, "PCIe generation 5 x16"),
        (lambda t: first(t)["matrix"]["float16"].update(wrong=3), Outcome.FAIL, "computes wrongly"),
        (lambda t: first(t)["after"].update(ecc_uncorrected=1), Outcome.FAIL, "memory errors"),
        (lambda t: first(t)["remapped"].update(pending="Yes"), Outcome.FAIL, "waits for a reset"),
        (lambda t: first(t)["remapped"].update(failure="Yes"), Outcome.FAIL, "not be replaced"),
        (lambda t: first(t)["remapped"].update(uncorrectable=11), Outcome.WARN, "are replaced"),
        (lambda t: first(t)["after"].update(ecc_corrected=20_000_001), Outcome.FAIL, "corrected"),
        (lambda t: first(t)["load"].update(reasons=0x8), Outcome.FAIL, "slows it down"),
        (lambda t: first(t)["load"].update(reasons=0x20), Outcome.WARN, "for heat"),
        (lambda t: first(t)["load"].update(pcie_width=8), Outcome.WARN, "8 of 16 lanes"),
        (lambda t: first(t)["load"].update(pcie_gen=3), Outcome.WARN, "generation 3 of 5"),
        (lambda t: first(t)["before"].update(watts_limit=300.0), Outcome.WARN, "limit is 300 W"),
        (lambda t: t["peers"][0].update(wrong=7), Outcome.FAIL, "arrived wrong"),
        (lambda t: t["gpus"].pop(), Outcome.FAIL, "has 1 GPUs that can be used, 2 are declared"),
        (lambda t: t["xids"]["found"].append({"bus": "00:06", "xid": 79, "text": ""}),
         Outcome.FAIL, "Xid 79"),
        (lambda t: t["xids"]["found"].append({"bus": "00:06", "xid": 31, "text": ""}),
         Outcome.WARN, "Xid 31"),
    ],
)  # fmt: skip
def test_each_fault_is_found(
    spoil: Callable[[dict[str, Any]], object], outcome: Outcome, words: str
) -> None:
    remarks = judge_gpus(nodes(spoil), 2)
    assert any(r.outcome is outcome and words in r.text for r in remarks), remarks


def test_a_node_without_a_gpu_fails() -> None:
    record = {"node": "n0", "gpus": [], "peers": [], "reason": "no GPU: PyTorch sees none"}
    (remark,) = judge_gpus(read_gpus([f"@@corral-gpus {json.dumps(record)}"]), 1)
    assert (remark.outcome, remark.failure) == (Outcome.FAIL, "F76")


@pytest.mark.parametrize("text", ["", "@@corral-gpus 3", '@@corral-gpus {"node": "a"}'])
def test_a_spoiled_answer_is_an_error(text: str) -> None:
    with pytest.raises(CorralError):
        read_gpus([text])


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80 GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce GTX 1080", None),
    ],
)
def test_models_are_known_by_their_names(name: str, title: str | None) -> None:
    model = model_of(name)
    assert (model.title if model else None) == title


def test_no_healthy_figure_is_above_its_peak() -> None:
    for model in gpu_models():
        for kind, rate in (*model.own.items(), *model.seen.items()):
            assert 0 < rate < model.peak(kind), (model.title, kind)
