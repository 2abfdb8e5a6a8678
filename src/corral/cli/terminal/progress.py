"""Progress: lines for a log, a live display for a terminal.

``Progress`` keeps what runs, from events alone. ``PlainFollower`` and ``LiveFollower`` show it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from corral.cli.terminal.text import duration, one_line
from corral.events import Event, Kind
from corral.plurals import plural

MANY: Final = 20
"""From this many nodes on, nodes are counted and no longer named one by one."""
SHOWN: Final = 8
"""Nodes and checks of a live picture at most."""
REFRESH: Final = 8.0
WORDS: Final = {
    "probe": "reading the machines",
    "machines": "making machines",
    "apply": "applying",
    "prove": "proving",
    "down": "removing",
    "image": "node image",
}


@dataclass(slots=True)
class Part:
    """One node's or check's share that runs now."""

    name: str
    began: float
    doing: str = ""


@dataclass(slots=True)
class Work:
    """One phase or stage that runs now."""

    name: str
    title: str
    began: float
    total: int = 0
    done: int = 0
    failed: int = 0
    reported: int = 0
    parts: dict[str, Part] = field(default_factory=dict[str, Part])


class Progress:
    """The works that run now, outermost first, kept up by events."""

    def __init__(self) -> None:
        self.works: dict[str, Work] = {}

    def feed(self, event: Event, now: float) -> Work | None:
        """Take an event; returns the work it belongs to, as it is after it (or was, at its end)."""
        match event.kind:
            case Kind.PHASE_STARTED | Kind.STAGE_STARTED:
                title = event.message or WORDS.get(event.subject, event.subject)
                self.works[event.subject] = Work(event.subject, title, now, event.total)
                return self.works[event.subject]
            case Kind.PHASE_DONE | Kind.STAGE_DONE | Kind.STAGE_FAILED:
                return self._over(event)
            case Kind.NODE_STARTED | Kind.NODE_DONE | Kind.NODE_FAILED:
                return self._part(self.works.get(event.subject), event.node, event, now)
            case Kind.CHECK_STARTED | Kind.CHECK_DONE:
                return self._part(self.works.get("prove"), event.subject, event, now)
            case Kind.CHANGE_STARTED | Kind.CHANGE_DONE:
                return self._change(event)
            case Kind.NOTE | Kind.JOB:
                return self._noted(event)

    def _over(self, event: Event) -> Work | None:
        outer = self.works.get("apply")
        if outer is not None and event.kind is not Kind.PHASE_DONE:
            outer.done += event.kind is Kind.STAGE_DONE
            outer.failed += event.kind is Kind.STAGE_FAILED
        return self.works.pop(event.subject, None)

    def _part(self, work: Work | None, name: str, event: Event, now: float) -> Work | None:
        if work is None:
            return None
        if event.kind in (Kind.NODE_STARTED, Kind.CHECK_STARTED):
            work.parts[name] = Part(name, now, event.message)
            return work
        work.parts.pop(name, None)
        work.done += 1
        work.failed += _went_wrong(event)
        return work

    def _change(self, event: Event) -> Work | None:
        for work in reversed(self.works.values()):
            part = work.parts.get(event.node)
            if part is not None:
                part.doing = event.message if event.kind is Kind.CHANGE_STARTED else ""
                return work
        return None

    def _noted(self, event: Event) -> Work | None:
        work = self.works.get(event.subject)
        if work is None:
            return None
        part = work.parts.get(event.node) if event.node else None
        if part is not None:
            part.doing = event.message
        else:
            where = f"{event.node}: " if event.node else ""
            work.parts[""] = Part("", work.began, f"{where}{event.message}")
        return work


def _went_wrong(event: Event) -> bool:
    if event.kind is Kind.CHECK_DONE:
        return event.message.startswith("fail")
    return event.kind is Kind.NODE_FAILED


class PlainFollower:
    """Progress as lines: each phase, stage, node and check at its begin and end.

    Args:
        write: takes each line.
        clock: seconds that only grow, for elapsed times.
        stamp: the time of day, printed before each line.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        stamp: Callable[[], str] = lambda: time.strftime("%H:%M:%S"),
    ) -> None:
        self._write = write
        self._clock = clock
        self._stamp = stamp
        self._progress = Progress()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        return None

    def pause(self) -> None:
        """Nothing to take away."""

    def feed(self, event: Event) -> None:
        """Write what the event is worth."""
        work = self._progress.feed(event, self._clock())
        text = self._text(event, work)
        if text:
            self._write(f"{self._stamp()} {one_line(text)}")

    def _text(self, event: Event, work: Work | None) -> str:
        match event.kind:
            case Kind.PHASE_STARTED | Kind.STAGE_STARTED:
                text = _begins(event, work)
            case Kind.PHASE_DONE | Kind.STAGE_DONE | Kind.STAGE_FAILED:
                text = _ends(event)
            case Kind.NODE_STARTED | Kind.NODE_DONE | Kind.NODE_FAILED:
                text = _node(event, work)
            case Kind.CHECK_DONE:
                text = f"check {event.subject}: {event.message}{_took(event)}"
            case Kind.JOB:
                text = f"job {event.subject}: {event.message}"
            case Kind.NOTE:
                where = f"{event.node}: " if event.node else ""
                text = f"{event.subject}: {where}{event.message}{_took(event)}"
            case _:
                text = ""
        return text


