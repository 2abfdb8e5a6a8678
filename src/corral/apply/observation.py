"""Reads all machines: facts, guessed from the last time, and all probes in one round trip.

What a machine is to hold depends on what it is, so its probes can be written only when its facts
are known: two round trips. Machines seldom change what they are, so the second one is saved by
writing the probes from the facts of last time and sending both questions together. The facts that
return decide: when they differ from the guess, the answers to its probes are discarded. The file
can be removed or damaged at any time; that costs one round trip.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from corral.errors import Code, CorralError, NodesFailedError
from corral.hosts.fleet import Fleet
from corral.hosts.framing import Inquiry, Section
from corral.hosts.quote import Script, join
from corral.hosts.transport import Result, check
from corral.inspect.facts import Facts, facts_inquiry, facts_of
from corral.plan.make import resources_of
from corral.spec.slurm.hostlist import fold
from corral.state.base import DesiredStage, Resource, Seen, parse_probes, probes, readings

FACTS_KEY = "facts"
"""A node's facts are under this name next to its probes' answers, so that the plan's digest covers
them: other facts, other plan."""

Answers = Mapping[str, Section]
"""What was answered to the probes of one machine."""

StagesOf = Callable[[Mapping[str, Facts]], tuple[DesiredStage, ...]]


@dataclass(frozen=True, slots=True)
class Observation:
    """What one observation of the machines gave.

    Attributes:
        facts: what each machine of the fleet is.
        stages: what the machines are to hold, made from these facts.
        seen: what they hold, by node and resource id, and the facts under ``FACTS_KEY``.
    """

    facts: Mapping[str, Facts]
    stages: tuple[DesiredStage, ...]
    seen: Mapping[str, Mapping[str, Seen]]


async def see(fleet: Fleet, stages_of: StagesOf, guess: Mapping[str, Facts]) -> Observation:
    """Read facts and probes: one round trip when ``guess`` holds the facts, else two.

    Args:
        fleet: the machines.
        stages_of: what machines with such facts are to hold.
        guess: facts the machines probably have; never trusted, only tried.

    Raises:
        CorralError: what ``stages_of`` raises for the machines' real facts.
        NodesFailedError: some could not be read; all of them are named.
    """
    near = {node: guess[node] for node in fleet.nodes if node in guess}
    tried = _tried(fleet, stages_of, near)
    if tried is None:
        facts = await read_facts(fleet)
    else:
        facts, answers = await _both(fleet, tried)
        if facts == near:
            return Observation(facts, tried, _all_seen(resources_of(tried), answers, facts))
    stages = stages_of(facts)
    return Observation(facts, stages, await read_probes(fleet, stages, facts))


def _tried(
    fleet: Fleet, stages_of: StagesOf, guess: Mapping[str, Facts]
) -> tuple[DesiredStage, ...] | None:
    if not fleet.nodes or len(guess) < len(fleet.nodes):
        return None
    try:
        return stages_of(guess)
    except CorralError:
        return None


async def _both(
    fleet: Fleet, stages: Sequence[DesiredStage]
) -> tuple[dict[str, Facts], dict[str, Answers]]:
    """Facts, and the answers to the probes, of all machines."""
    first, then = facts_inquiry(), _probes(fleet, stages)
    # Machines with the same desired state share a script: there may be thousands.
    both = {id(each): join([first.script, each.script]) for each in then.values()}
    scripts = {node: both[id(each)] for node, each in then.items()}
    results = good(await fleet.each(scripts, timeout=120), "reading facts and state")
    facts = {n: facts_of(n, first, result.stdout) for n, result in results.items()}
    return facts, {n: then[n].read(result.stdout) for n, result in results.items()}


async def read_facts(fleet: Fleet) -> dict[str, Facts]:
    """Facts of all machines of the fleet.

    Raises:
        NodesFailedError: some could not be read; all of them are named.
    """
    asked = facts_inquiry()
    answers = good(await fleet.all(asked.script, timeout=60), "reading facts")
    return {node: facts_of(node, asked, result.stdout) for node, result in answers.items()}


async def read_probes(
    fleet: Fleet, stages: Sequence[DesiredStage], facts: Mapping[str, Facts]
) -> dict[str, dict[str, Seen]]:
    """Run all probes of all machines of the fleet, one round trip each.

    Raises:
        NodesFailedError: some could not be read; all of them are named.
    """
    asked = _probes(fleet, stages)
    scripts = {node: each.script for node, each in asked.items()}
    results = good(await fleet.each(scripts, timeout=120), "reading state")
    answers = {n: asked[n].read(result.stdout) for n, result in results.items()}
    return _all_seen(resources_of(stages), answers, facts)


def inquiry_of(resources: tuple[Resource, ...], made: dict[int, Script]) -> Inquiry:
    """The questions about all these resources; ``made`` as of ``probes``."""
    return Inquiry(probes(resources, made), before=readings(resources))


def _probes(fleet: Fleet, stages: Sequence[DesiredStage]) -> dict[str, Inquiry]:
    """Each machine's questions; machines with the same desired state share them."""
    desired = resources_of(stages)
    inquiries: dict[tuple[int, ...], Inquiry] = {}
    made: dict[int, Script] = {}
    by_node: dict[str, Inquiry] = {}
    for node in fleet.nodes:
        resources = desired.get(node, ())
        key = tuple(map(id, resources))
        if key not in inquiries:
            inquiries[key] = inquiry_of(resources, made)
        by_node[node] = inquiries[key]
    return by_node


def _all_seen(
    desired: Mapping[str, tuple[Resource, ...]],
    answers: Mapping[str, Answers],
    facts: Mapping[str, Facts],
) -> dict[str, dict[str, Seen]]:
    return {n: _seen(n, desired.get(n, ()), each, facts[n]) for n, each in answers.items()}


def _seen(
    node: str, resources: tuple[Resource, ...], answers: Answers, facts: Facts
) -> dict[str, Seen]:
    seen = parse_probes(node, resources, answers)
    seen[FACTS_KEY] = Seen(0, json.dumps(facts.as_dict(), sort_keys=True))
    return seen


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


NAME: Final = "facts.json"


def guessed(folder: Path) -> dict[str, Facts]:
    """Facts by node as they were last read; empty when there are none that this version reads."""
    try:
        data: Any = json.loads((folder / NAME).read_text())
        if not isinstance(data, dict):
            return {}
        fields = cast("dict[str, Mapping[str, object]]", data)
        return {node: Facts.from_dict(facts) for node, facts in fields.items()}
    except (OSError, ValueError, CorralError):
        return {}


def remember(folder: Path, facts: Mapping[str, Facts]) -> None:
    """Keep facts for the next observation.

    Nothing is made where the cluster has no folder, and a full or read-only disk is not a failure:
    the next check only takes one round trip more.
    """
    if not folder.is_dir():
        return
    text = json.dumps(
        {node: node_facts.as_dict() for node, node_facts in facts.items()}, sort_keys=True
    )
    new = folder / f".{NAME}.{secrets.token_hex(4)}"
    try:
        new.write_text(text)
        new.replace(folder / NAME)
    except OSError:
        new.unlink(missing_ok=True)
