"""The probes of a node as questions of one script, and what their answers mean. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from corral.errors import Code, CorralError
from corral.hosts.framing import Section
from corral.hosts.quote import Script, sh
from corral.state.base import Resource, Seen


def probes(resources: Sequence[Resource]) -> dict[str, Script]:
    """The read-only questions about all resources, by their ids."""
    return {r.id: sh("{{ {probe}; }} 2>/dev/null </dev/null", probe=r.probe()) for r in resources}


def parse_probes(
    node: str, resources: Sequence[Resource], answers: Mapping[str, Section]
) -> dict[str, Seen]:
    """What was seen of each resource, by its id.

    Raises:
        CorralError: PARSE_FAILED, a probe was not answered.
    """
    seen: dict[str, Seen] = {}
    for resource in resources:
        section = answers.get(resource.id)
        if section is None or section.status is None:
            raise CorralError(
                Code.PARSE_FAILED,
                f"incomplete response: {len(seen)} of {len(resources)} probes were answered, "
                f"not {resource.id}",
                node=node,
                hint="the script was ended on the machine (memory, a signal); run the command "
                "again",
            )
        seen[resource.id] = Seen(section.status, section.text.strip())
    return seen


def digest_of(observed: Mapping[str, Mapping[str, Seen]]) -> str:
    """Sha256 over everything seen on all nodes: the plan's memory of what it was made from."""
    h = hashlib.sha256()
    for node in sorted(observed):
        h.update(f"\n{node}\n".encode())
        for name, seen in observed[node].items():
            h.update(f"{name}\0{seen.status}\0{seen.text}\0".encode())
    return h.hexdigest()
