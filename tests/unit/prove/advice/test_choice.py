"""Hours, cost and verdict of clusters that could be rented."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.durations import interval_seconds
from corral.prove.advice.choice import (
    MONTH_H,
    Advice,
    OnSale,
    Option,
    advise,
    excerpt,
    gpu_of,
    option_of,
    with_interruptions,
)
from corral.prove.advice.run_file import TrainingFile, Workload, read_training
from corral.prove.measure.cost import LINE, METHODS, Compute, Cost, predicted
from corral.prove.measure.measurement import Measured
from corral.prove.measure.scaling import figures, read_scaling
from corral.providers.cloud.model import Capacity, Offer
from corral.spec.findings import Level
from corral.spec.load import load_text

SCALING = Path(__file__).parents[3] / "recorded" / "scaling"
H100 = Offer(
    "lambda", "gpu_8x_h100", "west", "H100 (80 GB SXM5)", 8, 208, 1 << 20, 20.0, Capacity.SOME
)
POD = Offer("runpod", "NVIDIA H100 80GB HBM3", "KS", "H100 SXM", 8, 0, 0, 24.0, Capacity.HIGH)
KIND = OnSale(H100, ("west", "east"))
FREE = ({"gbps": 1e15, "message_us": 0.0},)
LINK = ({"gbps": 100.0, "message_us": 20.0},)


def training(**fields: Any) -> TrainingFile:
    usual: dict[str, Any] = {
        "steps": 7200,
        "parameters": 1e9,
        "measured": {"gpu": "H100", "gpus": 8, "step": 10.0},
        "deadline": "24h",
    }
    return TrainingFile.model_validate({**usual, **fields})


def measured(step: float = 10.0, gpus: int = 8, size: float = 4e9) -> Workload:
    return Workload(gpus, step, Compute(0, 0, 0, step, step), size, 1e6)


def option(nodes: int = 1, step: float = 10.0, kind: OnSale = KIND, **fields: Any) -> Option:
    return option_of(training(**fields), measured(step), kind, nodes)


def judged(*offers: Offer, together: bool = False, **fields: Any) -> Advice:
    return advise(training(**fields), measured(), [(offer, together) for offer in offers])


steps = st.floats(0.01, 100)
counts = st.integers(1, 10**6)
batches = st.sampled_from(["fixed", "grows"])
durations = st.integers(1, 5000).map(lambda n: f"{n}m")


@given(step=steps, count=counts, batch=batches)
def test_more_nodes_never_take_longer_when_the_network_is_free(
    step: float, count: int, batch: str
) -> None:
    hours = [
        option(n, step, links=FREE, steps=count, batch=batch).hours or math.nan
        for n in range(1, 17)
    ]
    assert all(more <= fewer * (1 + 1e-9) for fewer, more in pairwise(hours))


@given(step=steps, nodes=st.integers(1, 16), gbps=st.floats(0.1, 3200), size=st.floats(1e6, 1e12))
def test_a_network_never_makes_it_faster(step: float, nodes: int, gbps: float, size: float) -> None:
    file = training(links=({"gbps": gbps},))
    slow = option_of(file, measured(step, size=size), KIND, nodes).hours
    free = option_of(training(links=FREE), measured(step, size=0.0), KIND, nodes).hours
    assert slow is not None and free is not None and slow >= free * (1 - 1e-9)


@given(
    nodes=st.integers(1, 16),
    price=st.floats(0, 1000),
    start=durations,
    every=durations,
    gib=st.floats(1, 1e5),
    rate=st.floats(0, 10),
)
def test_it_costs_the_price_of_all_hours_at_least(  # noqa: PLR0917
    nodes: int, price: float, start: str, every: str, gib: float, rate: float
) -> None:
    fields: dict[str, Any] = {"links": LINK, "start": start, "interruptions": [{"every": every}]}
    fields["checkpoint"] = {"takes": "1m"}
    kind = OnSale(replace(H100, price=price), ("west",))
    bare = option(nodes, kind=kind, **fields)
    stored = option(nodes, kind=kind, storage={"gib": gib, "per_gib_month": rate}, **fields)
    assert bare.hours is not None and bare.cost is not None and stored.cost is not None
    least = interval_seconds(start) / 3600 + 7200 * (bare.step or 0) / 3600
    assert bare.hours >= least * (1 - 1e-9)
    assert bare.hours == pytest.approx(least + bare.lost) or math.isinf(bare.hours)
    if math.isfinite(bare.hours):
        assert bare.cost == pytest.approx(price * nodes * bare.hours)
        more = gib * rate * bare.hours / MONTH_H
        assert stored.cost == pytest.approx(bare.cost + more)


@given(minutes=st.integers(1, 5000), count=counts)
def test_the_deadline_is_exact(minutes: int, count: int) -> None:
    """60 steps of a second are one minute."""
    file = option(step=1.0, steps=count, deadline=f"{minutes}m", start="10m")
    assert file.meets == (count <= 60 * (minutes - 10))
    assert file.meets == (not any("are allowed" in reason for reason in file.reasons))


def test_units() -> None:
    """7200 steps of 10 s on one node: 20 hours, 20 dollars each."""
    single = option()
    assert (single.step, single.hours, single.cost, single.lost) == (10.0, 20.0, 400.0, 0.0)
    half = option(start="30m", storage={"gib": 730.0, "per_gib_month": 0.5})
    assert half.hours == 20.5 and half.cost == pytest.approx(410 + 0.5 * 20.5)
    two = option(2, links=({"gbps": 95.0 / LINE, "message_us": 0.0},))
    # A ring of 16 ranks sends 30/16 of 4 GB at 11.875 GB/s.
    assert two.step == pytest.approx(5.0 + 30 / 16 * 4 / 11.875)
    grown = option(2, links=({"gbps": 95.0 / LINE, "message_us": 0.0},), batch="grows")
    assert grown.step == pytest.approx(10.0 + 30 / 16 * 4 / 11.875)
    assert grown.hours == pytest.approx(3600 * (grown.step or 0) / 3600)


def test_tokens_become_steps_of_the_measured_size() -> None:
    assert option(steps=None, tokens=7.2e9).hours == option().hours
    assert option(steps=None, tokens=7.2e9 + 1, tokens_per_step=1e6).hours == 7201 * 10 / 3600


def test_the_step_is_that_of_bench_scaling(tmp_path: Path) -> None:
    """From a record, on its own nodes and link: what its cost model predicts of two ranks."""
    seen = read_scaling((SCALING / "h200x2-sockets.txt").read_text().splitlines())
    printed = Measured("scaling", (), figures(seen)).as_dict()
    (tmp_path / "scaling.json").write_text(json.dumps(printed))
    (tmp_path / "train.yaml").write_text(
        "steps: 100\nbatch: grows\nmeasured: {gpu: H200, record: scaling.json}\n"
        "links: [{gbps: 100000}]\ndeadline: 1h\n"
    )
    file, work = read_training(tmp_path / "train.yaml")
    kind = OnSale(replace(H100, gpu="H200", gpus=1), ("west",))
    single, two = (option_of(file, work, kind, nodes) for nodes in (1, 2))
    ddp = seen.of("ddp", 2)
    assert ddp is not None and seen.one_node is not None
    assert single.step == pytest.approx(seen.one_node.seconds)
    assert two.step == pytest.approx(
        predicted(seen.cost, ddp.compute, METHODS["ddp"], 2, seen.size)
    )
    assert two.step == pytest.approx(ddp.seconds, rel=0.15)
    note = advise(file, work, [(kind.offer, False)]).notes
    assert any("record of NVIDIA H200" in text for text in note)


# Interruptions


@given(
    run=st.floats(0.1, 1000),
    between=st.floats(1, 1e4),
    every=st.floats(0.05, 100),
    takes=st.floats(0.001, 0.5),
    start=st.floats(0, 1),
)
def test_interruptions_never_save_time(
    run: float, between: float, every: float, takes: float, start: float
) -> None:
    calm = with_interruptions(run, math.inf, every, takes, start)
    assert run <= calm <= with_interruptions(run, between, every, takes, start) * (1 + 1e-9)


def test_the_expected_time_is_that_of_a_simulation() -> None:
    """A thousand runs of 20 h with an interruption every 5 h, saved each hour."""
    chance = random.Random(16)

    def simulated() -> float:
        hours, done = 0.0, 0
        while done < 20:
            left = chance.expovariate(1 / 5)
            hours, done, fallen = (
                (hours + 1.1, done + 1, False) if left > 1.1 else (hours + left, done, True)
            )
            while fallen:
                again = chance.expovariate(1 / 5)
                hours, fallen = hours + min(again, 0.5), again < 0.5
        return hours

    mean = sum(simulated() for _ in range(3000)) / 3000
    assert with_interruptions(20, 5, 1, 0.1, 0.5) == pytest.approx(mean, rel=0.02)


def test_youngs_interval_is_near_the_best() -> None:
    takes, between = 0.05, 40.0
    young = math.sqrt(2 * takes * between)
    best = min(with_interruptions(200, between, t / 100, takes, 0.2) for t in range(5, 1000))
    assert with_interruptions(200, between, young, takes, 0.2) <= best * 1.001
    fields: dict[str, Any] = {"interruptions": [{"every": "80h"}], "checkpoint": {"takes": "3m"}}
    two = option(2, links=FREE, start="12m", **fields)
    hours = with_interruptions(7200 * (two.step or 0) / 3600, between, young, takes, 0.2)
    assert two.hours == pytest.approx(0.2 + hours)


def test_a_run_that_never_ends_is_named() -> None:
    (never,) = judged(H100, interruptions=[{"every": "1m"}], nodes=1).options
    assert never.hours == math.inf and "never ends" in never.reasons[0]
    printed = never.as_dict()
    assert printed["hours"] is None
    assert json.loads(json.dumps(printed, allow_nan=False))["meets"] is False


def test_interruptions_of_other_clouds_do_not_count() -> None:
    other = [{"provider": "runpod", "every": "5h"}]
    assert option(interruptions=other).lost == 0.0
    assert option(interruptions=[{"type": H100.type, "every": "5h"}]).lost > 1
    notes = judged(H100, POD, interruptions=other).notes
    assert "unknown and not counted: interruptions of machines of lambda" in notes


# What is known of a machine


@pytest.mark.parametrize(
    ("gpu", "kind", "speed", "memory"),
    [
        ("H100 (80 GB SXM5)", "gpu_8x", 1.0, 80.0),
        ("H100 SXM", "NVIDIA H100 80GB HBM3", 1.0, 80.0),
        ("H100 (80 GB PCIe)", "gpu_1x", 0.7, 80.0),
        ("A100-80G", "A100-80G", None, 80.0),
        ("A10 (24 GB PCIe)", "gpu_1x_a10", None, 24.0),
        ("A4000", "A4000", None, 16.0),
        ("H1000", "H1000", None, None),
    ],
)
def test_a_gpu_is_what_the_file_and_its_name_state(
    gpu: str, kind: str, speed: float | None, memory: float | None
) -> None:
    gpus = [{"name": "H100 PCIe", "speed": 0.7}, {"name": "A4000", "memory_gib": 16}]
    seen = gpu_of(training(gpus=gpus), replace(H100, gpu=gpu, type=kind))
    assert (seen.speed, seen.memory_gib) == (speed, memory)


def test_peaks_are_taken_on_request_and_marked() -> None:
    slow = replace(H100, gpu="A10 (24 GB PCIe)", type="gpu_1x_a10")
    fields: dict[str, Any] = {"measured": {"gpu": "H100 SXM", "gpus": 8, "step": 10.0}}
    assert gpu_of(training(**fields), slow).speed is None
    seen = gpu_of(training(**fields, speed_from_peaks=True), slow)
    assert seen.speed == pytest.approx(125 / 989) and seen.basis.startswith("assumed")
    (row,) = judged(slow, **fields, speed_from_peaks=True).options
    assert any("peaks of data sheets" in text for text in row.assumed)
    assert gpu_of(training(**fields, speed_from_peaks=True), replace(slow, gpu="X1")).speed is None


@pytest.mark.parametrize(
    ("offer", "fields", "words"),
    [
        (replace(H100, gpu="B200", type="b200"), {}, "speed of this GPU"),
        (replace(H100, price=None), {}, "price"),
        (replace(H100, gpu="H100"), {"gpu_memory_gib": 40}, "memory of this GPU"),
        (H100, {"deadline": "12h"}, "the network between these nodes"),
        (H100, {"deadline": "12h", "links": [{"hardware": "10gbe"}]}, "of nodes with 1 GPU"),
    ],
)
def test_what_is_unknown_is_named_and_never_meets(
    offer: Offer, fields: dict[str, Any], words: str
) -> None:
    advice = judged(offer, **fields)
    assert advice.best is None
    assert any(words in text for text in advice.options[0].unknown)


@pytest.mark.parametrize(
    ("offer", "fields", "words"),
    [
        (replace(H100, capacity=Capacity.NONE), {}, "no capacity now"),
        (H100, {"gpu_memory_gib": 81}, "80 GiB of memory a GPU, 81 needed"),
        (H100, {"budget": 399.99}, "costs 400.00 $, 399.99 $ are allowed"),
        (H100, {"deadline": "12h", "nodes": 1}, "takes 20.0 h, 12 h are allowed"),
        (H100, {"deadline": "2h"}, "takes 20.0 h, 2 h are allowed"),
        (POD, {"deadline": "12h", "links": FREE}, "takes 20.0 h, 12 h are allowed"),
    ],
)
def test_what_will_not_do_has_a_reason(offer: Offer, fields: dict[str, Any], words: str) -> None:
    advice = judged(offer, **fields)
    assert advice.best is None and advice.options[0].reasons == (words,)


def test_pods_form_a_job_only_as_one_cluster() -> None:
    single, cluster = judged(POD, links=FREE), judged(POD, links=FREE, together=True)
    assert single.options[0].nodes == 1 and cluster.options[0].nodes == 2
    assert "no job over several single machines of runpod" in "\n".join(single.notes)
    (row,) = judged(POD, links=FREE, together=True, nodes=1).options
    assert row.reasons == ("comes as 2 nodes or more, 1 are allowed",)


def test_the_cheapest_that_meets_comes_first() -> None:
    dear, cheap = replace(H100, type="dear", price=30.0), replace(H100, type="cheap", price=10.0)
    empty = replace(H100, type="empty", price=1.0, capacity=Capacity.NONE)
    odd = replace(H100, type="odd", gpu="B200", price=1.0)
    offers = [(offer, False) for offer in (dear, empty, odd, H100, cheap)]
    for turn in range(5):
        rows = advise(training(), measured(), offers[turn:] + offers[:turn])
        order = [row.sale.offer.type for row in rows.options]
        assert order == ["cheap", "gpu_8x_h100", "dear", "empty", "odd"]
        assert rows.best is rows.options[0]


def test_the_fewest_nodes_that_meet_are_the_cheapest() -> None:
    (row,) = judged(H100, deadline="12h", links=LINK).options
    assert (row.nodes, row.meets) == (2, True)


def test_regions_and_providers_are_kept() -> None:
    east, far = replace(H100, region="east"), replace(H100, region="far")
    advice = judged(H100, east, far, POD, regions=("west", "far"), providers=("lambda",))
    assert [row.sale.regions for row in advice.options] == [("west", "far")]
    assert judged(replace(H100, gpus=0)).options == ()


def test_hardware_of_the_table_is_marked() -> None:
    row = option(2, links=[{"provider": "lambda", "hardware": "dgx-h100"}])
    assert row.assumed == ("assumed: dgx-h100, 370 GB/s (seen elsewhere)",)
    assert row.step == pytest.approx(5 + 30 / 16 * 4 / 370)


def test_other_numbers_of_gpus_are_marked() -> None:
    row = option(kind=OnSale(replace(H100, gpus=4), ()))
    assert row.step == 20.0 and row.assumed == ("4 GPUs of a node from 8 measured",)


FILE = """\
corral: v1
name: lab
controller: desk
network: {control: tailscale}
partitions: [{name: main, groups: [train], default: true}]
"""


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize(
    ("offer", "together"),
    [(H100, False), (POD, True), (replace(POD, type='odd: "x}', region="us-1"), True)],
)
def test_the_excerpt_is_part_of_a_cluster_file(offer: Offer, together: bool, nodes: int) -> None:
    row = replace(option(), sale=OnSale(offer, (offer.region, "other"), together), nodes=nodes)
    text = excerpt(row).replace(
        "groups:\n", "groups:\n  - {name: home, provider: ssh, nodes: desk, addresses: 10.0.0.1}\n"
    )
    loaded = load_text(FILE + text, "lab.yaml")
    errors = [f for f in loaded.findings if f.level is Level.ERROR]
    if "odd" in offer.type:
        assert {f.where for f in errors} == {"groups[1].cloud.type"}
        return
    alone = together and nodes == 1
    assert loaded.spec is not None or alone, errors
    if loaded.spec is not None:
        group, budget = loaded.spec.groups[1], loaded.spec.budget
        assert group.cloud is not None and budget is not None and group.gpu is not None
        assert (group.cloud.type, group.gpu.type, group.gpu.count) == (offer.type, "h100", 8)
        many = nodes > 1 and not together
        assert group.cloud.regions == (("west",) if many else (offer.region, "other"))
        assert budget.per_hour == (offer.price or 0) * nodes and budget.total == 400


@given(st.floats(0.001, 1e6))
def test_the_excerpts_budget_admits_the_cluster(cost: float) -> None:
    text = excerpt(replace(option(), cost=cost))
    total = float(text.rpartition("total: ")[2].rstrip("}\n"))
    assert cost <= total * (1 + 1e-9) and total - cost < 0.011


def test_a_free_network_costs_nothing() -> None:
    assert Cost(0.0, 0.0).on_link(1e15).reduce(8, 4e9) < 1e-6
