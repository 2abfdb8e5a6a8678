"""Packages of embedded nodes are upgraded in turn; a restart of the container is the reboot."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.running_cluster import cancel, job_on, pid_of

from corral import api
from corral.api.lifecycle import node_updates
from corral.apply.session import Session
from corral.errors import Code, CorralError
from corral.events import Event
from corral.hosts.quote import Script, sh
from corral.inspect.system import UPDATE_MARK
from corral.spec.models import ClusterSpec
from corral.state.base import UPDATE_TAG

pytestmark = pytest.mark.slow

UP_S = 120
OFFER = (Path(__file__).parent / "programs" / "offer-package.sh").read_text()


@pytest.fixture(scope="module")
def lab(fresh_cluster: Callable[[ClusterSpec], Live]) -> Iterator[Live]:
    live = fresh_cluster(named(f"updates-{os.getpid()}"))
    offer(live, "1", "node0", "node1", "node2", install=True)
    yield live


def offer(lab: Live, version: str, *nodes: str, kind: str = "good", install: bool = False) -> None:
    """Their repository offers a package, which is installed or, in an older version, there."""
    offered = sh("sh -c {script} sh {version} {kind}", script=OFFER, version=version, kind=kind)
    install_it = sh("apt-get install -y -q corral-test >/dev/null 2>&1")
    for node in nodes:
        scripts = [(node, offered)] + ([(node, install_it)] if install else [])
        for answer in lab.each(scripts):
            assert answer.ok, answer.tail


def version(lab: Live, node: str) -> str:
    return lab.run(node, sh("dpkg-query -W -f '${{Version}}' corral-test")).stdout


def started(lab: Live, node: str) -> str:
    return lab.run(node, sh("stat -c %Y /proc/1")).stdout


def nodes_of(lab: Live) -> dict[str, str]:
    """``state reason`` of each node."""
    asked = lab.run(lab.controller, sh("sinfo -h -N -o '%N %T %E'")).stdout
    return dict(line.split(" ", 1) for line in asked.splitlines())


def all_idle(lab: Live) -> None:
    """All nodes take jobs; the proof's job may still be cleaned up on the last one."""
    end = time.monotonic() + UP_S
    while (states := set(nodes_of(lab).values())) != {"idle none"}:
        assert states <= {"idle none", "completing none"}
        assert time.monotonic() < end
        time.sleep(0.3)


def updated(lab: Live, nodes: str = "", at_once: int = 1) -> list[Event]:
    events: list[Event] = []
    plan = asyncio.run(api.plan_update(lab.spec, nodes, at_once))
    asyncio.run(api.update_nodes(lab.spec, plan, events.append))
    return events


def messages(events: list[Event], *begins: str) -> list[tuple[str, str]]:
    return [
        (event.node, word) for event in events for word in begins if event.message.startswith(word)
    ]


def test_nodes_are_updated_in_turn_and_a_job_is_waited_for(lab: Live) -> None:
    offer(lab, "2", "node1", "node2")
    before = {node: started(lab, node) for node in ("node0", "node1", "node2")}
    plan = asyncio.run(api.plan_update(lab.spec))
    assert [(each.node, each.pending.packages) for each in plan.pending] == [
        ("node1", ("corral-test",)),
        ("node2", ("corral-test",)),
    ]
    job = job_on(lab, "node2")
    process = pid_of(lab, "node2", job)
    events: list[Event] = []

    waits = threading.Event()

    def noted(event: Event) -> None:
        events.append(event)
        if event.node == "node2" and event.message.startswith("waits for"):
            waits.set()

    def ends_the_job() -> None:
        assert waits.wait(UP_S * 3)
        lab.run(lab.controller, sh("scancel {job}", job=job))

    assert process
    try:
        with ThreadPoolExecutor(1) as thread:
            ended = thread.submit(ends_the_job)
            asyncio.run(api.update_nodes(lab.spec, plan, noted))
            ended.result()
    finally:
        cancel(lab, [job])
    steps = ("drained", "waits for", "is back", "passed its proof")
    assert messages(events, *steps) == [
        *(("node1", step) for step in steps if step != "waits for"),
        *(("node2", step) for step in steps),
    ]
    assert [version(lab, node) for node in ("node0", "node1", "node2")] == ["1", "2", "2"]
    after = {node: started(lab, node) for node in before}
    assert [node for node in before if before[node] != after[node]] == ["node1", "node2"]
    all_idle(lab)
    assert not asyncio.run(api.plan_update(lab.spec)).pending
    assert asyncio.run(api.plan(lab.spec)).empty


def test_two_at_once_of_the_named_nodes(lab: Live) -> None:
    """Both are out before one is back; the node that was not named is left as it is."""
    offer(lab, "2b", "node0", "node1", "node2")
    events = updated(lab, "node[1-2]", at_once=2)
    steps = messages(events, "drained", "is back", "passed its proof")
    both = {"node1", "node2"}
    assert [word for _, word in steps] == [
        *["drained"] * 2,
        *["is back"] * 2,
        *["passed its proof"] * 2,
    ]
    assert all({node for node, _ in steps[at : at + 2]} == both for at in (0, 2, 4))
    kept = version(lab, "node0")
    assert [version(lab, node) for node in ("node1", "node2")] == ["2b", "2b"]
    assert kept != "2b"
    assert [each.node for each in asyncio.run(api.plan_update(lab.spec)).pending] == ["node0"]
    all_idle(lab)


