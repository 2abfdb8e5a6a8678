"""The entry point: wires the verbs, turns every ending into one exit status.

A verb's module is imported when that verb is asked for, and not before: the table below holds what
``corral --help`` shows of it, and the group puts the real command in the place of the listed one
when it resolves it. So ``corral --help`` loads no use case, and ``corral plan`` no other verb.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from corral.cli.options import examples
from corral.errors import Exit
from corral.variables import DEBUG

HELP: Final = """\
One file in, one proven GPU Slurm cluster out.

A cluster file declares what you want. `corral plan` shows what would change, `corral up` does it
and proves that it works, `corral run` runs a job on it, `corral down` removes all of it.

Exit status: 0 good; 1 what was asked about is not good (a plan refused, a check or a job failed);
2 usage or a bad file; 3 a machine or a command failed; 130 interrupted.
"""
EPILOG: Final = examples(
    "corral init -o laptop.yaml", "corral up laptop.yaml", "corral run train.py --nodes 3"
)


COMPLETION: Final = "_CORRAL_COMPLETE"
"""Set by shells that ask what could follow: no command line is run then."""
GARBAGE: Final = 50_000
"""New objects after which unreachable ones are looked for; Python's own number is 700."""


@dataclass(frozen=True, slots=True)
class Verb:
    """What ``corral --help`` shows of a verb; its module is ``corral.cli.<module>``."""

    module: str
    panel: str
    summary: str


_CLUSTER: Final = "The cluster"
_JOBS: Final = "Jobs"
_NODES: Final = "Nodes"
VERBS: Final = MappingProxyType(
    {
        "init": Verb("config.init", _CLUSTER, "Write a commented cluster file to start from."),
        "lint": Verb("config.lint", _CLUSTER, "List everything that is wrong with cluster files."),
        "edit": Verb(
            "config.edit", _CLUSTER, "Change a user, account, QOS, reservation or licence."
        ),
        "migrate": Verb(
            "config.migrate", _CLUSTER, "Write a cluster file in the newest form of its format."
        ),
        "plan": Verb("lifecycle.plan", _CLUSTER, "Show what `up` would change; changes nothing."),
        "up": Verb(
            "lifecycle.up", _CLUSTER, "Make the cluster what the file declares, and prove it."
        ),
        "bundle": Verb(
            "lifecycle.bundle", _CLUSTER, "Pack what a cluster without internet needs in a file."
        ),
        "apply": Verb("lifecycle.apply", _CLUSTER, "Do exactly what a plan contains, and no more."),
        "prove": Verb("evidence.prove", _CLUSTER, "Check with evidence that the cluster works."),
        "bench": Verb("evidence.bench", _CLUSTER, "Measure how fast it is, or read measurements."),
        "down": Verb("lifecycle.down", _CLUSTER, "Remove all that Corral made for a cluster."),
        "login": Verb("config.login", _CLUSTER, "Log in to a cluster as one of its users."),
        "logout": Verb("config.logout", _CLUSTER, "Remove a profile of `corral login`."),
        "offers": Verb("rental.offers", _CLUSTER, "Show what clouds have on sale, and its price."),
        "advise": Verb(
            "rental.advise", _CLUSTER, "Find the cheapest cluster on sale for a training run."
        ),
        "cloud": Verb(
            "rental.cloud", _CLUSTER, "Show and extend what belongs to an entire cloud account."
        ),
        "cost": Verb("rental.cost", _CLUSTER, "Show what rented machines cost, by job and user."),
        "elastic": Verb(
            "rental.elastic", _CLUSTER, "Rent nodes for pending jobs, end them when idle."
        ),
        "reap": Verb(
            "rental.reap", _CLUSTER, "End rented machines, and prove that nothing is left."
        ),
        "run": Verb(
            "workload.run", _JOBS, "Run a script or a command as a job and follow it to its end."
        ),
        "shell": Verb("workload.shell", _JOBS, "Open a terminal on a node, with GPUs."),
        "attach": Verb("workload.attach", _JOBS, "Open a shell inside a running job."),
        "forward": Verb("workload.forward", _JOBS, "Reach a port of a running job's node."),
        "notebook": Verb("workload.notebook", _JOBS, "Run JupyterLab as a job."),
        "jobs": Verb("workload.jobs", _JOBS, "List jobs."),
        "logs": Verb("workload.logs", _JOBS, "Show what a job printed."),
        "profile": Verb("workload.profile", _JOBS, "Show where the time of a profiled job went."),
        "data": Verb(
            "workload.data", _JOBS, "Make data sets, and see whether storage feeds the GPUs."
        ),
        "env": Verb(
            "workload.env", _JOBS, "Print the environment of a group's jobs, for plain sbatch."
        ),
        "cancel": Verb("workload.cancel", _JOBS, "Cancel jobs."),
        "status": Verb(
            "operations.status", _NODES, "Show nodes, services and the queue, and what is wrong."
        ),
        "doctor": Verb("operations.doctor", _NODES, "List what is broken, why, and what to do."),
        "ui": Verb("page.ui_page", _NODES, "Show and run a cluster, or several, in a browser."),
        "exec": Verb("operations.exec_", _NODES, "Run a command as root on nodes, all at once."),
        "ssh": Verb("operations.ssh", _NODES, "Log in to a node."),
        "drain": Verb("operations.drain", _NODES, "Let nodes take no new jobs."),
        "resume": Verb("operations.resume", _NODES, "Let drained nodes take jobs again."),
        "report": Verb(
            "operations.report", _NODES, "Report a month: use, goodput, queue times, costs."
        ),
        "nodes": Verb("operations.nodes", _NODES, "Show nodes' history, replace and update them."),
        "keys": Verb(
            "operations.keys", _NODES, "Set up, forget and replace the keys of a cluster."
        ),
        "backup": Verb(
            "operations.backup",
            _NODES,
            "Save accounting, Slurm's state, keys and MLflow's runs in one encrypted file.",
        ),
        "restore": Verb(
            "operations.restore", _NODES, "Put an archive of `corral backup` in place."
        ),
        "export": Verb("config.export", _CLUSTER, "Write a cluster for other people's tools."),
        "mesh": Verb("mesh.mesh", _NODES, "Show a cluster's tailnet, its links and its policy."),
        "image": Verb("lifecycle.image", _NODES, "List, build and remove node images."),
        "version": Verb("config.version", _CLUSTER, "Print the version, and where it comes from."),
    }
)


