"""``corral login --rest``: the token's way, and verbs that need ssh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.api.config.profiles import TOKEN, keep, place_of, profile_spec, token_of
from corral.spec.client import Profile, public_part
from corral.spec.models import ClusterSpec
from tests.unit.cli.conftest import Fake, Run
from tests.unit.jobs.rest.test_client import token

URL = "https://lab.example.org:6820"


@pytest.fixture
def profile(spec: ClusterSpec) -> Profile:
    fields: dict[str, Any] = {"node": "node0", "cluster": public_part(spec), "host": URL}
    return Profile(name="lab", uid=0, user="alice", rest=URL, **fields)


def test_the_token_is_read_from_a_file_or_the_environment_and_from_no_argument(
    corral: Run, fake: Fake, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JWT", raising=False)
    fake.answer("login_rest", api.LoggedIn(profile, ("the token expires: never",)))
    none = corral("login", "alice@", "--rest", URL)
    assert none.exit_code == 2
    assert "--token-file" in none.output
    file = tmp_path / "jwt"
    file.write_text("from a file")
    assert corral("login", "alice@", "--rest", URL, "--token-file", str(file)).exit_code == 0
    assert (
        corral("login", "alice", "--rest", URL, "--token-file", "-", stdin="piped").exit_code == 0
    )
    monkeypatch.setenv("SLURM_JWT", "from the environment")
    done = corral("login", "--rest", URL, "--name", "mine")
    assert done.exit_code == 0, done.output
    assert f"profile lab: alice@{URL}" in done.stdout
    given = [call[0] for call in fake.calls["login_rest"]]
    assert given == [
        ("alice", URL, "from a file"),
        ("alice", URL, "piped"),
        ("", URL, "from the environment"),
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("alice@host", "--rest", URL),
        ("alice@host", "--plain-http"),
        ("alice@", "--token-file", "x"),
    ],
)
def test_words_that_do_not_go_together(corral: Run, words: tuple[str, ...]) -> None:
    assert corral("login", *words).exit_code == 2


def test_the_token_is_its_owners_alone_and_goes_with_a_login_by_ssh(profile: Profile) -> None:
    keep(profile, "", token="a.b.c")
    file = place_of("lab") / TOKEN
    assert file.stat().st_mode & 0o777 == 0o600
    spec = profile_spec("lab")
    assert spec is not None
    assert token_of(spec) == "a.b.c"
    assert "a.b.c" not in (place_of("lab") / "profile.json").read_text()
    keep(profile.model_copy(update={"rest": ""}), "")
    assert not file.exists()


@pytest.mark.parametrize(
    "words",
    [
        ("ssh", "node1", "-c", "lab"),
        ("ssh", "--config", "-c", "lab"),
        ("forward", "7", "8888", "-c", "lab"),
        ("run", "--explain", "-c", "lab", "--", "hostname"),
    ],
)
def test_what_slurmrestd_cannot_do_is_refused_in_one_sentence(
    corral: Run, profile: Profile, words: tuple[str, ...]
) -> None:
    keep(profile, "", token=token(sun="alice"))
    done = corral(*words)
    text = " ".join(done.output.split())
    assert done.exit_code in (2, 3), done.output
    assert "profile lab reaches its cluster by slurmrestd" in text
    assert "log in by ssh: corral login USER@HOST" in text
    assert "corral login USER@HOST" in text


@pytest.mark.parametrize("verb", ["jobs", "status", "run", "cancel", "logs"])
def test_an_expired_token_is_named_before_anybody_is_asked(
    corral: Run, profile: Profile, verb: str
) -> None:
    keep(profile, "", token=token(sun="alice", exp=1_700_000_000))
    words = {"run": ("--", "hostname"), "cancel": ("7",), "logs": ("7",)}.get(verb, ())
    done = corral(verb, "-c", "lab", *words)
    assert done.exit_code == 3, done.output
    assert "the token expired at 2023-11-1" in " ".join(done.output.split())
