"""The screen while a job is followed: colours, bars, counts; nothing that a terminal obeys."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from corral.api.workload.queue import JobOutcome, Live, RankLine
from corral.cli.terminal.ui import Ui
from corral.cli.workload.follow import Screen
from corral.events import Event, Kind
from corral.jobs.follow import RankFailure
from corral.slurm.states.jobs import ExitCode, JobState


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def screen(clock: Clock) -> Screen:
    """A screen on a terminal of 80 columns, whose picture is not running."""
    ui = Ui()
    ui.out = ui.err = Console(
        file=io.StringIO(),
        force_terminal=True,
        width=80,
        color_system="standard",
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ={"TERM": "xterm"},
    )
    return Screen(ui, several=True, clock=clock)


def printed(screen: Screen) -> str:
    file: Any = screen._ui.out.file
    return file.getvalue()


def test_ranks_have_colours_and_lines_are_harmless(screen: Screen) -> None:
    screen.line(RankLine(0, "one"))
    screen.line(RankLine(1, "two\x1b[2J"))
    screen.line(RankLine(None, "srun: error", echo=True))
    text = printed(screen)
    assert "\x1b[36m0: \x1b[0mone" in text
    assert "\x1b[32m1: \x1b[0mtwo\\x1b[2J" in text
    assert "\x1b[2J" not in text


def test_of_a_bar_that_has_ended_the_last_state_is_left(screen: Screen) -> None:
    screen.line(RankLine(0, " 10%|#   |\r 50%|##  |\r100%|####|"))
    assert "100%|####|" in printed(screen)
    assert "10%" not in printed(screen).replace("100%", "")


def test_bar_count_state_and_use_at_the_bottom(screen: Screen, clock: Clock) -> None:
    emit = screen.emit(lambda _: None)
    screen.live(Live("bar", " 42%|####  | 21/50", 3))
    screen.line(RankLine(0, "step 10/100 loss 0.5"))
    clock.now = 30.0
    screen.line(RankLine(0, "step 40/100 loss 0.4"))
    screen.live(Live("use", "1.5 GiB of memory"))
    screen._picture = Any  # type: ignore[assignment]
    emit(Event(Kind.JOB, "12", message="running on node[0-1]"))
    rows = screen.picture().plain.splitlines()
    assert rows[0] == "3: 42%|####  | 21/50"
    assert rows[1].startswith("step 40/100 ")
    assert rows[1].endswith("1 m 00 s left")
    assert rows[2] == "30.0 s  running on node[0-1]  1.5 GiB of memory"


@pytest.mark.parametrize(
    "text", ["step 5/0", "step 9/3", "step 1/99999999999999999999", "a step", "100/200", ""]
)
def test_what_counts_nothing(screen: Screen, text: str) -> None:
    screen.line(RankLine(0, text))
    assert screen._count is None


def test_a_bar_cannot_write_to_the_terminal(screen: Screen) -> None:
    screen.live(Live("bar", "\x1b]0;title\x07 1%\n2%"))
    assert "\x1b" not in screen.picture().plain
    assert len(screen.picture().plain.splitlines()) == 2


def test_a_failure_that_scrolled_by_is_shown_again(screen: Screen) -> None:
    outcome = JobOutcome(
        12, JobState.FAILED, ExitCode(1), failed=RankFailure(1, "node1", "Exited", "boom")
    )
    assert not screen.buried(outcome)
    for _ in range(9):
        screen.line(RankLine(0, "time-out", echo=True))
    assert screen.buried(outcome)
    assert not screen.buried(JobOutcome(12, JobState.COMPLETED))
