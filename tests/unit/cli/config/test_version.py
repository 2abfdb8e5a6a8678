"""``corral version``: what runs, and what --check finds."""

from __future__ import annotations

import json

import pytest

from corral import api
from corral.api import Installation, NewerRelease
from corral.extras import own_version

from ..conftest import Fake, Run

HERE = Installation("0.9.1", "3.13.1", "file", "/srv/corral-0.9.1-py3-none-any.whl")


def test_the_version_asks_nobody(corral: Run, fake: Fake) -> None:
    fake.answer("newer_release", AssertionError("asked"))
    ended = corral("version")
    assert ended.exit_code == 0
    assert f"corral {own_version()}, Python 3." in ended.stdout
    assert "installed from" in ended.stdout
    assert json.loads(corral("version", "--json").stdout)["version"] == own_version()
    assert corral("version", "--check").exit_code == 3


@pytest.mark.parametrize(
    ("answer", "status", "shown"),
    [
        (NewerRelease("current", "/srv", "0.9.1"), 0, "the newest release at /srv is 0.9.1"),
        (
            NewerRelease("newer", "/srv", "0.10.0", upgrade="pipx install --force /srv/c.whl"),
            1,
            "get it: pipx install --force /srv/c.whl",
        ),
        (NewerRelease("unknown", "/srv", reason="no network"), 0, "is unknown: /srv: no network"),
    ],
)
def test_what_check_finds(
    corral: Run,
    fake: Fake,
    monkeypatch: pytest.MonkeyPatch,
    *,
    answer: NewerRelease,
    status: int,
    shown: str,
) -> None:
    monkeypatch.setattr(api, "installation", lambda: HERE)
    fake.answer("newer_release", answer)
    ended = corral("version", "--check")
    assert ended.exit_code == status
    assert shown in " ".join(ended.stdout.split())
    data = json.loads(corral("version", "--check", "--json").stdout)
    assert data["check"]["state"] == answer.state
    assert data["origin"] == HERE.origin
