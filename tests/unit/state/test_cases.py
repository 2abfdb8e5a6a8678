"""Data fixtures: observed + wanted -> the exact change (cases.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from corral.hosts.quote import Script
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Resource, Seen
from corral.state.databases import Database
from corral.state.files import File, Gone
from corral.state.network.host_names import BOOT, Hostname, own_name
from corral.state.network.sshd import SshdAdopt
from corral.state.packages import Packages
from corral.state.service import Service
from corral.state.storage.exports import ExistingFolder, Exports, ServedFolder
from corral.state.storage.fstab import FormerMounts, Mount
from corral.state.system.users import FormerPeople, Person, UserAccount

KINDS = {
    k.__name__: k
    for k in (
        Database,
        ExistingFolder,
        Exports,
        FormerMounts,
        FormerPeople,
        Gone,
        Hostname,
        Mount,
        Packages,
        Person,
        ServedFolder,
        Service,
        SshdAdopt,
        UserAccount,
    )
}
CASES: list[dict[str, Any]] = YAML(typ="safe", pure=True).load(Path(__file__).parent / "cases.yaml")


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
    assert want.get("refuses", "") in change.refuses
    assert bool(want.get("refuses")) == bool(change.refuses)
    for piece in want.get("has", ()):
        assert piece in change.script
    for piece in want.get("hasnt", ()):
        assert piece not in change.script


def test_every_kind_has_a_case() -> None:
    assert {c["kind"] for c in CASES} == set(KINDS)


def test_a_name_that_systemd_would_change_is_set_at_each_boot() -> None:
    assert own_name("node0") == (Hostname("node0"),)
    plain, boot = own_name("Node_A1")
    assert plain == Hostname("Node_A1")
    assert isinstance(boot, File) and boot.path == BOOT
    assert boot.content.split() == ["w", "/proc/sys/kernel/hostname", *"----", "Node_A1"]
    change = plain.diff(Seen(0, "NodeA1 Node_A1"), Context("n"))
    assert change is not None and BOOT not in change.script  # another name removes the file
    former = Hostname("node0").diff(Seen(0, "Node_A1 Node_A1"), Context("n"))
    assert former is not None and f"name_keep node0 {BOOT}" in former.script
