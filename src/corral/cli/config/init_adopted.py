"""``corral init --existing``: a cluster file from files that somebody else wrote."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api

EXISTING = Annotated[
    list[str] | None,
    typer.Option(
        "--existing",
        metavar="PATH",
        help="Make it from a slurm.conf that is there: a folder such as /etc/slurm, or files "
        "(/etc/hosts gives addresses). What cannot be carried over is in comments.",
        show_default=False,
    ),
]


def text_of(paths: list[str]) -> tuple[str, list[str]]:
    """The cluster file's text, and what is still wrong with it, one line each."""
    text, findings = api.adopt(paths)
    return text, [str(finding) for finding in findings]
