"""Rules over what machines report, and the table of who uses them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.api.operations import overview
from corral.doctor import look
from corral.doctor.catalog import catalog
from corral.hosts.fleet import Fleet
from corral.inspect import rules
from corral.inspect.question import MachineState
from corral.inspect.rules import (
    RULES,
    NameFault,
    Observer,
    UnitState,
    clock_offset,
    name_problems,
    unit_state,
)
from corral.prove import survey
from corral.prove.catalog import CHECKS
from corral.prove.context import ProveContext
from corral.spec.load import load_or_raise

ROOT = Path(__file__).parents[3]
SPEC = load_or_raise(ROOT / "examples" / "laptop.yaml")
MODULES = {
    Observer.PROOF: "prove/smoke.py",
    Observer.DOCTOR: "doctor",
    Observer.STATUS: "api/operations/overview.py",
}


def asked(observer: Observer) -> set[str]:
    """Names of the questions that an observer asks of some node."""
    context = ProveContext(SPEC, Fleet({}), "node0", "corral", {})
    found = {
        Observer.PROOF: survey.questions(("node0",), ("slurmd",), controller=True),
        Observer.DOCTOR: look.questions(look.Ask(("node0",), ("slurmd",), controller=True)),
        Observer.STATUS: overview.questions(context, "node0"),
    }[observer]
    return {one.name for one in found}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_observer_of_the_table_uses_the_rule(rule: rules.Rule) -> None:
    known = {Observer.PROOF: {c.id for c in CHECKS}, Observer.DOCTOR: set(catalog())}
    known[Observer.STATUS] = {"units"}
    for observer in Observer:
        where = ROOT / "src/corral" / MODULES[observer]
        files = sorted(where.glob("*.py")) if where.is_dir() else [where]
        calls = {
            node.func.id
            for file in files
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert (rule.name in calls) == (observer in rule.used_by), (rule.name, observer)
        if observer in rule.used_by:
            assert set(rule.asks) <= asked(observer)
            assert set(rule.used_by[observer]) <= known[observer]


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("active", UnitState.ACTIVE),
        ("activating", UnitState.CHANGING),
        ("reloading", UnitState.CHANGING),
        ("inactive (masked: systemctl unmask slurmd)", UnitState.DOWN),
        ("failed", UnitState.DOWN),
        ("Failed to connect to bus", UnitState.DOWN),
        (" ", UnitState.UNKNOWN),
    ],
)
def test_states_of_units(answer: str, state: UnitState) -> None:
    assert unit_state(answer) is state


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("b 10.0.0.2", None),
        ("b 10.0.0.2 10.1.0.2", None),
        ("b 10.1.0.2 10.0.0.2", NameFault.LATER),
        ("b 10.1.0.2", NameFault.OTHER),
        ("b 127.0.1.1 10.0.0.2", NameFault.LOOPBACK),
        ("b 10.0.0.2 127.0.1.1", NameFault.ALSO_LOOPBACK),
        ("b ? ", NameFault.UNANSWERED),
        ("b ", NameFault.MISSING),
        ("", NameFault.MISSING),
    ],
)
def test_faults_of_names(answer: str, fault: NameFault | None) -> None:
    state = MachineState("a", {"names": answer})
    found = list(name_problems(state, ("b",), {"b": "10.0.0.2"}))
    assert [one.fault for one in found] == ([fault] if fault else [])


@given(clock=st.floats(1e6, 2e9), sent=st.floats(1e6, 2e9), seconds=st.floats(0, 100))
def test_a_clock_that_the_round_trip_explains_is_not_off(
    clock: float, sent: float, seconds: float
) -> None:
    state = MachineState("a", {"clock": f"{clock:.6f}"}, sent, sent + seconds)
    offset = clock_offset(state)
    assert offset is not None
    assert offset.least <= offset.most
    inside = sent <= float(f"{clock:.6f}") <= sent + seconds
    assert (offset.surely == 0.0) or not inside


def test_a_clock_that_was_not_read_is_unknown() -> None:
    assert clock_offset(MachineState("a", {"clock": "date: not found"})) is None
    assert clock_offset(MachineState("a")) is None
