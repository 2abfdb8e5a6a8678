"""Runs a resource's real shell on this machine, in a scratch folder, without root."""

from __future__ import annotations

import subprocess

from corral.hosts.framing import Inquiry
from corral.state.base import (
    Change,
    Context,
    Resource,
    Seen,
    parse_probes,
    probes,
)


def probe(*resources: Resource) -> dict[str, Seen]:
    asked = Inquiry(probes(resources))
    answer = subprocess.run(
        ["/bin/sh", "-c", asked.script], capture_output=True, text=True, check=True
    )
    return parse_probes("here", resources, asked.read(answer.stdout))


def run(change: Change, stdin: bytes = b"") -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", change.script], check=False, input=stdin, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()


def diff(resource: Resource, context: Context | None = None) -> Change | None:
    return resource.diff(probe(resource)[resource.id], context or Context("here"))
