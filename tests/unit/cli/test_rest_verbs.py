"""The one list of what works over slurmrestd: the guide's table, and the refusals."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest

from corral.api.config import profiles
from corral.cli.main import VERBS
from corral.cli.rest_verbs import rest_verbs
from corral.errors import Exit
from corral.spec.client import Profile
from tests.unit.cli.conftest import Run

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "login.md"
ARGUMENTS = {
    "attach": ("12",),
    "forward": ("12", "80"),
    "profile": ("12",),
    "data": ("bench", "/shared/x"),
    "ssh": ("node0",),
}


@pytest.fixture
def profile() -> str:
    """Alice's login by slurmrestd, where nothing listens."""

    def part(claims: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")

    token = f"{part({'alg': 'HS256'})}.{part({'sun': 'alice', 'exp': int(time.time()) + 900})}.x"
    cluster = {
        "corral": "v1",
        "name": "lab",
        "groups": [{"name": "nodes", "provider": "ssh", "nodes": "node[0-2]"}],
        "partitions": [{"name": "main", "groups": ["nodes"]}],
    }
    place = "http://127.0.0.1:9"
    login = Profile(
        node="node0", cluster=cluster, host=place, user="alice", name="lab", uid=0, rest=place
    )
    profiles.keep(login, "", token=token)
    return "lab"


def test_the_guide_has_the_list_as_it_is() -> None:
    lines = GUIDE.read_text().splitlines()
    start = lines.index("| verb | over slurmrestd |") + 2
    assert lines[start : start + len(rest_verbs())] == [row.line for row in rest_verbs()]


def test_each_row_is_of_a_verb() -> None:
    assert {row.verb.split()[0] for row in rest_verbs()} <= set(VERBS)


@pytest.mark.parametrize("verb", [row.verb for row in rest_verbs() if row.why])
def test_what_cannot_work_is_refused_before_anything_is_asked(
    verb: str, profile: str, corral: Run
) -> None:
    if " " in verb or verb == "logs":  # tests/unit/jobs/rest/test_client.py; Slurm knows the file
        return
    row = next(row for row in rest_verbs() if row.verb == verb)
    done = corral(verb, *ARGUMENTS.get(verb, ()), "-c", profile)
    assert done.exit_code == Exit.FAILED
    error = " ".join(done.stderr.split())
    assert f"{row.why}, and profile lab reaches its cluster by slurmrestd alone" in error
    assert "corral login USER@HOST" in error
