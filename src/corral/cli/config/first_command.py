"""What ``corral`` alone prints: what is here, and the one command that comes next."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from corral import api
from corral.cli.terminal.ui import Ui
from corral.plurals import plural

WHAT: Final = "corral: one file in, one proven GPU Slurm cluster out."
SHOWN: Final = 5
"""Names of one kind; the others are counted."""


def show() -> None:
    """Print it."""
    Ui().show(*lines(api.situation(Path.cwd())))


def lines(here: api.Situation) -> tuple[str, ...]:
    """A few lines by the state of this machine and folder."""
    facts = _facts(here) or ("no cluster, no cluster file, no GPU with a loaded driver, no podman",)
    first, *more = facts
    return (
        WHAT,
        f"here: {first}",
        *(f"      {fact}" for fact in more),
        f"next: {_next(here)}",
        "      corral --help lists all commands",
    )


def _facts(here: api.Situation) -> tuple[str, ...]:
    facts = (
        (here.clusters, f"brought up from here: {_some(here.clusters)}"),
        (here.profiles, f"logged in to: {_some(here.profiles)}"),
        (here.files, f"cluster files of this folder: {_some(here.files)}"),
        (here.gpus, f"this machine: {plural(here.gpus, 'NVIDIA GPU')}"),
        (here.podman, "podman is installed: nodes can be containers"),
    )
    return tuple(text for there, text in facts if there)


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _next(here: api.Situation) -> str:
    if known := (*here.clusters, *here.profiles):
        return f"corral status -c {shlex.quote(known[0])}"
    if here.files:
        return f"corral up {shlex.quote(here.files[0])}     (it shows the plan and asks)"
    if here.gpus:
        return "corral init --here -o here.yaml     (Slurm on this machine; corral up asks first)"
    if here.podman:
        return "corral init laptop -o laptop.yaml     (a rehearsal in containers)"
    return (
        "corral init --from ADDRESS -o lab.yaml     (machines that ssh reaches), "
        "or corral login USER@HOST"
    )
