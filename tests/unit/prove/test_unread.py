"""What could not be read is one cause, never absent; "proven" stands for a complete proof only."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script
from corral.hosts.transport import Result
from corral.inspect import question
from corral.inspect.question import MachineState
from corral.prove import launch, survey
from corral.prove.checks import ranks, rest, smoke
from corral.prove.context import left_out, passed, skipped
from corral.prove.model import CheckResult, Evidence, Proof, Verdict
from corral.prove.survey import Survey
from corral.slurm.text import readable_nodes
from tests.embedded.prove_record import Case, Replayed, kind_of
from tests.fakes import recorded
from tests.unit.prove.test_replay import NODES, RECORDED, VERSIONS, proved
from tests.unit.prove.test_runner import check
from tests.unit.prove.test_runner import proved as run

HEALTHY = RECORDED / VERSIONS[-1] / "healthy.json"
LEAD = {"smoke.nodes", "rest.answers", "rest.refuses", "rest.loopback"}


class Slow:
    """A node that answers as recorded, but late; without waiting for real time."""

    def __init__(self, node: str, case: Case, seconds: float, clock: list[float]) -> None:
        self.node, self.case, self.seconds, self.clock = node, case, seconds, clock

    async def run(self, script: Script, **more: object) -> Result:
        kind = kind_of(script)
        self.clock[0] += self.seconds if kind == "survey" else 0.0
        return await Replayed(self.node, self.case.answers[self.node]).run(script)

    async def close(self) -> None:
        """Nothing to close."""


def slow(seconds: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> dict[str, CheckResult]:
    case = Case.read(HEALTHY)
    clock = [1_000_000.0]
    monkeypatch.setattr(question, "time", SimpleNamespace(time=lambda: clock[0]))
    nodes = {n: Slow(n, case, seconds.get(n, 0.2), clock) for n in NODES}
    monkeypatch.setattr(survey, "FAN_OUT", 1)  # the clock is one for all
    return proved(Fleet(nodes), case.token, frozenset({"multinode.mpi"}))  # type: ignore[arg-type]


def test_one_slow_node_is_one_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = slow({"node2": 31.0}, monkeypatch)
    failed = {r.check: r.summary for r in seen.values() if r.verdict is Verdict.FAIL}
    text = "node2 answers slowly: it took 31 s, the fastest 0.2 s"
    assert failed == {"smoke.reached": text}
    assert {r.check for r in seen.values() if r.verdict is Verdict.PASS} == LEAD
    assert text in seen["smoke.config"].summary
    assert "F69" in seen["smoke.reached"].hint


@pytest.mark.parametrize("each", [{"node0": 12.0, "node1": 11.0, "node2": 14.0}, {"node2": 9.0}])
def test_where_all_are_slow_the_limits_grow(
    each: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = slow(each, monkeypatch)
    assert seen["smoke.reached"].verdict is Verdict.PASS
    assert seen["smoke.launch"].verdict is Verdict.PASS


def looked(**texts: str) -> Survey:
    node = MachineState("node0", texts)
    return Survey({"node0": node}, ("node0",), {}, texts.get("nodes", ""), "node0")


def test_a_controller_that_reports_no_node_is_one_cause() -> None:
    text = "slurm_load_node error: Unable to contact slurm controller"
    seen = looked(nodes=text)
    for judged in (
        smoke.judge_nodes(seen),
        smoke.judge_registered(seen, (), {}),
        launch.judge_launch(seen, ()),
    ):
        assert judged.verdict is Verdict.FAIL
        assert judged.summary == f"slurmctld did not answer: {text}"


def test_a_command_that_was_cut_off_is_not_an_empty_answer() -> None:
    seen = looked(config="")
    nodes = {"node0": replace(seen.nodes["node0"], cut=("config",))}
    config = smoke.judge_config(replace(seen, nodes=nodes))
    assert "scontrol on node0 got no answer within 20 s" in config.summary
    assert "slurmctld did not report them" not in config.summary


def test_sockets_that_were_not_read_are_not_closed() -> None:
    assert "could not be read" in rest.judge_loopback(MachineState("node0")).summary


def test_few_idle_nodes_are_not_few_nodes() -> None:
    case = Case.read(HEALTHY)
    text = case.answers["node0"]["survey"][1]
    known = readable_nodes(recorded(text)["nodes"])
    complete = Survey({}, NODES, known, "", "node0")
    assert ranks.none_wide(complete).uncovered
    nodes = {"node0": known["node0"]}
    alone = replace(complete, slurm=nodes, compute=("node0",))
    assert (ranks.none_wide(alone).summary, ranks.none_wide(alone).uncovered) == (
        "no partition has two nodes",
        "",
    )


def giving(judged: object) -> object:
    async def measure(ctx: object) -> object:
        return judged

    return measure


def test_a_reason_is_handed_on_and_reported_once() -> None:
    busy = "other jobs run on node1"
    seen = run(
        check("launch", giving(left_out(busy))),  # type: ignore[arg-type]
        check("after", needs=("launch",)),
        check("absent", reason="no GPU is declared"),
        check("other", giving(skipped("one node"))),  # type: ignore[arg-type]
        check("good"),
    )
    proof = Proof("lab", 1.0, tuple(seen.values()))
    assert proof.uncovered == (busy,)
    assert proof.good
    assert not proof.proven
    assert proof.words == f"what was checked passed; not a complete proof: {busy}"
    assert Proof.from_dict(proof.as_dict()) == proof


def result(verdict: Verdict, uncovered: str = "") -> CheckResult:
    return CheckResult("a.b", "t", "a", verdict, "s", uncovered=uncovered)


@pytest.mark.parametrize(
    ("results", "only", "words"),
    [
        ([result(Verdict.PASS), result(Verdict.SKIP)], (), "proven"),
        ([result(Verdict.WARN), result(Verdict.PASS)], (), "proven"),
        (
            [result(Verdict.PASS)],
            ("smoke", "rest"),
            "smoke, rest passed; not a complete proof: only smoke, rest was asked for",
        ),
        ([result(Verdict.PASS), result(Verdict.FAIL)], ("smoke",), "NOT proven"),
        ([result(Verdict.SKIP, "no idle node")], (), "nothing was proven: no idle node"),
    ],
)
def test_the_words(results: list[CheckResult], only: tuple[str, ...], words: str) -> None:
    proof = Proof("lab", 1.0, tuple(results), only)
    assert proof.words == words
    assert proof.proven is (words == "proven")
    assert proof.as_dict()["proven"] is proof.proven


def test_a_proof_of_an_older_corral_is_read() -> None:
    data = Proof("lab", 1.0, (result(Verdict.PASS),)).as_dict()
    for key in ("only", "uncovered", "proven"):
        data.pop(key)
    assert Proof.from_dict(data).proven


def test_unreadable_node_of_a_transport_error_is_named() -> None:
    error = CorralError(Code.TIMED_OUT, "no answer within 60 s", "node1")
    seen = [MachineState("node0"), MachineState("node1", error=error)]
    judged = smoke.judge_reached(seen, {"node1": f"cannot be reached ({error.message})"})
    assert judged.summary == "node1 cannot be reached (no answer within 60 s)"
    assert passed("x", Evidence("", "", "")).uncovered == ""
