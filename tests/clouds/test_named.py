"""An error names the cloud it came from, all that failed are named, and the others are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.api.rental import clouds, unused_machines
from corral.cli.rental import reap as reap_verb
from corral.errors import Code, CorralError
from corral.events import ignore
from corral.providers.cloud.ledger import Ledger
from corral.providers.cloud.model import Extra
from corral.providers.cloud.provider import CloudProvider
from corral.spec.models import ClusterSpec
from corral.spec.providers import CLOUDS, RENTALS
from corral.testing.virtual import VirtualLoop, run
from tests.clouds.common import World


class Accounts:
    """Clouds with a key here; ``broken`` ones refuse it."""

    def __init__(self, folder: Path, *names: str, broken: tuple[str, ...] = ()) -> None:
        self.loop = VirtualLoop()
        self.worlds = {name: World(name, folder / name, self.loop) for name in names}
        for name in broken:
            self.worlds[name].sim.key = "another"

    def __call__(self, name: str, rehearsal: object = None) -> object:
        if name in self.worlds:
            return self.worlds[name].client()
        raise CorralError(Code.NOT_FOUND, f"no API key of {name}", hint=f"set {name}")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))


def failed(accounts: Accounts, verb: str, monkeypatch: pytest.MonkeyPatch) -> CorralError:
    monkeypatch.setattr(unused_machines, "open_account", accounts)
    monkeypatch.setattr(clouds, "open_account", accounts)
    calls = {
        "reap": lambda: unused_machines.reap("lab"),
        "survey": lambda: unused_machines.survey(("lab",)),
        "survey of all": unused_machines.survey,
        "offers": clouds.offers,
    }
    with pytest.raises(CorralError) as caught:
        run(accounts.loop, calls[verb]())
    return caught.value


@pytest.mark.parametrize("only", CLOUDS)
@pytest.mark.parametrize("verb", ["reap", "survey", "survey of all", "offers"])
def test_the_one_that_failed_is_the_subject(
    verb: str, only: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the first of the table, of which there is no key."""
    error = failed(Accounts(tmp_path, only, broken=(only,)), verb, monkeypatch)
    title = RENTALS[only].title
    assert title in error.message and "API key is wrong" in error.message
    if verb != "reap":
        assert all(f"{n}: no API key" in error.tail for n in CLOUDS if n != only)


@pytest.mark.parametrize("verb", ["reap", "survey", "offers"])
def test_all_that_failed_are_named(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = ("runpod", "paperspace")
    error = failed(Accounts(tmp_path, *both, broken=both), verb, monkeypatch)
    assert "2 clouds could not be asked: runpod, paperspace" in error.message
    assert "runpod: RunPod: the API key is wrong" in error.tail
    assert "paperspace: Paperspace: the API key is wrong" in error.tail
    assert "RUNPOD_API_KEY" in error.hint and "PAPERSPACE_API_KEY" in error.hint


def test_no_key_at_all_names_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = failed(Accounts(tmp_path), "offers", monkeypatch)
    assert error.code is Code.NOT_FOUND and all(name in error.tail for name in CLOUDS)


def test_offers_of_those_that_answer_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the other one was named."""
    accounts = Accounts(tmp_path, "lambda", "runpod", broken=("lambda",))
    monkeypatch.setattr(clouds, "open_account", accounts)
    sale = run(accounts.loop, clouds.offers(("lambda", "runpod")))
    assert {offer.provider for offer in sale.offers} == {"runpod"}
    assert "Lambda Cloud" in sale.silent["lambda"].message


def test_reap_of_a_ledger_whose_cloud_has_no_key_here_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reported "ended, and the lists show nothing" of a machine that nobody had asked for."""
    accounts = Accounts(tmp_path, "lambda", "runpod")
    runpod = accounts.worlds["runpod"]
    runpod.ledger = Ledger("lab", now=accounts.loop.time)
    run(accounts.loop, runpod.up(("gpu0",)))
    del accounts.worlds["runpod"]
    monkeypatch.setattr(unused_machines, "open_account", accounts)
    seen = run(accounts.loop, unused_machines.survey(("lab",)))
    assert seen.unsure == ("runpod",)
    with pytest.raises(CorralError, match="no API key of runpod"):
        run(accounts.loop, unused_machines.reap("lab", ignore))
    accounts.worlds["runpod"] = runpod
    assert run(accounts.loop, unused_machines.survey(("lab",))).unsure == ()
    assert any("gpu0" in line for line in run(accounts.loop, unused_machines.reap("lab", ignore)))


def test_a_cloud_that_fails_the_second_call_is_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = Accounts(tmp_path, "lambda", "runpod")
    for world in accounts.worlds.values():
        run(accounts.loop, world.up(("gpu0",)))
    opened = accounts("lambda")

    async def broken(_: str) -> None:
        raise CorralError(Code.PROVIDER_FAILED, "Lambda Cloud failed")

    opened.extras = broken  # type: ignore[attr-defined]
    monkeypatch.setattr(
        unused_machines, "open_account", lambda name: opened if name == "lambda" else accounts(name)
    )
    seen = run(accounts.loop, unused_machines.survey())
    assert [i.provider for cluster in seen.clusters for i in cluster.assets.instances] == ["runpod"]
    assert seen.unsure == ("lambda",)


def test_reap_ends_with_status_1_where_a_cloud_was_not_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was 0 where something else was found, and ended."""
    assets = unused_machines.Assets((), (Extra("lambda", "ssh key", "k1", "corral-lab-key"),))
    silent = {"runpod": CorralError(Code.TIMED_OUT, "RunPod: no answer")}
    seen = unused_machines.Survey((unused_machines.Reapable("lab", False, assets),), silent)
    monkeypatch.setattr(reap_verb.api, "survey", lambda _: seen)
    monkeypatch.setattr(reap_verb.Ui, "quietly", lambda _, call: call())
    monkeypatch.setattr(reap_verb.Ui, "run", lambda *_, **__: ["lambda ssh key"])
    assert reap_verb.reap(["lab"], yes=True) == 1
    shown = capsys.readouterr()
    assert "runpod could not be asked: RunPod: no answer" in shown.err
    assert "lab: ended" in shown.out and "not asked: runpod" in shown.out


SPEC = {
    "corral": "v1",
    "name": "lab",
    "controller": "desk",
    "groups": [
        {"name": "home", "provider": "ssh", "nodes": "desk", "addresses": "10.0.0.1"},
        {
            "name": "gpu",
            "provider": "lambda",
            "nodes": "gpu0",
            "cloud": {
                "type": "gpu_1x_a10",
                "fallback": [{"provider": "paperspace", "type": "A4000"}],
            },
        },
    ],
}


@pytest.mark.parametrize("away", [("lambda",), ("lambda", "paperspace")])
def test_a_fallback_is_used_when_the_first_cloud_does_not_list_its_offers(
    away: tuple[str, ...], tmp_path: Path
) -> None:
    accounts = Accounts(tmp_path, "lambda", "paperspace")
    apis = {name: world.client() for name, world in accounts.worlds.items()}

    async def broken() -> None:
        raise CorralError(Code.PROVIDER_FAILED, "failed")

    for name in away:
        apis[name].offers = broken
    provider = CloudProvider(ClusterSpec.model_validate(SPEC), apis)
    observed = run(accounts.loop, provider.read_machines())
    if len(away) == 1:
        (action,) = provider.plan(observed)
        assert action.summary.startswith("paperspace A4000")
        assert "lambda could not be asked" in action.summary
    else:
        assert observed.refusal is not None
        assert "2 clouds could not be asked: lambda, paperspace" in observed.refusal.message
