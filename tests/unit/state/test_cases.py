"""Data fixtures: observed + wanted -> the exact change (cases.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from corral.hosts.quote import Script
from corral.state.accounts import UserAccount
from corral.state.base import Change, Context, Impact, Resource, Seen
from corral.state.database import Database, SlurmAccounts
from corral.state.naming import Hostname
from corral.state.packages import Packages
from corral.state.service import Service

KINDS = {k.__name__: k for k in (Database, Hostname, Packages, Service, SlurmAccounts, UserAccount)}
CASES: list[dict[str, Any]] = YAML(typ="safe").load(Path(__file__).parent / "cases.yaml")


def made(case: dict[str, Any]) -> Resource:
    args = {k: tuple(v) if isinstance(v, list) else v for k, v in case["args"].items()}
    if "reload" in args:
        args["reload"] = Script(args["reload"])
    return KINDS[case["kind"]](**args)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['kind']}-{c['seen']!r}")
def test_case(case: dict[str, Any]) -> None:
    changed = {
        name: Change(name, "", "", "", Script(":"), Impact[word.upper()])
        for name, word in case.get("changed", {}).items()
    }
    change = made(case).diff(Seen(0, case["seen"]), Context("here", changed))
    want = case["want"]
    if want is None:
        assert change is None
        return
    assert change is not None
    assert (change.summary, change.impact.word) == (want["summary"], want["impact"])
    for piece in want.get("has", ()):
        assert piece in change.script
    for piece in want.get("hasnt", ()):
        assert piece not in change.script


def test_every_kind_has_a_case() -> None:
    assert {c["kind"] for c in CASES} == set(KINDS)