class Verbs(TyperGroup):
    """The group of all verbs: loads the one that is asked for, and owns every ending."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Put the real command in the place of the listed one, then resolve as ever."""
        if args and args[0] in VERBS:
            self.commands[args[0]] = load_verb(args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the verbs by what they are about."""
        for panel in dict.fromkeys(verb.panel for verb in VERBS.values()):
            rows = [(name, verb.summary) for name, verb in VERBS.items() if verb.panel == panel]
            with formatter.section(panel):
                formatter.write_dl(rows)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line and exit with its status; never shows a traceback unasked."""
        words = list(sys.argv[1:] if args is None else args)
        nothing_asked = not words  # a usage error all the same
        with contextlib.suppress(AttributeError, ValueError):
            for stream in (sys.stdout, sys.stderr):
                stream.reconfigure(errors="backslashreplace")  # pyright: ignore
        try:
            if nothing_asked and COMPLETION not in os.environ:
                import_module("corral.cli.config.first_command").show()
                status = Exit.USAGE
            else:
                status = super().main(
                    args=words or ["--help"],
                    prog_name=prog_name or "corral",
                    complete_var=complete_var,
                    standalone_mode=False,
                    **extra,
                )
        except Exception as error:  # the last place where one can be shown
            status = import_module("corral.cli.terminal.exit_status").ended(error, words)
        status = int(status or (Exit.USAGE if nothing_asked else Exit.GOOD))
        if not standalone_mode:
            return status
        sys.exit(status)


def load_verb(name: str) -> Any:
    """The real command of a verb."""
    command = get_command(import_module(f"corral.cli.{VERBS[name].module}").app)
    command.name = name
    return command


app = typer.Typer(
    cls=Verbs,
    name="corral",
    help=HELP,
    epilog=EPILOG,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(requested: bool) -> None:
    if requested:
        # Reading installed packages' metadata costs 20 ms of imports, which no other run needs.
        typer.echo(f"corral {import_module('corral.extras').own_version()}")
        raise typer.Exit(Exit.GOOD)


@app.callback()
def options(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options that precede the verb."""
    del show_version


def _listed() -> None:
    """Stand for a verb in lists; the group resolves the real one."""


for _name, _verb in VERBS.items():
    app.command(_name, help=_verb.summary)(_listed)


def main() -> None:
    """Run the command line of this process."""
    # What imports make stays: looking through it for garbage took 7 % of the planner's start.
    gc.set_threshold(GARBAGE)
    if DEBUG in os.environ:
        import_module("corral.runtime.stack_dump").on_signal()
    try:
        app()
    finally:
        # The interpreter's end looks through all that is there, to free it: 15 % of `corral lint`.
        # What is frozen it leaves alone; files are flushed, and what is registered for it is run.
        gc.freeze()
