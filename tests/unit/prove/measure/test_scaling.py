"""The cost model compared with measurements of three nodes on shaped links, and its sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.errors import CorralError
from corral.prove.fabric.verdict import Outcome
from corral.prove.measure.cost import METHODS, Compute, Cost, Timed, fitted, predicted, with_overlap
from corral.prove.measure.scaling import (
    PAYS,
    Scaling,
    answer,
    curve,
    figures,
    guesses,
    on_link,
    pays_from,
    progress,
    read_scaling,
)

RECORDED = Path(__file__).parents[3] / "recorded" / "scaling"
EXACT = 0.15
LINKS = {"10gbit": 10.0, "2.5gbit": 2.5, "1gbit": 1.0}


def recorded(name: str) -> Scaling:
    return read_scaling((RECORDED / f"{name}.txt").read_text().splitlines())


@settings(max_examples=30)
@given(st.floats(1e-6, 1e-3), st.floats(1e-11, 1e-8))
def test_the_fit_finds_what_made_the_times(alpha: float, beta: float) -> None:
    cost = Cost(alpha, beta)
    sizes = [1 << n for n in (12, 16, 20, 24)]
    fit = fitted([Timed(n, s, cost.reduce(n, s)) for n in (2, 4) for s in sizes])
    for size in sizes:
        assert fit.reduce(8, size) == pytest.approx(cost.reduce(8, size), rel=0.01)


def test_one_disturbed_measurement_does_not_decide() -> None:
    cost = Cost(50e-6, 8e-9)
    times = [Timed(2, 1 << n, cost.reduce(2, 1 << n)) for n in (16, 18, 20, 22, 24)]
    times[0] = Timed(2, 1 << 16, times[0].seconds * 20)
    assert fitted(times).reduce(3, 1 << 24) == pytest.approx(cost.reduce(3, 1 << 24), rel=0.05)


def test_the_fit_of_nothing_is_nothing() -> None:
    assert fitted([]) == Cost(0.0, 0.0)


@pytest.mark.parametrize("link", ["10gbit", "2.5gbit", "1gbit"])
def test_three_nodes_are_predicted_from_two(link: str) -> None:
    """Fitted to two nodes: DDP over three, which it has not seen, on each shaped link."""
    seen = recorded(link)
    three = {g.method: g.error for g in guesses(seen) if g.ranks == 3}
    assert set(three) == {"ddp", "accumulate", "local_sgd"}
    assert all(abs(error) <= EXACT for error in three.values()), three


@pytest.mark.parametrize("link", ["nvlink", "sockets"])
def test_gpus_are_predicted_too(link: str) -> None:
    """Two H200, a model as large as GPT-2, over NVLink and over TCP on loopback."""
    seen = recorded(f"h200x2-{link}")
    errors = {g.method: g.error for g in guesses(seen)}
    assert "powersgd" not in errors  # what it computes itself is not in the model
    assert all(abs(errors[w]) <= EXACT for w in ("accumulate", "bf16", "local_sgd")), errors


def test_four_gpus_through_slurm() -> None:
    """Four H200 as four nodes: predicted over NVLink, and what no network is to blame for."""
    fast, slow = recorded("h200x4-nvlink"), recorded("h200x4-sockets")
    assert all(abs(g.error) <= EXACT for g in guesses(fast))
    assert sum(abs(g.error) <= EXACT for g in guesses(slow)) == 8  # of 11
    texts = [r.text for r in answer(fast)]
    assert (
        "2.68 times as fast as one, 67% of what they could be; 0% of a step waits for the"
        in texts[2]
    )
    assert (
        "17% is DDP's own work (gradients gathered and copied), 15% waits for the slowest"
        in texts[2]
    )
    assert (
        "0.96 times as fast as one: several nodes do not pay; 66% of a step" in answer(slow)[2].text
    )


def test_what_is_to_be_used_depends_on_the_network() -> None:
    fast = [r.text for r in answer(recorded("h200x2-nvlink"))]
    slow = [r.text for r in answer(recorded("h200x2-sockets"))]
    assert "1.45 times as fast as one, 73% of what they could be" in fast[1]
    assert "0.39 times as fast as one: several nodes do not pay; 77% of a step" in slow[1]
    assert "use gradient accumulation" in fast[2]
    assert "use DiLoCo" in slow[2]


def test_what_a_way_computes_itself_stays_on_another_link() -> None:
    seen = recorded("h200x2-nvlink")
    trained = seen.of("powersgd", 2)
    assert trained is not None
    assert on_link(seen, 100, "powersgd", 2) <= seen.speedup(trained)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("base", LINKS)
def test_other_links_are_predicted_from_one(base: str, link: str) -> None:
    """Fitted to two nodes on one shaped link: two and three nodes on the others."""
    known = recorded(base).cost
    assert known.limited(LINKS[base])
    cost, seen = known.on_link(LINKS[link], LINKS[base]), recorded(link)
    for trained in seen.trained:
        if trained.ranks > 1 and base != link:
            method = METHODS[trained.method]
            seconds = predicted(
                cost, trained.compute, method, trained.ranks, seen.bytes_of(trained.method)
            )
            case = (trained.method, trained.ranks)
            assert seconds == pytest.approx(trained.seconds, rel=EXACT), case


def test_a_wrong_model_does_not_predict() -> None:
    """The check above can fail: half the bandwidth gives other times."""
    seen = recorded("1gbit")
    trained = seen.of("ddp", 3)
    assert trained is not None
    wrong = Cost(seen.cost.alpha, seen.cost.beta * 3)
    seconds = predicted(wrong, trained.compute, METHODS["ddp"], 3, seen.size)
    assert abs(seconds / trained.seconds - 1) > EXACT


def test_overlap_hides_traffic_and_extra_explains_the_rest() -> None:
    compute = Compute(0.1, 0.2, 0.01, 0.31, 0.31)
    cost = Cost(0.0, 1e-8)
    hidden = with_overlap(cost, compute, 2, 10**7, 0.36)
    assert (hidden.overlap, hidden.extra) == (pytest.approx(0.25), 0.0)
    assert predicted(hidden, compute, METHODS["ddp"], 2, 10**7) == pytest.approx(0.36)
    late = with_overlap(cost, compute, 2, 10**7, 0.5)
    assert (late.overlap, late.extra) == (0.0, pytest.approx(0.09))


def test_a_faster_link_is_no_faster_than_the_nodes() -> None:
    nodes = Cost(0.0, 1e-9)  # 1 GB/s
    assert nodes.on_link(100).beta == 1e-9
    assert nodes.on_link(1).beta > 8e-9
    limited = Cost(0.0, 8e-9 / 0.95)
    assert limited.on_link(10, now=1).beta < 1e-9


def lines(two: float, three: float, sgd: float) -> list[str]:
    compute = {"forward": 0.3, "backward": 0.6, "update": 0.1, "alone": 1.0, "slowest": 1.0}
    model = {
        "parameters": 124_000_000,
        "bytes": 496_000_000,
        "tensors": 148,
        "batch": 8,
        "length": 512,
        "ranks_per_node": 1,
        "device": "cpu",
        "small_bytes": 4_000_000,
    }
    printed = [f"@@corral-model {json.dumps(model)}"]
    for ranks, seconds, method in (
        (1, 1.0, "ddp"),
        (2, two, "ddp"),
        (3, three, "ddp"),
        (3, sgd, "local_sgd"),
    ):
        trained = {"way": method, "ranks": ranks, "seconds": seconds, "loss": 3.0, "spread": 0.1}
        printed.append(f"@@corral-train {json.dumps(trained | compute)}")
    for size in (1 << 20, 1 << 24):
        printed.append(
            f"@@corral-reduce {json.dumps({'ranks': 2, 'bytes': size, 'seconds': size * 9e-9})}"
        )
    return printed


def test_the_answer_is_words() -> None:
    verdict, *remarks = answer(read_scaling(lines(5.0, 6.5, 1.6)))
    assert verdict.outcome is Outcome.WARN
    assert verdict.text == (
        "training over several nodes does not pay on this network for this model: 3 nodes are 0.46 "
        "times as fast as one; for 496 MB of gradients it pays from a step of 2.73 s on (80% of 3 "
        "nodes from 8.48 s on), and a step takes 1 s on one node"
    )
    assert remarks[0].outcome is Outcome.WARN
    assert "2 nodes, a model of 124 million parameters" in remarks[0].text
    assert "several nodes do not pay" in remarks[0].text
    assert "80% of a step waits for the network" in remarks[0].text
    assert "use local SGD" in remarks[2].text
    best = next(r for r in remarks if r.text.startswith("local SGD"))
    assert "1.88 times as fast as one node (+306% on plain DDP)" in best.text
    _, *good = answer(read_scaling(lines(1.1, 1.1, 1.0)))
    assert [r.outcome for r in good[:2]] == [Outcome.PASS, Outcome.PASS]
    assert "it pays" in good[0].text
    assert not any(r.text.startswith("use ") for r in good)
    _, *hopeless = answer(read_scaling(lines(5.0, 6.5, 6.5)))
    assert "no method makes them pay" in hopeless[2].text


def test_other_links_are_put_into_words_and_drawn() -> None:
    seen = read_scaling(lines(5.0, 6.5, 1.6))
    texts = [remark.text for remark in answer(seen, links=(10.0,), now=1.0)]
    assert "on a link of 10 Gb/s 3 nodes would be" in texts[-2]
    assert "within 15 %" in texts[-1]
    assert on_link(seen, 10, "ddp", 3, now=1.0) > on_link(seen, 1, "ddp", 3, now=1.0)
    plot = curve(seen)
    assert plot is not None
    assert [line.name for line in plot.series] == ["ddp", "local_sgd", "as many as nodes"]


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (0.0, "reach 0.889 Gb/s, and no link is declared"),
        (10.0, "less than the declared 10 Gb/s carry"),
        (0.5, "more than the declared 0.5 Gb/s carry"),
    ],
)
def test_links_that_are_not_the_limit_predict_nothing(now: float, why: str) -> None:
    """Without GPUs: the processors are, and no figure of another link holds then."""
    seen = read_scaling(lines(5.0, 6.5, 1.6))
    plain = [remark.text for remark in answer(seen)]
    (text,) = [r.text for r in answer(seen, links=(1.0, 2.5), now=now) if r.text not in plain]
    assert text.startswith("links of 1, 2.5 Gb/s are not predicted: ")
    assert why in text
    assert "would be so many times as fast" not in text


def test_gpus_predict_other_links_roughly() -> None:
    """NVLink to TCP between two H200, against what TCP then gave: no better than is stated."""
    fast, slow = recorded("h200x2-nvlink"), recorded("h200x2-sockets")
    gbps = slow.cost.busbw * 8 / 0.95
    errors = [
        on_link(fast, gbps, trained.method, 2) / slow.speedup(trained) - 1
        for trained in slow.trained
        if trained.ranks == 2
    ]
    assert (round(min(errors), 2), round(max(errors), 2)) == (-0.23, 0.30)
    assert "off by -23 to +30 %" in answer(fast, links=(gbps,))[-1].text


def test_one_node_gives_no_answer() -> None:
    single = [line for line in lines(1, 1, 1) if '"ranks": 1' in line or "model" in line]
    assert answer(read_scaling(single))[0].outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    "printed", [[], ["@@corral-model {}"], ["@@corral-train {", ""], ["@@corral-model 1"]]
)
def test_a_spoiled_answer_is_an_error(printed: list[str]) -> None:
    with pytest.raises(CorralError):
        read_scaling(printed)


def test_what_an_older_corral_printed_is_an_error_and_not_a_keyerror() -> None:
    model, *rest = lines(5.0, 6.5, 1.6)
    older = model.replace("ranks_per_node", "beside")
    with pytest.raises(CorralError, match="ranks_per_node"):
        read_scaling([older, *rest])


def test_a_ways_own_work_is_in_the_model_where_it_was_measured() -> None:
    """PowerSGD computes for 40 ms; DiLoCo's outer optimizer for 5 in 16 micro-batches."""
    cost, plain = Cost(50e-6, 1e-9), Compute(0.01, 0.02, 0.002, 0.032, 0.033)
    own = Compute(0.01, 0.02, 0.002, 0.032, 0.033, own=0.073)
    method = METHODS["powersgd"]
    sent = cost.reduce(2, 4e6, method.messages)
    assert predicted(cost, own, method, 2, 4e6) == pytest.approx(0.073 + sent)
    assert predicted(cost, plain, method, 2, 4e6) == pytest.approx(0.033 + sent)
    ddp = predicted(cost, own, METHODS["ddp"], 2, 4e8)
    fitted_to_it = with_overlap(cost, own, 2, 4e8, ddp)
    assert predicted(fitted_to_it, own, METHODS["ddp"], 2, 4e8) == pytest.approx(ddp)


