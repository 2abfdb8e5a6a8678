"""Progress: events in, text out."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console

from corral.cli.terminal.progress import LiveFollower, PlainFollower, Progress, follower, picture
from corral.events import Event, Kind

Golden = Callable[[str, str], None]


def three_nodes() -> Iterator[Event]:
    """What one ``up`` of three nodes reports, shortened."""
    yield Event(Kind.PHASE_STARTED, "machines", total=3)
    yield Event(Kind.NODE_STARTED, "machines", "node0", "container c-node0 does not exist yet")
    yield Event(Kind.PHASE_STARTED, "image", message="building node image x:1")
    yield Event(Kind.NOTE, "image", message="unpacking 120 packages", seconds=3.0)
    yield Event(Kind.PHASE_DONE, "image", message="node image x:1", seconds=61.0)
    yield Event(Kind.NODE_DONE, "machines", "node0", "sshd answers", 2.5)
    yield Event(Kind.PHASE_DONE, "machines", seconds=64.0)
    yield Event(Kind.PHASE_STARTED, "apply", total=2)
    yield Event(Kind.STAGE_STARTED, "base", message="names and packages", total=3)
    for i in range(3):
        yield Event(Kind.NODE_STARTED, "base", f"node{i}", total=2)
    for i in range(3):
        yield Event(Kind.CHANGE_STARTED, "package:slurmd", f"node{i}", "install slurmd")
    for i in range(2):
        yield Event(Kind.CHANGE_DONE, "package:slurmd", f"node{i}", "install slurmd", 4.0)
        yield Event(Kind.NODE_DONE, "base", f"node{i}", seconds=4.2)
    yield Event(Kind.NODE_FAILED, "base", "node2", "node2: apt ended with 100\x1b[2J", 5.0)
    yield Event(Kind.STAGE_FAILED, "base", "node2", "node2: apt ended with 100", 5.1)


def plain(events: Iterator[Event]) -> str:
    lines: list[str] = []
    ticks = itertools.count()
    follow = PlainFollower(lines.append, clock=lambda: float(next(ticks)), stamp=lambda: "12:00:00")
    with follow:
        for event in events:
            follow.feed(event)
    return "\n".join(lines) + "\n"


def test_plain_lines_of_a_small_cluster(golden: Golden) -> None:
    golden("cli/progress-plain.txt", plain(three_nodes()))


def checks() -> Iterator[Event]:
    yield Event(Kind.PHASE_STARTED, "prove", total=2)
    yield Event(Kind.CHECK_STARTED, "smoke.nodes", message="All nodes are up", total=2)
    yield Event(Kind.CHECK_DONE, "smoke.nodes", message="pass: 3 nodes up", seconds=0.6, total=2)
    yield Event(Kind.CHECK_DONE, "rest.x", message="fail: no answer", seconds=1.0, total=2)
    yield Event(Kind.PHASE_DONE, "prove", seconds=2.0)


def test_plain_lines_of_a_proof(golden: Golden) -> None:
    golden("cli/progress-prove.txt", plain(checks()))


def many(count: int, failing: int = 0) -> Iterator[Event]:
    yield Event(Kind.STAGE_STARTED, "base", message="packages", total=count)
    for i in range(count):
        yield Event(Kind.NODE_STARTED, "base", f"n{i}", total=1)
    for i in range(count):
        if i < failing:
            yield Event(Kind.NODE_FAILED, "base", f"n{i}", f"n{i}: no space", 1.0)
        else:
            yield Event(Kind.NODE_DONE, "base", f"n{i}", seconds=1.0)
    yield Event(Kind.STAGE_DONE, "base", seconds=9.0, total=count)


def test_many_nodes_are_counted_and_not_named(golden: Golden) -> None:
    golden("cli/progress-many.txt", plain(many(1000)))


def test_a_disaster_on_many_nodes_is_no_flood() -> None:
    text = plain(many(5000, failing=5000))
    assert text.count("FAILED") == 20
    assert len(text.splitlines()) < 40


def test_every_kind_of_event_is_taken_without_what_it_belongs_to() -> None:
    follow = PlainFollower(lambda _: None)
    for kind in Kind:
        follow.feed(Event(kind, "never-begun", "node0", "text", 1.0))


@pytest.mark.parametrize("at", [1, 4, 14, 18, 20])
def test_live_picture(at: int, golden: Golden) -> None:
    progress = Progress()
    for now, event in enumerate(list(three_nodes())[:at]):
        progress.feed(event, float(now))
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    with console.capture() as captured:
        console.print(picture(progress, float(at)))
    golden(f"cli/progress-live-{at:02}.txt", captured.get())


def test_live_picture_of_many_nodes_stays_small() -> None:
    progress = Progress()
    for event in list(many(1000))[:500]:
        progress.feed(event, 0.0)
    assert len(picture(progress, 1.0).plain.splitlines()) == 10
    assert "and 491 more" in picture(progress, 1.0).plain


def test_live_follower_leaves_what_is_over_and_a_clean_terminal(golden: Golden) -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    with LiveFollower(console, clock=lambda: 0.0) as follow:
        for event in [*three_nodes(), *checks()]:
            follow.feed(event)
            follow.pause()
    text = out.getvalue()
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h"), "the cursor must come back"
    kept = [line for line in re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]|\r", "", text).splitlines()]
    golden(
        "cli/progress-live-kept.txt",
        "\n".join(x for x in kept if x.startswith(("  done", "  failed", "  fail"))) + "\n",
    )
    assert "\x1b[2J" not in text


def test_lines_where_there_is_no_terminal() -> None:
    assert isinstance(follower(Console(file=io.StringIO())), PlainFollower)
    assert isinstance(follower(Console(file=io.StringIO(), force_terminal=True)), LiveFollower)
