from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, sh
from corral.plan.make import make_plan, resources_of
from corral.plan.model import MachineChange, Plan
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Desired, DesiredStage, Gate, Seen
from corral.state.files import File
from corral.state.secrets import Secret
from corral.state.service import Service


@dataclass(frozen=True)
class Word:
    """A resource that wants one word."""

    name: str
    word: str = "good"

    @property
    def id(self) -> str:
        return f"word:{self.name}"

    @property
    def watches(self) -> tuple[str, ...]:
        return ()

    def probe(self) -> Script:
        return sh("echo {w}", w=self.word)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        if seen.text == self.word:
            return None
        return Change(self.id, f"make {self.name}", seen.text, self.word, sh(":"), Impact.RELOAD)


def stage(*entries: Desired, name: str = "one", gates: tuple[Gate, ...] = ()) -> DesiredStage:
    return DesiredStage(name, name, entries, gates)


def plan(stages: list[DesiredStage], observed: dict[str, dict[str, str]], **more: object) -> Plan:
    seen = {n: {k: Seen(0, v) for k, v in answers.items()} for n, answers in observed.items()}
    return make_plan(cluster="c", spec_digest="d", stages=stages, observed=seen, **more)  # type: ignore[arg-type]


A, B, C = Word("a"), Word("b"), Word("c")


def test_nothing_to_do_is_an_empty_plan() -> None:
    got = plan([stage(Desired(("n0",), (A, B)))], {"n0": {"word:a": "good", "word:b": "good"}})
    assert got.empty
    assert got.impact is Impact.NONE


def test_equal_changes_of_many_nodes_are_one() -> None:
    nodes = tuple(f"n{i}" for i in range(100))
    got = plan([stage(Desired(nodes, (A,)))], {n: {"word:a": "bad"} for n in nodes})
    assert [c.nodes for c in got.stages[0].changes] == [nodes]
    assert got.impact is Impact.RELOAD


def test_each_node_gets_its_changes_in_its_own_order() -> None:
    # n0 needs only b; n1 needs a, then b: a must not come after b on n1 though b was found first.
    got = plan(
        [stage(Desired(("n0", "n1"), (A, B)))],
        {"n0": {"word:a": "good", "word:b": "bad"}, "n1": {"word:a": "bad", "word:b": "bad"}},
    )
    order = [c.change.resource for c in got.stages[0].changes if "n1" in c.nodes]
    assert order == ["word:a", "word:b"]


def test_stages_without_changes_are_left_out_and_order_is_kept() -> None:
    stages = [stage(Desired(("n0",), (r,)), name=r.name) for r in (C, A, B)]
    got = plan(stages, {"n0": {"word:a": "good", "word:b": "bad", "word:c": "bad"}})
    assert [s.name for s in got.stages] == ["c", "b"]


def test_a_file_change_restarts_the_service_that_reads_it_in_a_later_stage() -> None:
    file = File("/e/a", "new")
    service = Service("d", ("/e/a",))
    got = plan(
        [stage(Desired(("n0",), (file,))), stage(Desired(("n0",), (service,)), name="two")],
        {"n0": {"file:/e/a": "absent", "service:d": "enabled running current"}},
    )
    assert [c.change.summary for s in got.stages for c in s.changes] == [
        "write /e/a",
        "restart d (/e/a)",
    ]


def test_a_change_on_one_node_does_not_restart_the_service_of_another() -> None:
    file = File("/e/a", "new")
    service = Service("d", ("/e/a",))
    same = f"{file.digest} 644 root:root"
    got = plan(
        [stage(Desired(("n0", "n1"), (file, service)))],
        {
            "n0": {"file:/e/a": "absent", "service:d": "enabled running current"},
            "n1": {"file:/e/a": same, "service:d": "enabled running current"},
        },
    )
    assert {n for c in got.stages[0].changes for n in c.nodes} == {"n0"}


def test_secrets_are_compared_with_the_source_node() -> None:
    key = Secret("/k", "n0", "root:root")
    want = [stage(Desired(("n0", "n1", "n2"), (key,)))]
    there = "0" * 64 + " 600 root:root"
    other = "1" * 64 + " 600 root:root"
    got = plan(want, {"n0": {key.id: there}, "n1": {key.id: there}, "n2": {key.id: other}})
    assert [(c.nodes, c.change.summary) for c in got.stages[0].changes] == [
        (("n2",), "copy /k from n0")
    ]
    fresh = plan(want, {n: {key.id: "absent"} for n in ("n0", "n1", "n2")})
    assert {(c.nodes, c.change.summary) for c in fresh.stages[0].changes} == {
        (("n0",), "make /k"),
        (("n1", "n2"), "copy /k from n0"),
    }


def test_machines_first_and_what_they_will_get_is_named() -> None:
    got = plan(
        [stage(Desired(("n0", "n1"), (A, B)))],
        {"n0": {"word:a": "bad", "word:b": "good"}},
        machines=[MachineChange("n1", "create", "is not there")],
        absent=["n1"],
    )
    assert got.stages == ()
    assert got.deferred == ((("n1",), ("word:a", "word:b")),)
    assert not got.empty


def test_the_digest_moves_with_anything_observed() -> None:
    want = [stage(Desired(("n0",), (A,)))]
    digests = {plan(want, {"n0": {"word:a": w}}).observed for w in ("good", "bad", "worse")}
    assert len(digests) == 3
    assert len({plan(want, {n: {"word:a": "good"}}).observed for n in ("n0", "n1")}) == 2


def test_json_round_trip() -> None:
    gate = Gate("up", "n0", sh("true"), 5.0, "hint", sh("journalctl"))
    key = Secret("/k", "n0", "root:root")
    got = plan(
        [stage(Desired(("n0", "n1"), (A, key)), gates=(gate,))],
        {n: {"word:a": "bad", key.id: "absent"} for n in ("n0", "n1")},
    )
    text = json.dumps(got.as_dict())
    assert Plan.from_dict(json.loads(text)) == got


@pytest.mark.parametrize("data", [{}, {"format": 99}, {"format": 1, "cluster": "c"}])
def test_a_damaged_plan_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(CorralError) as caught:
        Plan.from_dict(data)
    assert caught.value.code is Code.PARSE_FAILED


def test_alike_nodes_share_their_resources() -> None:
    many = resources_of([stage(Desired(("n0", "n1"), (A, B))), stage(Desired(("n1", "n0"), (C,)))])
    assert many["n0"] is many["n1"]


def test_a_resource_that_two_parts_of_a_stage_share_changes_each_node_once() -> None:
    shared = File("/etc/x", "new\n")
    stage = DesiredStage("s", "", (Desired(("a",), (shared,)), Desired(("b",), (shared,))))
    absent = {"file:/etc/x": Seen(0, "absent")}
    made = make_plan(
        cluster="c", spec_digest="d", stages=(stage,), observed={"a": absent, "b": absent}
    )
    assert [entry.nodes for entry in made.stages[0].changes] == [("a",), ("b",)]
