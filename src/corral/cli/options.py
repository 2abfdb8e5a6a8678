"""Options that several verbs share, each declared once, and the helper for examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JSON = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, and nothing else, on stdout.")
]
FILE = Annotated[str, typer.Argument(metavar="FILE", help="The cluster file.", show_default=False)]
TARGET = Annotated[
    str,
    typer.Argument(
        metavar="FILE|NAME",
        help="A cluster file, or the name of a cluster that was brought up from here. "
        "Left out: as -c says.",
        show_default=False,
    ),
]
CLUSTER = Annotated[
    str,
    typer.Option(
        "--cluster",
        "-c",
        metavar="NAME|FILE",
        envvar="CORRAL_CLUSTER",
        help="Which cluster. Left out: the only one that was brought up from here.",
        show_default=False,
    ),
]
RAW = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Print text of jobs and nodes as it is, with terminal escapes: a hostile job then "
        "commands the terminal that shows it.",
    ),
]
REHEARSE = Annotated[
    bool,
    typer.Option(
        "--rehearse",
        help="Take the file's cluster on containers of this machine instead of its own machines.",
    ),
]
NODES = Annotated[
    str,
    typer.Argument(
        metavar="NODES", help="Nodes as Slurm writes them: node[0-2].", show_default=False
    ),
]
NODES_OPTION = Annotated[
    str,
    typer.Option("--nodes", "-n", metavar="NODES", help="Left out: all.", show_default=False),
]
HTML = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        dir_okay=False,
        help="Write the report as one HTML page too: plots, evidence, no scripts, nothing loaded.",
        show_default=False,
    ),
]
YES = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def verb_app() -> typer.Typer:
    """The app of one verb's module; its help is plain text, as wide as the terminal."""
    return typer.Typer(add_completion=False, rich_markup_mode=None)


def examples(*lines: str) -> str:
    """An epilog of examples, each on its own line."""
    word = "Example" if len(lines) == 1 else "Examples"
    return "\n".join(["\b", f"{word}:", *(f"  {line}" for line in lines)])
