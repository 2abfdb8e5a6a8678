"""``corral advise`` asks the clouds; the recorded offers of its other tests are theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corral.api.rental import advice, clouds
from corral.errors import Code, CorralError
from corral.spec.providers import CLOUDS, clouds_with
from corral.testing.virtual import VirtualLoop, run
from tests.clouds.common import World

RECORDED = Path(__file__).parents[1] / "recorded" / "offers"
TRAIN = """\
steps: 20000
parameters: 1.0e+9
measured: {gpu: H100, gpus: 8, step: 2.4}
links: [{gbps: 100}]
deadline: 12h
"""


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VirtualLoop:
    """Accounts at all clouds."""
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "train.yaml").write_text(TRAIN)
    loop = VirtualLoop()
    worlds = {name: World(name, tmp_path / name, loop) for name in CLOUDS}
    monkeypatch.setattr(clouds, "open_account", lambda name, _=None: worlds[name].client())
    return loop


@pytest.mark.parametrize("together", [False, True])
def test_the_recorded_offers_are_those_of_the_simulators(together: bool, loop: VirtualLoop) -> None:
    name = "together" if together else "singly"
    asked = clouds_with("clusters") if together else CLOUDS
    sale = run(loop, clouds.offers(asked, everything=True, together=together))
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    assert json.loads(json.dumps(sale.as_dict())) == recorded


def test_the_clouds_and_their_saved_offers_give_the_same_advice(
    loop: VirtualLoop, tmp_path: Path
) -> None:
    asked = run(loop, advice.advise(tmp_path / "train.yaml"))
    files = [RECORDED / "singly.json", RECORDED / "together.json"]
    saved = run(loop, advice.advise(tmp_path / "train.yaml", files))
    assert asked.as_dict() == saved.as_dict()
    best = asked.advice.best
    assert (
        best is not None and asked.silent == {} and f"type: {best.sale.offer.type}" in asked.excerpt
    )
    assert {option.sale.offer.provider for option in asked.advice.options} == set(CLOUDS)


def test_clusters_that_a_cloud_does_not_list_leave_the_rest(
    loop: VirtualLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = clouds._on_sale

    async def broken(account: clouds.CloudApi, *, together: bool) -> tuple[clouds.Offer, ...]:
        if together:
            raise CorralError(Code.PROVIDER_FAILED, "no clusters today")
        return await plain(account, together=together)

    monkeypatch.setattr(clouds, "_on_sale", broken)
    advised = run(loop, advice.advise(tmp_path / "train.yaml"))
    assert set(advised.silent) == set(clouds_with("clusters"))
    assert advised.advice.options
    assert not any(option.sale.together for option in advised.advice.options)