def _begins(event: Event, work: Work | None) -> str:
    if event.kind is Kind.PHASE_STARTED:
        what = WORDS.get(event.subject, event.subject)
        return f"{what}: {event.message}" if event.message else what
    title = f" ({work.title})" if work and work.title != event.subject else ""
    return f"stage {event.subject}: begins on {plural(event.total, 'node')}{title}"


def _ends(event: Event) -> str:
    if event.kind is Kind.PHASE_DONE:
        return f"{WORDS.get(event.subject, event.subject)}: done{_took(event)}"
    if event.kind is Kind.STAGE_FAILED:
        return f"stage {event.subject}: FAILED{_took(event)}: {event.message}"
    return f"stage {event.subject}: done{_took(event)}"


def _node(event: Event, work: Work | None) -> str:
    many = work is not None and work.total > MANY
    if event.kind is Kind.NODE_FAILED:
        if work is not None and work.failed > MANY:
            return ""
        return f"{event.subject}: {event.node} FAILED{_took(event)}: {_without_node(event)}"
    if not many:
        if event.kind is Kind.NODE_STARTED:
            return f"{event.subject}: {event.node} begins" + (
                f": {event.message}" if event.message else ""
            )
        return f"{event.subject}: {event.node} done{_took(event)}"
    tenth = work.done * 10 // work.total if work else 0
    if work is None or event.kind is Kind.NODE_STARTED or tenth == work.reported:
        return ""
    work.reported = tenth
    return f"{event.subject}: {work.done} of {work.total} nodes done"


def _without_node(event: Event) -> str:
    """The message of an error, whose node was printed already."""
    return event.message.removeprefix(f"{event.node}: ")


def _took(event: Event) -> str:
    return "" if event.seconds is None else f" ({duration(event.seconds)})"


class LiveFollower:
    """Progress as a picture that changes: what is over scrolls by, what runs stays at the bottom.

    Args:
        console: a terminal.
        clock: seconds that only grow.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._progress = Progress()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.pause()

    def pause(self) -> None:
        """Take the picture away; the next event brings it back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def feed(self, event: Event) -> None:
        """Take an event into the picture."""
        work = self._progress.feed(event, self._clock())
        line = finished(event, work)
        if line is not None:
            self._console.print(line, soft_wrap=True)
        if self._live is None:
            self._live = Live(
                console=self._console,
                get_renderable=lambda: picture(self._progress, self._clock()),
                refresh_per_second=REFRESH,
                transient=True,
            )
            self._live.start()


def finished(event: Event, work: Work | None) -> Text | None:
    """The line that stays when something is over, None for what leaves no trace."""
    if event.kind in (Kind.PHASE_DONE, Kind.STAGE_DONE) and event.subject != "apply":
        title = work.title if work else event.subject
        nodes = f"  {plural(event.total, 'node')}" if event.total else ""
        text = Text.assemble(("  done    ", "green"), one_line(title), (nodes, "dim"))
        return text.append(_took(event), "dim")
    if event.kind is Kind.STAGE_FAILED:
        return Text.assemble(("  failed  ", "bold red"), f"stage {event.subject}{_took(event)}")
    if event.kind is Kind.NODE_FAILED and (work is None or work.failed <= MANY):
        message = one_line(f"{event.node}: {_without_node(event)}")
        return Text.assemble(("  failed  ", "bold red"), message)
    if event.kind is Kind.CHECK_DONE and not event.message.startswith(("pass", "skip")):
        style = "bold red" if event.message.startswith("fail") else "yellow"
        word, _, rest = event.message.partition(": ")
        return Text.assemble((f"  {word:<8}", style), one_line(f"{event.subject}: {rest}"))
    return None


def picture(progress: Progress, now: float) -> Text:
    """What runs now: each work with its share done and its time, below it who is at what."""
    rows: list[Text] = []
    for work in progress.works.values():
        row = Text.assemble(("  ...     ", "cyan"), (one_line(work.title), "bold"))
        if work.total:
            row.append(f"  {work.done}/{work.total}")
        if work.failed:
            row.append(f"  {work.failed} failed", "red")
        rows.append(row.append(f"  {duration(now - work.began)}", "dim"))
        parts = sorted(work.parts.values(), key=lambda part: part.began)
        width = max((len(part.name) for part in parts[:SHOWN]), default=0)
        for part in parts[:SHOWN]:
            elapsed = f"{duration(now - part.began):>9}  " if part.name else ""
            rows.append(
                Text(f"          {part.name:<{width}}{elapsed}{one_line(part.doing)}", "dim")
            )
        if len(parts) > SHOWN:
            rows.append(Text(f"          and {len(parts) - SHOWN} more", "dim"))
    text = Text("\n", no_wrap=True, overflow="ellipsis").join(rows)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


class Follower(Protocol):
    """Shows progress while its ``with`` block lasts."""

    def __enter__(self) -> Follower: ...

    def __exit__(self, *raised: object) -> None:
        """End, and leave the terminal as it was."""
        ...

    def feed(self, event: Event) -> None:
        """Take an event."""
        ...

    def pause(self) -> None:
        """Leave the terminal alone until the next event."""
        ...


def follower(console: Console, *, lines_only: bool = False) -> Follower:
    """The live picture on a terminal, lines elsewhere."""
    if not lines_only and console.is_terminal and not console.is_dumb_terminal:
        return LiveFollower(console)

    def write(line: str) -> None:
        console.print(Text(line), soft_wrap=True)

    return PlainFollower(write)
