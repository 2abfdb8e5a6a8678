"""The first job over new A3 Mega nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from corral.errors import Code, CorralError
from corral.events import Event
from corral.hosts.quote import Script
from corral.hosts.transport import Result, Transport
from corral.providers.gcp.warm_up import warm_up, warm_ups
from corral.spec.models import ClusterSpec
from tests.unit.providers.gcp.test_blueprint import debugged, mega

NODES = [f"mega-a3mega-{i}" for i in range(4)]


def cluster() -> ClusterSpec:
    """Four A3 Mega nodes in two partitions, and two nodes without GPUs."""
    data = debugged(mega()).model_dump()
    data["groups"][1]["nodes"] = "mega-a3mega-[0-3]"
    data["partitions"] += ({"name": "again", "groups": ("a3mega",)},)
    return ClusterSpec.model_validate(data)


@pytest.mark.parametrize(
    ("created", "jobs"),
    [
        (["mega-controller", *NODES, "mega-debug-0"], ["--nodes=4 --nodelist='mega-a3mega-[0-3]'"]),
        (NODES[3:], ["--nodes=2 --nodelist=mega-a3mega-3"]),  # one alone would get no prolog
        (["mega-debug-0", "mega-controller"], []),
        ([], []),
    ],
)
def test_each_new_gpu_node_is_in_one_job_of_two_nodes_at_least(
    created: Collection[str], jobs: list[str]
) -> None:
    made = [job.command for job in warm_ups(cluster(), created)]
    assert len(made) == len(jobs)
    for command, job in zip(made, jobs, strict=True):
        assert f"--partition=a3mega {job} " in command


def test_a_single_node_has_no_job_of_several() -> None:
    data = mega().model_dump()
    data["groups"][1]["nodes"] = "mega-a3mega-0"
    assert not list(warm_ups(ClusterSpec.model_validate(data), ["mega-a3mega-0"]))


class Login:
    """Stands for the controller: one answer for every command."""

    def __init__(self, answer: Result | CorralError) -> None:
        self.answer = answer

    async def run(self, script: Script, **_: object) -> Result:
        if isinstance(self.answer, CorralError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Result("c", 0, "", ""), "first job over mega-a3mega-[0-3] ended"),
        (
            Result("c", 1, "srun: error: Unable to allocate\n", ""),
            "srun: error: Unable to allocate",
        ),
        (Result("c", 124, "srun: job 1 queued\n", ""), "not run after 30 minutes; corral prove"),
        (Result("c", 3, "", ""), "srun ended with 3"),
        (CorralError(Code.UNREACHABLE, "no route"), "failed: no route; corral prove"),
    ],
)
def test_a_job_that_fails_is_a_note(answer: Result | CorralError, message: str) -> None:
    events: list[Event] = []
    login: Transport = Login(answer)  # type: ignore[assignment]
    asyncio.run(warm_up(cluster(), NODES, login, events.append))
    assert len(events) == 2
    assert "pulls TCPXO's two images" in events[0].message
    assert message in events[1].message


def test_another_error_is_an_error() -> None:
    login: Transport = Login(CorralError(Code.LOGIN_REFUSED, "refused"))  # type: ignore[assignment]
    with pytest.raises(CorralError, match="refused"):
        asyncio.run(warm_up(cluster(), NODES, login, lambda _: None))
