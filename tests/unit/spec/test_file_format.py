"""A cluster file that a release took is taken by the present code (docs/guide/upgrading.md)."""

from __future__ import annotations

import copy
import json
import runpy
from pathlib import Path
from typing import Any, Final

import pytest

from corral.spec.findings import has_errors
from corral.spec.load import load

REPO = Path(__file__).parents[3]
FORMAT = runpy.run_path(str(REPO / ".ci/file_format.py"))
RECORDS = sorted((REPO / "tests/recorded/cluster_file").glob("*.json"))
FILES = sorted((REPO / "tests/corpora/cluster_files").glob("*/*.yaml"))
KNOWN: Final = {
    "controller: has maxLength 63, and had None": "its pattern allowed 63 in 0.1.0 too",
    "storage.server: has maxLength 63, and had None": "as controller",
    "name: has maxLength 40, and had None": "its pattern allowed 40 in 0.1.0 too",
    "groups.nodes: has maxLength 65536, and had None": "its pattern allowed 4,096 in 0.1.0",
    "groups.addresses: has maxLength 65536, and had None": "as groups.nodes",
}
"""Differences that break no file, or are documented, by what is reported of them."""


def now() -> dict[str, Any]:
    return FORMAT["record"]()


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_what_a_release_took_is_taken(file: Path) -> None:
    reasons = FORMAT["breaks"](json.loads(file.read_text()), now())
    assert set(reasons) - KNOWN.keys() == set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_files_of_releases_have_no_errors(file: Path) -> None:
    assert not has_errors(load(file).findings)


def test_there_are_records_and_files() -> None:
    assert RECORDS and FILES
    assert {file.parent.name for file in FILES} == {file.stem for file in RECORDS}


@pytest.mark.parametrize(
    ("path", "change", "reason"),
    [
        ("users.uid", None, "users.uid: is gone"),
        ("users.keys", {"required": True}, "users.keys: must be there now"),
        ("users.uid", {"types": ["string"]}, "users.uid: takes no integer any more"),
        ("storage.kind", {"choices": ["nfs"]}, "storage.kind: takes existing, provider no longer"),
        (
            "users.uid",
            {"bounds": {"minimum": 2000, "maximum": 60000}},
            "users.uid: has minimum 2000, and had 1000",
        ),
        (
            "users.uid",
            {"bounds": {"minimum": 1000, "maximum": 5000}},
            "users.uid: has maximum 5000, and had 60000",
        ),
    ],
)
def test_a_break_is_seen(path: str, change: dict[str, Any] | None, reason: str) -> None:
    changed = copy.deepcopy(now())
    if change is None:
        del changed[path]
    else:
        changed[path] |= change
    assert FORMAT["breaks"](now(), changed) == [reason]


def test_a_new_field_that_must_be_there_is_a_break_in_an_old_section_only() -> None:
    field = {"types": ["string"], "choices": [], "bounds": {}, "required": True}
    assert FORMAT["breaks"](now(), now() | {"users.mail": field}) == [
        "users.mail: is new and must be there"
    ]
    section = {"other": field | {"required": False}, "other.name": field}
    assert FORMAT["breaks"](now(), now() | section) == []


def test_wider_is_no_break() -> None:
    changed = copy.deepcopy(now())
    changed["users.uid"] |= {"types": ["integer", "string"], "bounds": {}, "required": False}
    assert FORMAT["breaks"](now(), changed) == []
