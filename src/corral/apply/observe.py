"""Reads all machines: facts in one round trip, all probes in a second one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from corral.errors import Code, CorralError, NodesFailedError
from corral.hosts.facts import FACTS, Facts, parse_facts
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script
from corral.hosts.transport import Result, check
from corral.plan.make import resources_of
from corral.spec.nodes import fold
from corral.state.base import Resource, Seen, StageWanted
from corral.state.probing import parse_probes, probe_script

FACTS_KEY = "facts"
"""Under this name a node's facts stand beside its probes' answers, so that the plan's digest covers
them: other facts, other plan."""


async def read_facts(fleet: Fleet) -> dict[str, Facts]:
    """Facts of all machines of the fleet.

    Raises:
        NodesFailedError: some could not be read; all of them are named.
    """
    answers = good(await fleet.all(FACTS, timeout=60), "reading facts")
    return {node: parse_facts(node, result.stdout) for node, result in answers.items()}


async def observe(
    fleet: Fleet, stages: Sequence[StageWanted], facts: Mapping[str, Facts]
) -> dict[str, dict[str, Seen]]:
    """Run all probes of all machines of the fleet, one round trip each.

    Raises:
        NodesFailedError: some could not be read; all of them are named.
    """
    wanted = resources_of(stages)
    scripts: dict[int, Script] = {}
    by_node: dict[str, Script] = {}
    for node in fleet.nodes:
        resources = wanted.get(node, ())
        by_node[node] = scripts.setdefault(id(resources), probe_script(resources))
    answers = good(await fleet.each(by_node, timeout=120), "reading state")
    return {
        node: _seen(node, wanted.get(node, ()), result.stdout, facts[node])
        for node, result in answers.items()
    }


def _seen(node: str, resources: tuple[Resource, ...], text: str, facts: Facts) -> dict[str, Seen]:
    found = parse_probes(node, resources, text)
    found[FACTS_KEY] = Seen(0, json.dumps(facts.as_dict(), sort_keys=True))
    return found


def good(answers: Mapping[str, Result | CorralError], what: str) -> dict[str, Result]:
    """The results when every node's script ended with status 0.

    Raises:
        CorralError: the only failure there was.
        NodesFailedError: several failures, all of them kept.
    """
    failed: list[CorralError] = []
    results: dict[str, Result] = {}
    for node, answer in answers.items():
        try:
            if isinstance(answer, CorralError):
                raise answer
            results[node] = check(answer, what)
        except CorralError as error:
            failed.append(error)
    raise_all(failed, what)
    return results


def raise_all(failed: Sequence[CorralError], what: str) -> None:
    """Raise the one failure, or all of them as one error; nothing when there is none."""
    if len(failed) == 1:
        raise failed[0]
    if failed:
        nodes = fold([e.node for e in failed if e.node])
        first = failed[0]
        raise NodesFailedError(
            first.code if len({e.code for e in failed}) == 1 else Code.COMMAND_FAILED,
            f"{what} failed on {len(failed)} nodes ({nodes})",
            command=first.command,
            status=first.status,
            tail=f"{first.node}: {first.tail or first.message}",
            hint=first.hint,
            errors=tuple(failed),
        )
