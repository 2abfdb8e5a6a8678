"""``corral login``, ``logout`` and ``export client``: what they ask for, print and write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.api.config.profiles import keep
from corral.errors import Code, CorralError
from corral.spec.client import Profile, public_part
from corral.spec.models import ClusterSpec
from tests.unit.cli.conftest import Fake, Run, stdout_json

PRINT = "SHA256:abc"


@pytest.fixture
def profile(spec: ClusterSpec) -> Profile:
    fields: dict[str, Any] = {"node": "node0", "cluster": public_part(spec), "host": "lab.example"}
    return Profile(name="lab", uid=2001, user="alice", **fields)


def test_login_passes_on_what_was_asked_for(
    corral: Run, fake: Fake, profile: Profile, tmp_path: Path
) -> None:
    fake.answer("login", api.LoggedIn(profile, ("alice has no association",)))
    done = corral("login", "alice@lab.example", "--name", "lab", "--port", "2222", "-i", "id")
    assert done.exit_code == 0, done.output
    assert "profile lab: alice@lab.example, node node0" in done.stdout
    assert "next: corral status -c lab" in done.stdout
    assert "alice has no association" in done.output
    ((address,), fields) = fake.calls["login"][0]
    assert address == api.Address("alice", "lab.example")
    assert (fields["name"], fields["port"], fields["identity"]) == ("lab", 2222, Path("id"))


def test_login_as_json_holds_no_cluster(corral: Run, fake: Fake, profile: Profile) -> None:
    fake.answer("login", api.LoggedIn(profile))
    shown = stdout_json(corral("login", "alice@lab.example", "--json"))
    assert (shown["name"], shown["user"], shown["notes"]) == ("lab", "alice", [])
    assert "cluster" not in shown


@pytest.mark.parametrize(("words", "status"), [((), 2), (("--accept-host-key",), 0)])
def test_a_new_host_key_is_shown_and_must_be_accepted(
    corral: Run, fake: Fake, profile: Profile, words: tuple[str, ...], status: int
) -> None:
    def asked(*_: Any, accept: api.AcceptKey, **__: Any) -> api.LoggedIn:
        if accept("lab.example", (PRINT,)):
            return api.LoggedIn(profile)
        raise CorralError(Code.USAGE, "the host key was not accepted")

    fake.answer("login", asked)
    done = corral("login", "alice@lab.example", *words)
    assert done.exit_code == status
    assert f"lab.example shows host key {PRINT}" in done.output
    assert ("was not accepted" in done.output) is bool(status)


def test_logout_removes_the_profile_and_names_those_there_are(
    corral: Run, profile: Profile
) -> None:
    keep(profile, "")
    wrong = corral("logout", "lob")
    assert wrong.exit_code == 2
    assert "profiles here: lab" in wrong.output
    assert corral("logout", "lab").exit_code == 0
    assert api.profiles() == ()


def test_verbs_that_need_root_name_who_must_run_them(corral: Run, profile: Profile) -> None:
    keep(profile, "")
    for words in (
        ("up",),
        ("plan",),
        ("apply",),
        ("down", "lab", "--yes"),
        ("prove",),
        ("doctor",),
        ("drain", "node1", "--reason", "x"),
        ("resume", "node1"),
        ("exec", "--", "id"),
        ("bench", "run"),
        ("keys", "forget", "node1"),
        ("export", "client", "-o", "x.json"),
    ):
        done = corral(*words)
        assert done.exit_code in (2, 3), words
        assert "needs an administrator of cluster laptop" in done.output, words


def test_a_client_file_is_written_once(
    corral: Run, fake: Fake, known: ClusterSpec, home: Path
) -> None:
    fake.answer("export_client", "{}\n")
    assert corral("export", "client", "-c", "laptop", "-o", "lab.json").exit_code == 0
    assert (home / "lab.json").read_text() == "{}\n"
    again = corral("export", "client", "-c", "laptop", "-o", "lab.json")
    assert again.exit_code == 2
    assert "--overwrite" in again.output
