"""A job followed on the command line: its lines, its state, Ctrl-C, its end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

from rich.live import Live as Picture
from rich.text import Text

from corral import api
from corral.api.workload.queue import (
    ArrayOutcome,
    JobHandle,
    JobOutcome,
    JobRef,
    Live,
    RankLine,
)
from corral.cli.terminal.text import coloured, duration, one_line
from corral.cli.terminal.ui import InterruptedByUserError, Ui
from corral.cli.workload.jobview import end_line, parts_view
from corral.cli.workload.profile import show_profile
from corral.errors import CorralError, Exit
from corral.events import Emit, Event, Kind
from corral.slurm.states.jobs import JobState
from corral.spec.models import ClusterSpec

if TYPE_CHECKING:
    from corral.api.workload.batch import JobSpec

COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "bright_red", "bright_green")
"""Of ranks' numbers; red alone is kept for what failed."""

WIDTH: Final = 24
BURIED: Final = 5
"""Lines after a failed rank's own from which on its last ones are shown again at the end."""

_COUNTED: Final = re.compile(
    r"\b(step|iter|iteration|epoch|batch|round)\s*[:=#]?\s*(\d{1,12})\s*(?:/|of)\s*(\d{1,12})\b",
    re.IGNORECASE,
)


class Screen:
    """Draws a job. On a terminal the last rows change; elsewhere every line stays.

    Args:
        ui: where to.
        several: name the rank before each line.
        raw: print lines as they are, with terminal escapes.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        ui: Ui,
        *,
        several: bool,
        raw: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ui = ui
        self._raw = raw
        self._several = several
        self._clock = clock
        self._began = clock()
        self._picture: Picture | None = None
        self._state = ""
        self._use = ""
        self._bars: dict[int, str] = {}
        self._count: tuple[str, int, int] | None = None
        self._count_at = 0.0
        self._counted_at: dict[str, tuple[float, int]] = {}
        self._after_failure = 0

    @property
    def drawn(self) -> bool:
        """True where the bottom of the screen may change."""
        ui = self._ui
        return (
            not ui.as_json
            and ui.out.is_terminal
            and ui.err.is_terminal
            and not ui.out.is_dumb_terminal
        )

    def __enter__(self) -> Self:
        if self.drawn:
            self._picture = Picture(
                console=self._ui.out,
                get_renderable=self.picture,
                refresh_per_second=8,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._picture.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._picture is not None:
            self._picture.stop()
            self._picture = None

    def emit(self, plain: Emit) -> Emit:
        """What receives the events: this screen where it is drawn, else ``plain``."""

        def receive(event: Event) -> None:
            if self._picture is None:
                plain(event)
                return
            if event.kind is Kind.JOB:
                self._state = event.message
            subject = f"{event.subject}: " if event.kind is not Kind.JOB else ""
            self.note(f"{subject}{event.message}")

        return receive

    def note(self, text: str) -> None:
        """A line for people that is none of the job's."""
        if self._picture is None:
            self._ui.note(text)
        else:
            self._ui.out.print(Text(one_line(text), "dim"), soft_wrap=True)

    def line(self, line: RankLine) -> None:
        """Print one line, cleaned and with its own colours where the output has colours."""
        if self._ui.as_json:
            self._ui.json(
                {"event": "line", "rank": line.rank, "text": line.text, "echo": line.echo}
            )
            return
        self._after_failure += line.echo
        if line.rank is not None and "\r" in line.text:
            self._bars.pop(line.rank, None)  # that bar has ended
        self._counted(line)
        if self._raw:
            self._ui.raw(f"{self._name(line)}{line.text}")
            return
        self._ui.out.print(self._text(line), soft_wrap=True)

    def _name(self, line: RankLine) -> str:
        """What precedes a line."""
        if line.rank is None:
            return "batch: "
        return f"{line.rank}: " if self._several else ""

    def _text(self, line: RankLine) -> Text:
        text = Text()
        if name := self._name(line):
            colour = "dim" if line.rank is None else COLOURS[line.rank % len(COLOURS)]
            text.append(name, colour)
        content = coloured(line.text)
        if line.echo:
            content.stylize("dim")
        return text.append_text(content)

    def live(self, live: Live) -> None:
        """Take a progress bar, or what the job uses."""
        if live.kind == "bar":
            self._bars[live.rank] = live.text
            self._counted(RankLine(live.rank, live.text))
            return
        self._use = live.text
        if self._ui.as_json:
            self._ui.json({"event": "use", "text": live.text})

    def _counted(self, line: RankLine) -> None:
        match = _COUNTED.search(line.text)
        if match is None or not 0 < int(match[3]) < 10**12 or int(match[2]) > int(match[3]):
            return
        what, done, total = match[1].lower(), int(match[2]), int(match[3])
        self._counted_at.setdefault(what, (self._clock(), done))
        self._count, self._count_at = (what, done, total), self._clock()

    def picture(self) -> Text:
        """The rows at the bottom."""
        rows: list[Text] = []
        if self._bars:
            rank = min(self._bars)
            name = (f"{rank}: ", COLOURS[rank % len(COLOURS)]) if self._several else ""
            rows.append(Text.assemble(name, one_line(self._bars[rank])))
        if self._count is not None:
            rows.append(self._progress(*self._count))
        rest = [part for part in (self._state, self._use) if part]
        words = "  ".join([duration(self._clock() - self._began), *map(one_line, rest)])
        rows.append(Text(words, "dim"))
        text = Text("\n").join(rows)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text

    def _progress(self, what: str, done: int, total: int) -> Text:
        full = WIDTH * done // total
        text = Text.assemble(
            f"{what} {done}/{total} ", ("━" * full, "green"), ("━" * (WIDTH - full), "dim")
        )
        since, first = self._counted_at[what]
        elapsed = self._count_at - since
        if done > first and elapsed > 1:
            left = elapsed / (done - first) * (total - done) - (self._clock() - self._count_at)
            text.append(f" {duration(max(0.0, left))} left", "dim")
        return text

    def buried(self, outcome: JobOutcome) -> bool:
        """True when a failed rank's last lines have scrolled by under those of others."""
        return outcome.failed is not None and self._after_failure >= BURIED


