"""What ends a run that was ended from outside: reported once, as one exit status."""

from __future__ import annotations

import errno
import os
import shlex
import traceback
from collections.abc import Sequence
from typing import Final

import typer

from corral.cli.terminal import usage
from corral.cli.terminal.correction import command_of
from corral.cli.terminal.ui import InterruptedByUserError, Ui, show_error
from corral.errors import Code, CorralError, Exit
from corral.state_dir import VARIABLE
from corral.variables import DEBUG

INTERRUPTED: Final = 130
"""What shells return for a program that Ctrl-C ended."""


_FULL: Final = {errno.ENOSPC: "no space is left", errno.EDQUOT: "the quota is used up"}


def ended(error: Exception, words: Sequence[str]) -> int:
    """Report what ended the run of this command line, and return the exit status for it."""
    own = words[: words.index("--")] if "--" in words else words
    ui = Ui(as_json="--json" in own)
    if isinstance(error, InterruptedByUserError):
        _interrupted(ui, error, shlex.join(["corral", *words]))
        return INTERRUPTED
    shown = error if isinstance(error, CorralError) else _as_corral_error(error, words)
    if shown.exit is Exit.USAGE and not shown.command and shown.code is not Code.SPEC_INVALID:
        # Which of a script's commands it is; not its words, which may have a secret.
        path, _ = command_of(own)
        shown.command = " ".join(path) if path[1:] else ""
        if shown is error:
            shown.hint = "; ".join(filter(None, (usage.other_meaning(own), shown.hint)))
    show_error(ui, shown)
    return int(shown.exit)


def _interrupted(ui: Ui, error: InterruptedByUserError, same: str) -> None:
    again = error.again or same
    ended = {"code": "interrupted", "message": str(error), "hint": again}
    ui.json({**error.result, "error": ended})
    ui.note("")
    ui.note(f"interrupted: {error}")
    ui.note(f"{'next' if error.again else 'the same command continues from there'}: {again}")


def _as_corral_error(error: Exception, words: Sequence[str]) -> CorralError:
    if isinstance(error, typer.Abort):
        return CorralError(Code.USAGE, "aborted by the user")
    if isinstance(error, typer.TyperException):
        return usage.explained(error, words)
    if os.environ.get(DEBUG, "") not in ("", "0"):
        traceback.print_exception(error)
    if isinstance(error, OSError) and error.errno in _FULL:
        file = f" for {error.filename}" if error.filename else ""
        return CorralError(
            Code.COMMAND_FAILED,
            f"{_FULL[error.errno]} on this machine{file}",
            hint="remove what you no longer need (df -h, df -i and quota show what is left), or "
            f"name another folder in ${VARIABLE}; then run the same command again",
        )
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({where[0].filename.rpartition('/')[2]}:{where[0].lineno})" if where else ""
    return CorralError(
        Code.COMMAND_FAILED,
        f"unexpected {type(error).__name__}: {str(error) or 'no message'}{place}",
        hint=f"a bug in Corral: {DEBUG}=1 shows where it comes from",
    )
