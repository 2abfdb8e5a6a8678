"""The tunnel to MLflow's pages: opened once, again after it broke, silent where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.errors import Code, CorralError
from corral.spec.load import load
from corral.spec.models import ClusterSpec
from corral.web.app import create_app
from corral.web.settings import Declared, Settings
from corral.web.tracking_tunnel import TrackingTunnel

LAPTOP = Path(__file__).parents[3] / "examples" / "laptop.yaml"


class Tunnels:
    """What ``api.tracking_page`` gives, and when it ends."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.broke = asyncio.Event()
        self.refuse = False

    @asynccontextmanager
    async def __call__(self, spec: Any) -> AsyncGenerator[Any]:
        if self.refuse:
            raise CorralError(Code.UNREACHABLE, "no tunnel")
        self.opened += 1

        async def ended() -> str:
            await self.broke.wait()
            return "it broke"

        yield f"http://127.0.0.1:{40000 + self.opened}", ended
        self.closed += 1


def tracked(spec: ClusterSpec) -> ClusterSpec:
    return spec.model_copy(update={"services": spec.services.model_copy(update={"mlflow": True})})


def test_one_tunnel_for_all_and_a_new_one_when_it_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        tunnels = Tunnels()
        monkeypatch.setattr(api, "tracking_page", tunnels)
        tunnel = TrackingTunnel(Declared(tracked(load(LAPTOP).spec)))
        first = await asyncio.gather(*(tunnel.address() for _ in range(5)))
        assert set(first) == {"http://127.0.0.1:40001"}
        tunnels.broke.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tunnels.broke = asyncio.Event()
        assert await tunnel.address() == "http://127.0.0.1:40002"
        assert tunnels.closed == 1
        await tunnel.close()
        assert tunnels.closed == 2
        tunnels.refuse = True
        assert await tunnel.address() == ""

    asyncio.run(work())


@pytest.mark.parametrize(
    ("mlflow", "service", "there"),
    [(True, False, True), (True, True, False), (False, False, False)],
)
def test_only_a_page_that_runs_elsewhere_needs_it(
    monkeypatch: pytest.MonkeyPatch, mlflow: bool, service: bool, there: bool
) -> None:
    monkeypatch.setattr(api, "tracking_page", Tunnels())
    spec = load(LAPTOP).spec.model_dump(mode="json")
    spec["services"]["mlflow"] = mlflow
    app = create_app(Settings(cluster="lab", rest="http://slurm", spec=spec, service=service))
    tracking = app.state.corral.tracking
    assert (tracking is not None) is not service
    assert bool(tracking and asyncio.run(tracking.address())) is there