def test_powersgd_is_predicted_once_its_own_work_is_known() -> None:
    lines = (RECORDED / "h200x2-sockets.txt").read_text().splitlines()
    with_own = [
        line.replace('"way": "powersgd",', '"way": "powersgd", "own": 0.07,') for line in lines
    ]
    assert "powersgd" not in {g.method for g in guesses(read_scaling(lines))}
    assert "powersgd" in {g.method for g in guesses(read_scaling(with_own))}


@pytest.mark.parametrize(
    "name", ["10gbit", "2.5gbit", "1gbit", "h200x2-nvlink", "h200x2-sockets", "h200x4-sockets"]
)
def test_the_verdict_agrees_with_what_was_measured(name: str) -> None:
    """From the step on that it names several nodes pay, and below they do not."""
    seen = recorded(name)
    verdict, most = pays_from(seen), seen.of("ddp", seen.counts[-1])
    assert verdict is not None and most is not None
    assert verdict.times == pytest.approx(seen.speedup(most))
    assert (verdict.worth is not None and verdict.step >= verdict.worth) == (verdict.times >= PAYS)
    if verdict.worth is not None and verdict.efficient is not None:
        assert verdict.worth < verdict.efficient
    assert answer(seen)[0].outcome is (Outcome.PASS if verdict.times >= PAYS else Outcome.WARN)


