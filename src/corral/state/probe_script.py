"""All probes of a node in one script, and its answer taken apart again. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, join, sh
from corral.state.base import Resource, Seen

MARK: Final = "@@corral-probe"
"""Begins the line that ends each answer. Answers are words, digests or base64, never free text of
a file, so the mark cannot stand in one."""


def probe_script(resources: Sequence[Resource]) -> Script:
    """One read-only script that answers for all resources, in their order."""
    return join(
        sh(
            "{{ {probe}; }} 2>/dev/null </dev/null; printf '\\n{mark} %d\\n' $?",
            probe=r.probe(),
            mark=Script(MARK),
        )
        for r in resources
    )


def parse_probes(node: str, resources: Sequence[Resource], text: str) -> dict[str, Seen]:
    """The answers by resource id.

    Raises:
        CorralError: PARSE_FAILED, not as many answers as probes.
    """
    answers: list[Seen] = []
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(MARK):
            answers.append(Seen(int(line.rpartition(" ")[2]), "\n".join(lines).strip()))
            lines = []
        else:
            lines.append(line)
    if len(answers) != len(resources):
        raise CorralError(
            Code.PARSE_FAILED,
            f"{len(answers)} answers to {len(resources)} probes",
            node=node,
            tail=text[-2000:],
            hint="a login script of the machine may print or exit; run the command again",
        )
    return {r.id: seen for r, seen in zip(resources, answers, strict=True)}


def digest_of(observed: Mapping[str, Mapping[str, Seen]]) -> str:
    """Sha256 over everything seen on all nodes: the plan's memory of what it was made from."""
    h = hashlib.sha256()
    for node in sorted(observed):
        h.update(f"\n{node}\n".encode())
        for name, seen in observed[node].items():
            h.update(f"{name}\0{seen.status}\0{seen.text}\0".encode())
    return h.hexdigest()
