"""The script that a node gets for its share of a stage, and the reader of its progress lines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.framing import Reports
from corral.hosts.quote import Script, call, defined, join, sh
from corral.hosts.transport import Result
from corral.state.base import Change, Gate
from corral.state.ledger import FUNCTIONS, keeping, kept

LOCKED: Final = 75
FOREIGN: Final = 76
LOCK_WAIT: Final = 60
"""Seconds to wait for a script that an interrupted corral left running on the node. The script
ends when it writes its next progress line, because the pipe is closed."""


def stage_script(changes: Sequence[Change], cluster: str, reports: Reports) -> Script:
    """All changes in order under the node's lock; stops at the first that fails.

    Each change runs in its own subshell, without the lock's descriptor (a daemon it starts must not
    hold the lock) and without stdin unless it takes secrets from there. Before each, the machine's
    ledger keeps what is there (``state.ledger``); a machine of another cluster is refused.
    """
    head = sh(
        "{opened}\n{functions}\n{failed}\n"
        "corral_open {cluster} >&2 </dev/null 9>&- || exit {foreign}",
        opened=call("apply.sh", "stage_open", LOCK_WAIT, LOCKED),
        functions=FUNCTIONS,
        failed=defined("apply.sh", "change_failed"),
        cluster=cluster,
        foreign=FOREIGN,
    )
    body = [
        sh(
            "echo {mark} start {i}; {{ {keep}; }} >&2 </dev/null 9>&- && "
            "( {script}\n) {stdin} >&2 9>&- && {{ {kept}; }} >&2 </dev/null 9>&- || "
            "change_failed {mark} {i} $?\necho {mark} done {i}",
            mark=reports.mark,
            i=i,
            keep=keeping((change.resource, *change.keeps)),
            kept=kept((change.resource, *change.keeps)),
            script=change.script,
            stdin=Script("") if change.secrets else Script("</dev/null"),
        )
        for i, change in enumerate(changes)
    ]
    return join([head, *body])


def gate_script(gate: Gate) -> Script:
    """Repeat the gate's script on the node until it exits 0 or the time is over."""
    return call("apply.sh", "until_true", int(gate.timeout), str(gate.script))


class Progress:
    """Turns progress lines into events, and the end into success or an error."""

    def __init__(self, stage: str, node: str, changes: Sequence[Change], emit: Emit) -> None:
        self._stage = stage
        self._node = node
        self._changes = changes
        self._emit = emit
        self._begin = 0.0
        self._done = 0
        self._failed: Change | None = None
        self.reports: Final = Reports()

    def line(self, text: str) -> None:
        """Take one line of the script's stdout."""
        report = self.reports.read(text)
        if report is None:
            return
        what, index, *_ = report.split()
        change = self._changes[int(index)]
        if what == "start":
            self._begin = time.monotonic()
            self._emit(Event(Kind.CHANGE_STARTED, change.resource, self._node, change.summary))
        elif what == "done":
            self._done += 1
            seconds = round(time.monotonic() - self._begin, 3)
            self._emit(
                Event(Kind.CHANGE_DONE, change.resource, self._node, change.summary, seconds)
            )
        else:
            self._failed = change

    def require_all(self, result: Result) -> None:
        """Check that every change was done.

        Raises:
            CorralError: BUSY or COMMAND_FAILED, with the change that failed.
        """
        if result.ok and self._done == len(self._changes):
            return
        if result.status == LOCKED and self._done == 0 and self._failed is None:
            raise CorralError(
                Code.BUSY,
                "another corral works on this node",
                node=self._node,
                hint="wait until it has ended, then run the same command again",
            )
        if result.status == FOREIGN and self._done == 0 and self._failed is None:
            raise CorralError(
                Code.NOT_GOOD,
                "the machine's ledger cannot be opened",
                node=self._node,
                status=result.status,
                tail=result.tail,
                hint="a machine belongs to one cluster; release it with: corral down CLUSTER",
            )
        failed = self._failed
        raise CorralError(
            Code.COMMAND_FAILED,
            f"{failed.summary} failed" if failed else "the stage's script ended early",
            node=self._node,
            command=failed.resource if failed else self._stage,
            status=result.status,
            tail=result.tail,
            hint="what was done stays done; fix the cause and run the same command again",
        )