@given(
    st.floats(0.01, 100),
    st.floats(0.0, 0.4),
    st.floats(0.3, 1.0),
    st.floats(1e-11, 1e-8),
    st.floats(0, 1),
)
def test_the_step_that_it_names_is_where_it_begins_to_pay(
    step: float, spare: float, backward: float, beta: float, overlap: float
) -> None:
    """Made from a model: at this step nodes reach PAYS, a tenth below they do not."""
    slower, size = 1 + spare, 496_000_000
    net = Cost(0.0, beta).reduce(3, size)

    def seconds(alone: float) -> float:
        return slower * alone + max(0.0, net - overlap * backward * alone)

    def printed(alone: float) -> list[str]:
        parts = {"forward": 0.0, "backward": backward * alone, "update": 0.0}
        parts |= {"alone": alone, "slowest": slower * alone, "loss": 1.0, "spread": 0.0}
        trained = [
            {"way": "ddp", "ranks": 1, "seconds": alone, **parts},
            {"way": "ddp", "ranks": 3, "seconds": seconds(alone), **parts},
        ]
        reduces = [
            {"ranks": 3, "bytes": n, "seconds": Cost(0.0, beta).reduce(3, n)}
            for n in (1 << 20, 1 << 24)
        ]
        return [
            lines(1, 1, 1)[0],
            *(f"@@corral-train {json.dumps(entry)}" for entry in trained),
            *(f"@@corral-reduce {json.dumps(entry)}" for entry in reduces),
        ]

    verdict = pays_from(read_scaling(printed(step)))
    assert verdict is not None and verdict.worth is not None
    if max(0.0, net - overlap * backward * step) == 0:
        return  # all is hidden at this step: how much more would be is not known
    at, below = verdict.worth, verdict.worth * 0.9
    assert 3 * at / seconds(at) == pytest.approx(PAYS, rel=1e-6)
    assert 3 * below / seconds(below) < PAYS


