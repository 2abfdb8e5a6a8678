"""Options that several verbs share, each declared once, and the helper for examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperOption

from corral import variables
from corral.errors import Code, CorralError

JSON = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, and nothing else, on stdout.")
]
TARGET = Annotated[
    str,
    typer.Argument(
        metavar="FILE|NAME",
        help="A cluster file, or the name of a cluster that was brought up from here or of a "
        "profile (corral login). Default: the value of -c, else cluster.yaml of this folder, else "
        "the only one of those.",
        show_default=False,
    ),
]
TARGETS = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE|NAME",
        help="Cluster files or names, as other commands take them. Default: the value of -c, else "
        "cluster.yaml of this folder, else the only known cluster.",
        show_default=False,
    ),
]
CLUSTER = Annotated[
    str,
    typer.Option(
        "--cluster",
        "-c",
        metavar="NAME|FILE",
        envvar=variables.CLUSTER,
        help="Cluster: its file, its name if it was created from this machine, or a profile of "
        "corral login. Default: cluster.yaml in this folder, else the only known cluster.",
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
    typer.Option(
        "--nodes",
        "-n",
        metavar="NODES",
        help="Nodes to work on: node[0-2]. Default: all.",
        show_default=False,
    ),
]
HTML = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        dir_okay=False,
        help="Also write the report as an HTML page: plots and evidence in one file, which loads "
        "nothing from elsewhere.",
        show_default=False,
    ),
]
SIMULATED = Annotated[
    str,
    typer.Option(
        "--cluster",
        "-c",
        metavar="NAME",
        help="Ask the simulated clouds of this rehearsed cluster.",
        show_default=False,
    ),
]
USER = Annotated[
    str,
    typer.Option(
        "--user",
        metavar="NAME",
        help="User of the cluster. Default: the first one of the file.",
        show_default=False,
    ),
]
COUNT = Annotated[int, typer.Option("--nodes", "-N", min=0, help="Number of nodes; 0: all.")]
PARTITION = Annotated[
    str,
    typer.Option(
        "--partition",
        "-p",
        help="Partition. Default: the cluster's default one.",
        show_default=False,
    ),
]
LIMIT = Annotated[str, typer.Option("--time", help="Time limit of the job.")]
IMAGE_HELP: Final = (
    "Run the ranks in this image, by Pyxis: a .sqsh file on shared storage, or "
    "[REGISTRY/]NAME[:TAG]."
)
JOB_HELP: Final = "Number of the job; 12_3: part 3 of array 12."
INLINE: Final = "corral.command"
NODE_OF_JOB = Annotated[
    str,
    typer.Option(
        "--node",
        "-n",
        metavar="NODE",
        help="Node of the job. Default: its first node.",
        show_default=False,
    ),
]
BROWSER = Annotated[
    bool, typer.Option("--browser", "-b", help="Open it in this machine's browser.")
]
JOB_PART_HELP: Final = "A running job: 12, or 12_3 for part 3 of an array."
YES = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
KEEP_GOING = Annotated[
    bool,
    typer.Option(
        "--keep-going",
        help="Go on without nodes that do not answer or where a change fails, when no others "
        "depend on them and they are at most half of the nodes. They are named at the end (up: "
        "exit status 1). Without it one such node ends it.",
    ),
]


class OptionsAroundFirst(TyperCommand):
    """A command whose first argument may have options before and after it; then its words begin.

    ``corral ssh NODE -c LAB ls -l``: ``-c LAB`` is for corral, ``ls -l`` for the node. A ``--``
    ends the options, for words that begin with ``-``.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the options after the first argument before it."""
        before, rest = self._options(args)
        if rest[:1] == ["--"]:
            rest = rest[1:]
        first, rest = rest[:1], rest[1:]
        after, rest = self._options(rest)
        if rest[:1] == ["--"]:
            rest = rest[1:]
        return super().parse_args(ctx, [*before, *after, *first, *rest])

    def _options(self, args: list[str]) -> tuple[list[str], list[str]]:
        """The options at the beginning, with their values, and the rest."""
        valued = {
            name
            for option in self.params
            if isinstance(option, TyperOption) and not option.is_flag and not option.count
            for name in option.opts
        }
        end = 0
        while end < len(args) and args[end].startswith("-") and args[end] not in ("-", "--"):
            end += 2 if args[end] in valued else 1
        return args[:end], args[end:]


class CommandAfterDashes(TyperCommand):
    """A command whose first argument may be left out; words after ``--`` are then a command.

    ``corral run train.py -- --epochs 5`` has a script with arguments; ``corral run -N3 --
    hostname`` a command, which is then in ``ctx.meta[INLINE]``.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the command off, where no argument is in front of the dashes."""
        if "--" in args:
            at = args.index("--")
            try:
                given = self.make_parser(ctx).parse_args(args=args[:at])[0]
            except typer.TyperException:  # the dashes are an option's value, or it is wrong anyway
                return super().parse_args(ctx, args)
            if not given.get("script"):
                ctx.meta[INLINE] = tuple(args[at + 1 :])
                args = args[:at]
        return super().parse_args(ctx, args)


def verb_app() -> typer.Typer:
    """The app of one verb's module; its help is plain text, as wide as the terminal."""
    return typer.Typer(add_completion=False, rich_markup_mode=None)


def examples(*lines: str) -> str:
    """An epilog of examples, each on its own line."""
    word = "Example" if len(lines) == 1 else "Examples"
    return "\n".join(["\b", f"{word}:", *(f"  {line}" for line in lines)])


_UNITS: Final = {"K": 10**3, "M": 10**6, "B": 10**9}


def parameter_count(text: str) -> int:
    """124M as a number; 0 for none.

    Raises:
        CorralError: USAGE, it is not a number of parameters.
    """
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].isalpha() else (text, "")
    if not text:
        return 0
    try:
        count = round(float(number) * _UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        count = 0
    if (unit and unit not in _UNITS) or not 1000 <= count <= 10**12:  # noqa: PLR2004
        raise CorralError(
            Code.USAGE, f"{text!r} is not a number of parameters", hint="such as 124M or 1.5B"
        )
    return count
