"""A login with a token: which cluster responds, where its slurmctld is, when the token expires."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.api.config import login, profiles
from corral.cli.operations.status import status_view
from corral.errors import Code, CorralError
from corral.jobs.rest.client import RestClient
from corral.spec.client import ClientFile, Profile, client_spec
from tests.unit.jobs.rest.test_client import Played, token

URL = "http://127.0.0.1:6820"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))


def cluster(monkeypatch: pytest.MonkeyPatch, **ping: Any) -> None:
    """A slurmrestd of the cluster lab with the nodes a and b."""
    played = Played(
        ping={
            "meta": {"slurm": {"cluster": "lab", "release": "24.11.5"}},
            "pings": [{"hostname": "old", "pinged": "DOWN"}, {"pinged": "UP", **ping}],
        },
        partitions={"partitions": [{"name": "main"}]},
        nodes={"nodes": [{"name": name, "state": ["IDLE"]} for name in ("a", "b")]},
        jobs={"jobs": []},
    )
    made = RestClient.__post_init__

    def post_init(self: RestClient) -> None:
        made(self)
        self._http = played  # type: ignore[assignment]

    monkeypatch.setattr(RestClient, "__post_init__", post_init)


def logged_in(client: ClientFile | None = None, **claims: Any) -> login.LoggedIn:
    return asyncio.run(login.login_rest("alice", URL, token(sun="alice", **claims), client=client))


@pytest.mark.parametrize(
    ("ping", "controller", "shown"),
    [
        ({"hostname": "b"}, "b", "; controller b, Slurm 24.11.5"),
        ({"hostname": "head"}, None, "; controller head, Slurm 24.11.5"),
        ({}, None, "; Slurm 24.11.5"),
    ],
)
def test_the_controller_is_the_one_that_responds_to_ping(
    ping: dict[str, str], controller: str | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster(monkeypatch, **ping)
    assert logged_in().profile.cluster.get("controller") == controller
    seen = asyncio.run(api.status(api.spec_of("lab")))
    assert seen.controller == ping.get("hostname", "")
    head = str(status_view(seen)[0])
    assert head == f"lab: 2 of 2 nodes take jobs{shown}"


def test_a_client_file_of_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(monkeypatch, hostname="a")
    group = {"name": "nodes", "provider": "ssh", "nodes": "a"}
    fields: dict[str, Any] = {"corral": "v1", "groups": [group]}
    other = ClientFile(node="a", cluster={**fields, "name": "other"})
    with pytest.raises(CorralError, match=r"for cluster other, and .* is cluster lab") as caught:
        logged_in(other)
    assert caught.value.code is Code.USAGE
    assert not profiles.profiles()
    assert logged_in(ClientFile(node="a", cluster={**fields, "name": "lab"})).profile.name == "lab"


def test_a_token_that_expires_after_all_calendars(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(monkeypatch, hostname="a")
    assert logged_in(exp=10**15).notes == ("the token expires: a time after the year 9999",)
    assert logged_in().notes == ("the token expires: never",)


def test_the_hint_for_an_older_profile_logs_in_as_it_did() -> None:
    fields = {"corral": "v1", "slurmd": 1}
    kept = {"node": "a", "cluster": fields, "host": URL, "user": "alice", "name": "lab", "uid": 0}
    for rest, command in (
        (URL, f"corral login alice@ --rest {URL} --name lab --token-file FILE"),
        ("", f"corral login alice@{URL} --name lab"),
    ):
        with pytest.raises(CorralError) as caught:
            client_spec(Profile(**kept, rest=rest, corral="0.0.9"), Path())
        assert caught.value.hint == f"log in again: {command}"