def test_nodes_that_slow_each_other_down_never_pay() -> None:
    printed = [line.replace('"slowest": 1.0', '"slowest": 3.1') for line in lines(3.3, 3.4, 3.4)]
    verdict = pays_from(read_scaling(printed))
    assert verdict is not None and verdict.worth is None
    assert "no step is long enough" in answer(read_scaling(printed))[0].text


SPEED = '@@corral-speed {"ranks": 3, "step": 1.0, "alone": 1.0, "alpha": 0.0001, "beta": 3e-9}'
PLAN = (
    '@@corral-plan {"done": 0, "seconds": 130.0, "limit": 150.0, "spent": 4.0, "points": '
    '[{"way": "ddp", "ranks": 1, "seconds": 9.0}, {"way": "ddp", "ranks": 3, "seconds": 50.0}], '
    '"left_out": [{"way": "diloco", "ranks": 3}]}'
)


def test_what_is_known_at_any_time() -> None:
    """After the first poll, after each measurement; nothing before."""
    model, *rest = lines(5.0, 6.5, 1.6)
    for early in ([], [model]):
        with pytest.raises(CorralError):
            read_scaling(early, partial=True)
    first = read_scaling([model, SPEED, PLAN], partial=True)
    remark, missing = answer(first)
    assert remark.outcome is Outcome.UNKNOWN
    assert "3 nodes would be 1.01 times as fast as one" in remark.text
    assert remark.text.endswith("predicted from the first seconds, not measured")
    assert missing.text == ("not measured: ddp over 1 rank, ddp over 3 ranks, diloco over 3 ranks")
    assert figures(first)["pays_from"]
    for count in range(1, len(rest)):
        part = read_scaling([model, SPEED, PLAN, *rest[:count]], partial=True)
        assert answer(part)[0].text.startswith("training over several nodes ")