def test_the_controller_is_updated_last_and_answers_again(lab: Live) -> None:
    offer(lab, "3", "node0", "node1")
    events = updated(lab)
    assert messages(events, "passed its proof") == [
        ("node1", "passed its proof"),
        ("node0", "passed its proof"),
    ]
    assert [version(lab, node) for node in ("node0", "node1")] == ["3", "3"]
    all_idle(lab)


def test_a_killed_update_is_continued_and_up_does_not_resume_its_node(
    lab: Live, tmp_path: Path
) -> None:
    offer(lab, "4", "node1", "node2")
    file = tmp_path / "lab.yaml"
    file.write_text(lab.spec.model_dump_json(exclude_unset=True))
    run = subprocess.Popen(
        [sys.executable, "-m", "corral", "nodes", "update", "-c", str(file), "--yes"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + UP_S
    while not lab.run("node1", sh("test -e {mark}", mark=UPDATE_MARK)).ok:
        assert time.monotonic() < end
        assert run.poll() is None
        time.sleep(0.2)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert UPDATE_TAG.strip() in nodes_of(lab)["node1"]
    assert asyncio.run(api.up(lab.spec))
    assert UPDATE_TAG.strip() in nodes_of(lab)["node1"], "it is not proven yet"
    (first, second) = asyncio.run(api.plan_update(lab.spec)).pending
    assert (first.node, first.pending.begun, second.node) == ("node1", True, "node2")
    updated(lab)
    assert [version(lab, node) for node in ("node1", "node2")] == ["4", "4"]
    all_idle(lab)


def test_an_update_that_was_killed_behind_the_reboot_starts_the_node_again(
    lab: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container ends at its reboot; who was to start it is gone."""
    offer(lab, "4.1", "node1", "node2")

    class Killed(BaseException):
        pass

    async def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(node_updates, "started", killed)
        updated(lab)
    end = time.monotonic() + UP_S
    while "node1" in lab.with_session(running):
        assert time.monotonic() < end
        time.sleep(0.5)
    (first, second) = asyncio.run(api.plan_update(lab.spec)).pending
    assert (first.node, first.stopped, second.node) == ("node1", True, "node2")
    events = updated(lab)
    assert messages(events, "is started", "was rebooted", "passed") == [
        ("node1", "is started"),
        ("node1", "was rebooted"),
        ("node1", "passed"),
        ("node2", "passed"),
    ]
    assert [version(lab, node) for node in ("node1", "node2")] == ["4.1", "4.1"]
    all_idle(lab)


async def running(session: Session) -> tuple[str, ...]:
    return session.fleet.nodes


def test_a_node_without_its_package_source_does_not_hold_up_others(lab: Live) -> None:
    offer(lab, "4.2", "node2")
    bad = sh("echo 'deb [trusted=yes] file:/nowhere ./' >/etc/apt/sources.list.d/gone.list")
    assert lab.run("node1", bad).ok
    try:
        plan = asyncio.run(api.plan_update(lab.spec))
        assert [node for node, _ in plan.failed] == ["node1"]
        asyncio.run(api.update_nodes(lab.spec, plan))
        assert version(lab, "node2") == "4.2"
    finally:
        assert lab.run("node1", sh("rm /etc/apt/sources.list.d/gone.list")).ok
    all_idle(lab)


def test_the_first_node_that_fails_ends_it_and_stays_out(lab: Live) -> None:
    offer(lab, "5", "node1", kind="bad")
    offer(lab, "5", "node2")
    with pytest.raises(CorralError) as caught:
        updated(lab)
    assert (caught.value.code, caught.value.node) == (Code.NOT_GOOD, "node1")
    assert "failed since the update: corral-bad.service" in caught.value.message
    states = nodes_of(lab)
    assert UPDATE_TAG.strip() in states["node1"]
    assert states["node2"] == "idle none", "it was not touched"
    assert version(lab, "node2") != "5"
    plan = asyncio.run(api.plan_update(lab.spec, "node2", 1))
    with pytest.raises(CorralError) as refused:
        asyncio.run(api.update_nodes(lab.spec, plan))
    assert refused.value.message.startswith("1 node out of service (node1), and at most 1 may be")
    lab.run("node1", Script("systemctl disable corral-bad.service; systemctl reset-failed"))
    events = updated(lab)
    assert messages(events, "was rebooted", "passed") == [
        ("node1", "was rebooted"),
        ("node1", "passed"),
        ("node2", "passed"),
    ]
    all_idle(lab)


def test_a_node_that_somebody_drained_is_updated_and_stays_drained(lab: Live) -> None:
    offer(lab, "6", "node1")
    asyncio.run(api.drain(lab.spec, "node1", "a new fan"))
    events = updated(lab)
    assert messages(events, "no job proves it", "stays drained") == [
        ("node1", "no job proves it"),
        ("node1", "stays drained"),
    ]
    assert version(lab, "node1") == "6"
    assert "a new fan" in nodes_of(lab)["node1"]
    asyncio.run(api.resume(lab.spec, "node1"))
