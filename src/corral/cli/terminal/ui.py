"""What every verb talks through: results to stdout, all else to stderr, questions, JSON."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import sys
import termios
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from typing import Any, TypeVar

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from corral.cli.terminal.interrupts import plain_interrupts, ran, typed_line
from corral.cli.terminal.progress import Follower, follower
from corral.cli.terminal.text import SafeConsole, clean
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.passwords import Person, accompanied

T = TypeVar("T")
WIDE = 10_000
"""Columns where the output goes to no terminal: nothing is wrapped or cut."""


class InterruptedByUserError(Exception):
    """Ctrl-C while something was under way.

    Args:
        state: what state things are in.
        again: what to type next; "" for the same command, which goes on from there.
        result: what is known by then, for ``--json``.
    """

    def __init__(
        self, state: str, *, again: str = "", result: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(state)
        self.again = again
        self.result = result or {}


class Ui:
    """The streams of one run.

    Args:
        as_json: stdout gets JSON and nothing else.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out = console(sys.stdout)
        self.err = console(sys.stderr)
        self._follower: Follower | None = None
        self._person = Person(self._password, self._seen, dict(os.environ))

    @property
    def interactive(self) -> bool:
        """True when a person can be asked."""
        return not self.as_json and sys.stdin.isatty() and self.err.is_terminal

    def show(self, *renderables: RenderableType) -> None:
        """Print for people on stdout; nothing with ``--json``."""
        if self.as_json:
            return
        for renderable in renderables:
            if isinstance(renderable, Table) and not self.out.is_terminal:
                self._show_stripped(renderable)
            else:
                self.out.print(renderable, soft_wrap=isinstance(renderable, (str, Text)))

    def _show_stripped(self, table: Table) -> None:
        with self.out.capture() as captured:
            self.out.print(table)
        for line in captured.get().splitlines():
            self.out.print(Text(line.rstrip()), soft_wrap=True)

    def json(self, data: object) -> None:
        """Print one JSON value in one line on stdout, with ``--json`` only."""
        if self.as_json:
            sys.stdout.write(f"{json.dumps(data, ensure_ascii=True)}\n")
            sys.stdout.flush()

    def raw(self, text: str, *, err: bool = False) -> None:
        """Print a line as it is, with all that a terminal obeys in it; nothing with ``--json``."""
        if not self.as_json:
            stream = (self.err if err else self.out).file
            stream.write(f"{text}\n")
            stream.flush()

    def note(self, text: str, style: str = "") -> None:
        """Print a line for people on stderr, with and without ``--json``."""
        self.err.print(Text(clean(text), style=style), soft_wrap=True)

    def confirm(
        self, question: str, *, yes: bool = False, state: str = "nothing was changed"
    ) -> bool:
        """Ask a person yes or no; anything but yes is no. The only such question of all verbs.

        Args:
            question: the question.
            yes: agreed beforehand by ``--yes``: nothing is asked.
            state: what state things are in without a terminal, or when the answer is Ctrl-C.

        Raises:
            CorralError: USAGE, standard input is not a terminal.
            InterruptedByUserError: Ctrl-C.
        """
        if yes:
            return True
        if not self.interactive:
            raise CorralError(
                Code.USAGE,
                "standard input is not a terminal, and --yes was not given",
                hint=f"run it with --yes to do it without asking; {state}",
            )
        try:
            with self._quiet(), plain_interrupts():
                self.err.print(Text(f"{question} [y/N] ", style="bold"), end="")
                answer = typed_line().strip().lower()
        except KeyboardInterrupt as error:
            raise InterruptedByUserError(state) from error
        return answer in ("y", "yes")

    def run(
        self,
        use: Callable[[Emit], Coroutine[Any, Any, T]],
        *,
        state: str = "",
        lines_only: bool = False,
    ) -> T:
        """Run a use case to its end with its progress on stderr.

        Args:
            use: given an Emit, makes the coroutine.
            state: what state things are in when it is interrupted, one sentence.
            lines_only: no live picture, as the use case's own output goes to the same terminal.

        Raises:
            CorralError: the use case's own.
            InterruptedByUserError: Ctrl-C.
        """
        self._follower = follower(self.err, lines_only=lines_only)
        try:
            with self._follower as following, accompanied(self._person):
                return ran(use(following.feed))
        except KeyboardInterrupt as error:
            raise InterruptedByUserError(state) from error
        finally:
            self._follower = None

    def quietly(self, use: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a use case that is over in a moment, without progress.

        Raises:
            CorralError: the use case's own.
            InterruptedByUserError: Ctrl-C.
        """
        try:
            with accompanied(self._person):
                return ran(use())
        except KeyboardInterrupt as error:
            raise InterruptedByUserError("nothing was changed") from error

    def attended(self) -> contextlib.AbstractContextManager[None]:
        """Use this around a use case that goes on until it is ended: a page, a tunnel."""
        return accompanied(self._person)

    async def _password(self, words: str) -> str | None:
        if not self.interactive:
            return None
        with self._quiet():
            return await asked(words)

    def _seen(self, node: str, what: str) -> None:
        """Report what was seen of a machine, as a part of the progress where there is one."""
        if self._follower is None:
            self.note(f"{node}: {what}")
            return
        self._follower.feed(Event(Kind.NOTE, "seen", node, what))

    @contextlib.contextmanager
    def _quiet(self) -> Generator[None]:
        """Take the live display away while something else is on the terminal."""
        if self._follower is not None:
            self._follower.pause()
        yield

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Use this around prints to the terminal while a use case runs."""
        return self._quiet()


def console(stream: Any) -> Console:
    """A console that takes texts as they are: no markup, no emoji, no guessed colours."""
    made = SafeConsole(file=stream, markup=False, emoji=False, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made = SafeConsole(
            file=stream, markup=False, emoji=False, highlight=False, width=WIDE, no_color=True
        )
    return made


def show_error(ui: Ui, error: CorralError) -> None:
    """An error for people on stderr, and as JSON on stdout with ``--json``."""
    ui.json({"error": error_dict(error)})
    ui.err.print(error_text(error), soft_wrap=True)


def error_dict(error: CorralError) -> dict[str, Any]:
    """The error's fields, and those of the findings or errors that it stands for."""
    fields: dict[str, Any] = dict(error.as_dict())
    for name in ("findings", "errors"):
        several: Iterable[Any] = getattr(error, name, ())
        if several:
            fields[name] = [_as_dict(part) for part in several]
    return fields


def _as_dict(part: Any) -> Mapping[str, Any]:
    return part.as_dict()


SHOWN_NODES = 5


def error_text(error: CorralError) -> Text:
    """An error for people: what, where, the command and its last lines, what to do."""
    text = Text()
    text.append("error: ", style="bold red")
    text.append(clean(str(error)))
    if error.command:
        text.append(f"\n  command: {clean(error.command)}", style="dim")
    if error.status is not None:
        text.append(f"\n  status:  {error.status}", style="dim")
    for line in error.tail.splitlines():
        text.append(f"\n  | {clean(line)}")
    several: tuple[CorralError, ...] = getattr(error, "errors", ())
    for failure in several[:SHOWN_NODES]:
        text.append(f"\n  {clean(str(failure))}")
    if len(several) > SHOWN_NODES:
        text.append(f"\n  ... and {len(several) - SHOWN_NODES} more nodes")
    if error.hint:
        text.append("\n  hint: ", style="bold")
        text.append(clean(error.hint))
    return text


async def asked(prompt: str) -> str:
    """Ask for a password without showing it; the loop goes on meanwhile.

    In a thread that is not waited for: one that reads a terminal cannot be ended, and Ctrl-C must
    end the command.

    Raises:
        CorralError: USAGE, the terminal was closed.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def settle(set_it: Callable[[Any], None], value: Any) -> None:
        if not answer.done():
            set_it(value)

    def read() -> None:
        try:
            set_it, value = answer.set_result, getpass.getpass(f"{prompt}: ", stream=sys.stderr)
        except (EOFError, OSError):
            value = CorralError(Code.USAGE, "no password was typed", hint="run it again")
            set_it = answer.set_exception
        except UnicodeDecodeError:
            words = "the password has characters of another encoding than the terminal's"
            value = CorralError(Code.USAGE, words, hint="check LANG and LC_ALL, and run it again")
            set_it = answer.set_exception
        except BaseException as error:  # raised where it is awaited, which waits for it alone
            set_it, value = answer.set_exception, error
        with contextlib.suppress(RuntimeError):  # the loop is closed: the command was interrupted
            loop.call_soon_threadsafe(settle, set_it, value)

    with _echo_kept():
        threading.Thread(target=read, name="password", daemon=True).start()
        return await answer


@contextlib.contextmanager
def _echo_kept() -> Generator[None]:
    """Leave the terminal as it was: an abandoned getpass would leave it without echo."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        before = termios.tcgetattr(terminal)
        try:
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    finally:
        os.close(terminal)