def test_a_model_that_was_made_smaller_is_named() -> None:
    model, *rest = lines(5.0, 6.5, 1.6)
    smaller = model.replace('"ranks_per_node"', '"smaller": true, "ranks_per_node"')
    texts = [r.text for r in answer(read_scaling([smaller, SPEED, PLAN, *rest]))]
    assert any(text.startswith("the usual model does not fit into 2.5 min") for text in texts)
    assert not [r for r in answer(read_scaling([model, SPEED, PLAN, *rest])) if "usual" in r.text]


def test_nodes_that_share_processors_are_seen_in_the_first_seconds() -> None:
    """Containers of one machine: 2.95 times was predicted, and 0.90 measured."""
    model = lines(1, 1, 1)[0]
    shared = SPEED.replace('"alone": 1.0', '"alone": 0.4')
    verdict = pays_from(read_scaling([model, shared, PLAN], partial=True))
    assert verdict is not None
    assert (verdict.step, verdict.slower, verdict.times < 1) == (0.4, 2.5, True)


def test_an_unfinished_measurement_without_plan_is_no_result() -> None:
    with pytest.raises(CorralError, match="without a result"):
        read_scaling([lines(1, 1, 1)[0], SPEED, PLAN])


def test_progress_is_words() -> None:
    assert progress(SPEED) == "a step takes 1 s, 0.333 GB/s between nodes"
    assert progress(PLAN) == (
        "2 measurements to go, about 2.17 min; not within 2.5 min: diloco over 3 ranks"
    )
    assert progress(PLAN.replace('"done": 0', '"done": 1')) == (
        "2 measurements to go, about 2.17 min"
    )
    assert progress(lines(5.0, 6.5, 1.6)[2]) == "ddp over 2 ranks: 5000 ms"
    assert progress("anything else") == ""
    with pytest.raises(CorralError):
        progress('@@corral-speed {"ranks": 3, "step": 0}')
