"""What a machine can hold: the Resource protocol, and its probes as one script. Pure.

A resource's ``probe`` is read-only shell; all probes of a node travel in one round trip
(``state.base``). Its ``diff`` is pure: what was seen, and the context of the node's plan,
give one Change or None.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, LiteralString, Protocol

from corral.errors import Code, CorralError
from corral.hosts.framing import Section
from corral.hosts.quote import Script, call, join, sh
from corral.spec.impacts import Impact

NOTHING: Final = Script("")

HERE: Final = ""
"""As the node of a ``SecretRef``: a file of this machine, such as a package."""

ROLL_TAG: Final = "corral: "
"""Begins the drain reason of a node that a rolling stage drained; only such a node is resumed."""
UPDATE_TAG: Final = "corral nodes update: "
"""Of nodes whose system is updated: ``corral up`` resumes none, since none is proven yet."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One probe's answer: the exit status of the probe and what it printed, stripped."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class SecretRef:
    """A secret that lives on ``node`` at ``path``; only apply reads it, and only to stdin."""

    name: str
    node: str
    path: str


@dataclass(frozen=True, slots=True)
class Change:
    r"""One thing apply does on one machine.

    Attributes:
        resource: the resource's id, such as ``file:/etc/slurm/slurm.conf``.
        summary: one line for people: what is done and why.
        before: what was seen ("" for nothing there), never a secret.
        after: what will be there, never a secret.
        script: shell that makes it so; safe to run again after a crash at any point.
        impact: what it does to the node's work.
        secrets: sent on the script's stdin in this order, each as ``<length>\n<bytes>``.
        keeps: what else the script touches, as resource ids (``file:/etc/fstab``): the ledger
            keeps what was there, as it does for ``resource`` (``state.ledger``).
        refuses: why Corral will not do it, and what a person can do; a plan that holds such a
            change is not applied at all.
    """

    resource: str
    summary: str
    before: str
    after: str
    script: Script
    impact: Impact = Impact.NONE
    secrets: tuple[SecretRef, ...] = ()
    keeps: tuple[str, ...] = ()
    refuses: str = ""


@dataclass(slots=True)
class Context:
    """What a diff may know beyond its own probe.

    Attributes:
        node: the node being planned.
        changed: changes already planned on this node, by resource id.
        secrets: sha256 of each secret as seen on its source node, by name; absent: not made yet.
    """

    node: str
    changed: dict[str, Change] = field(default_factory=dict[str, Change])
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])


class Resource(Protocol):
    """A piece of desired state on one machine.

    Implementations are frozen dataclasses: the same object serves all machines that want the same,
    and results are shared between them.
    """

    @property
    def id(self) -> str:
        """Kind and name, unique on a machine: ``package:munge``."""
        ...

    @property
    def watches(self) -> tuple[str, ...]:
        """Ids of earlier resources of the node whose Change in this plan matters to ``diff``."""
        ...

    def probe(self) -> Script:
        """Read-only shell that prints what ``diff`` needs.

        Its output must be stable while nothing changes: the plan's digest is made from it.
        """
        ...

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Compare; None when the machine already holds what is wanted."""
        ...


class Standalone:
    """A resource whose ``diff`` depends on no other resource."""

    __slots__ = ()

    @property
    def watches(self) -> tuple[str, ...]:
        """No resource."""
        return ()


@dataclass(frozen=True, slots=True)
class Reading:
    """What probes of a machine have read for all of them at once, by one call in front of them.

    It keeps what it read in a variable. A probe whose subject is not in there reads that alone.

    Attributes:
        program: in ``agents``.
        function: of the program.
        subjects: its arguments, those of all probes together.
    """

    program: LiteralString
    function: LiteralString
    subjects: tuple[str, ...]


class ReadTogether:
    """A resource whose probe uses what was read for several of them."""

    __slots__ = ()

    @property
    def reading(self) -> Reading:
        """What its probe uses."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Gate:
    """What must come true on ``node`` after a stage, before the next stage begins.

    Attributes:
        name: what is waited for, in words: "slurmctld answers".
        node: where the script runs.
        script: exits 0 when it is true; read-only.
        timeout: seconds until the stage counts as failed.
        hint: likely cause and what to do when it does not come true.
        diagnose: read-only shell whose output explains the failure (status, log lines).
        alone: it comes by a new connection that logs in by key, which is a part of what is proven.
    """

    name: str
    node: str
    script: Script
    timeout: float = 60.0
    hint: str = ""
    diagnose: Script = NOTHING
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Desired:
    """The same resources, in order, on each of ``nodes``."""

    nodes: tuple[str, ...]
    resources: tuple[Resource, ...]


@dataclass(frozen=True, slots=True)
class Roll:
    """How a stage goes over its nodes: a few at a time, each without jobs while it changes.

    A node that Slurm does not know yet has no jobs: all such nodes change at once. The controller's
    turn comes last.

    Attributes:
        controller: the node where scontrol and squeue run.
        reason: why, in a few words; Slurm shows it behind ``tag`` as the drain reason.
        at_once: how many nodes change at the same time.
        patience: seconds a drained node may wait for its jobs to end; then it is restored as it
            was, and the stage fails.
        boot: seconds a machine may take to come back after a change of impact reboot.
        tag: what begins the reasons of nodes that this roll has drained, and resumes.
    """

    controller: str
    reason: str
    at_once: int = 1
    patience: float = 3600.0
    boot: float = 600.0
    tag: str = ROLL_TAG


@dataclass(frozen=True, slots=True)
class DesiredStage:
    """One stage of a cluster's desired state: all nodes finish it before the next one begins.

    With ``roll`` nodes are done a few at a time, and each one's gates close its own turn.
    """

    name: str
    title: str
    desired: tuple[Desired, ...]
    gates: tuple[Gate, ...] = ()
    roll: Roll | None = None


def probes(
    resources: Sequence[Resource], made: dict[int, Script] | None = None
) -> dict[str, Script]:
    """The read-only questions about all resources, by their ids.

    Args:
        resources: what is asked about.
        made: questions made before, by the identity of their resource: many nodes share most.
    """
    known = {} if made is None else made
    for each in resources:
        if id(each) not in known:
            known[id(each)] = sh("{{ {probe}; }} 2>/dev/null </dev/null", probe=each.probe())
    return {each.id: known[id(each)] for each in resources}


def readings(resources: Sequence[Resource]) -> Script:
    """Read-only shell that prints nothing and comes in front of the probes of these resources."""
    subjects: dict[tuple[LiteralString, LiteralString], dict[str, None]] = {}
    for each in resources:
        if isinstance(each, ReadTogether):
            reading = each.reading
            known = subjects.setdefault((reading.program, reading.function), {})
            known.update(dict.fromkeys(reading.subjects))
    calls = (call(*function, list(names)) for function, names in subjects.items())
    return join([sh("{{ {call}; }} 2>/dev/null </dev/null", call=each) for each in calls])


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
