"""The reference page of the command line: ``python -m corral.cli.reference > PAGE``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from typer.main import get_command

from corral.cli.main import VERBS, app, load_verb
from corral.errors import CODES
from corral.spec.providers import PROVIDERS, RENTALS
from corral.variables import IN_JOBS, VARIABLES, guard_key, other_address

WIDTH: Final = 90
_HEAD: Final = """\
# The command line

<!-- Generated: python -m corral.cli.reference > docs/reference/cli.md -->
<!-- each block: what `--help` prints, compared by `tests/unit/cli/test_reference.py` -->

Results go to stdout; progress, questions and errors go to stderr. With `--json` stdout holds one
JSON value and nothing else (verbs that follow something print one JSON value per line), and an
error is `{"error": {"code": ..., "message": ..., "node": ..., "command": ..., "status": ...,
"tail": ..., "hint": ...}}`. On a terminal progress is a live picture, elsewhere plain lines.

| exit status | meaning |
|---|---|
| 0 | good |
| 1 | what was asked about is not good: a plan refused, a check or a job failed |
| 2 | usage, or a bad file |
| 3 | a machine or a command failed |
| 130 | interrupted; the same command continues from there |
"""


def page() -> str:
    """The page as Markdown."""
    root = get_command(app).make_context("corral", ["lint"], resilient_parsing=True)
    root.terminal_width = WIDTH
    parts = [_HEAD, *_environment(), ""]
    parts += ["## Error codes", "", "| code | exit status | meaning |", "|---|---|---|"]
    parts += [f"| `{code}` | {info.exit} | {info.meaning} |" for code, info in CODES.items()]
    for name in VERBS:
        parts += ["", *_verb(load_verb(name), name, root)]
    return "\n".join(parts) + "\n"


def variables() -> dict[str, str]:
    """Environment variables that Corral reads, those of providers too, and what each means."""
    known = dict(VARIABLES)
    for name, cloud in RENTALS.items():
        known[cloud.variable] = f"API key of {cloud.title}"
        known[guard_key(name)] = f"a separate key of {cloud.title} for the guard on the controller"
        known[other_address(name)] = f"another address of {cloud.title}'s API: a simulated one"
    for provider in PROVIDERS.values():
        known |= provider.variables
    return known


def _environment() -> Iterator[str]:
    yield from ("## Environment", "", "| variable | meaning |", "|---|---|")
    yield from (f"| `{name}` | {meaning} |" for name, meaning in variables().items())
    yield ""
    yield "A password or key is never an argument. Of jobs, next to those of Slurm and PyTorch:"
    yield from ("", "| variable in a job | meaning |", "|---|---|")
    yield from (f"| `{name}` | {meaning} |" for name, meaning in IN_JOBS.items())


def _verb(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    context.terminal_width = WIDTH
    yield f"## {context.command_path}"
    yield ""
    yield "```text"
    yield command.get_help(context).rstrip()
    yield "```"
    groups = getattr(command, "commands", {}) | getattr(command, "below", {})
    for below in groups.values():
        yield ""
        yield from (line.replace("## ", "### ", 1) for line in _verb(below, below.name, context))


if __name__ == "__main__":
    sys.stdout.write(page())