class Following:
    """One job that is run and followed.

    Args:
        ui: where to.
        spec: the cluster.
        job: the job.
    """

    def __init__(self, ui: Ui, spec: ClusterSpec, job: JobSpec) -> None:
        self._ui = ui
        self._spec = spec
        self._job = job
        self._handle: JobHandle | None = None
        self._screen = Screen(ui, several=job.logs > 1)

    def to_its_end(self) -> int:
        """Follow it; returns the exit status."""
        try:
            with self._screen as screen:
                outcome = self._ui.run(
                    lambda emit: api.run(
                        self._spec,
                        self._job,
                        screen.emit(emit),
                        on_line=screen.line,
                        on_submit=self._submitted,
                        on_live=screen.live,
                    ),
                    lines_only=True,
                )
        except InterruptedByUserError as error:
            raise self._interrupted() from error
        show_end(self._ui, outcome, self._screen)
        self._show_profile()
        return status_of(self._job, outcome)

    def _show_profile(self) -> None:
        """What it recorded; a job that failed before has reported it already."""
        handle = self._handle
        if self._job.profile == "none" or handle is None or handle.array:
            return
        try:
            show_profile(self._ui, self._spec, str(handle.id))
        except CorralError as error:
            self._ui.note(f"no profile: {error.message}")

    def _submitted(self, handle: JobHandle) -> None:
        self._handle = handle
        self._ui.json({"event": "submitted", **handle.as_dict()})
        parts = f", {len(handle.array)} parts" if handle.array else ""
        self._screen.note(f"job {handle.id}: submitted{parts}; Ctrl-C leaves it running")

    def _interrupted(self) -> InterruptedByUserError:
        handle = self._handle
        if handle is None:
            return InterruptedByUserError(
                "the job was not submitted, or only just", again="corral jobs"
            )
        return left_running(
            self._ui, self._spec, handle.id, again=f"corral logs {handle.id} --follow"
        )


def left_running(ui: Ui, spec: ClusterSpec, job: JobRef, *, again: str) -> InterruptedByUserError:
    """Ask at Ctrl-C whether the job is cancelled; the end that reports what became of it.

    Args:
        ui: where to ask; without a terminal the job keeps running.
        spec: the cluster.
        job: the job.
        again: the command that goes on with it.
    """
    ask = f"Cancel job {job}? Otherwise it keeps running."
    if ui.interactive and ui.confirm(ask, state=f"job {job} keeps running"):
        ui.quietly(lambda: api.cancel(spec, (job,)))
        return InterruptedByUserError(f"job {job} is cancelled", again="corral jobs --all")
    return InterruptedByUserError(
        f"job {job} keeps running; `corral cancel {job}` ends it", again=again
    )


def status_of(job: JobSpec, outcome: JobOutcome | ArrayOutcome) -> int:
    """Exit status of a job that was followed: a command's own, as srun's, where it failed."""
    if outcome.good:
        return Exit.GOOD
    if job.command and isinstance(outcome, JobOutcome) and outcome.state is JobState.FAILED:
        code = outcome.exit_code
        if code is not None and (code.status or code.signal):
            return code.status or 128 + code.signal
    return Exit.NOT_GOOD


def show_end(ui: Ui, outcome: JobOutcome | ArrayOutcome, screen: Screen) -> None:
    """Report a job's state: as JSON, or for people."""
    if isinstance(outcome, ArrayOutcome):
        ui.json({"event": "ended" if outcome.ended else "state", **outcome.as_dict()})
        ui.show(parts_view(outcome))
        words = ", ".join(f"{count} {word}" for word, count in sorted(outcome.counts.items()))
        if not ui.as_json:
            ui.note(f"job {outcome.id}: {words}")
        return
    ui.json({"event": "ended" if outcome.state.ended else "state", **outcome.as_dict()})
    if not ui.as_json:
        for line in end_line(outcome, tail=screen.buried(outcome)):
            ui.err.print(line, soft_wrap=True)
