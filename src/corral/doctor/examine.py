"""The whole examination: rules over what was told, then the logs of what is ill. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from corral.doctor.model import Diagnosis, Report, Source
from corral.doctor.probes import PROBES, Scene, found
from corral.doctor.reading import read, report
from corral.slurm.states.nodes import NodeInfo

_LOGS: Final = {
    "slurmctld": Source.SLURMCTLD,
    "slurmd": Source.SLURMD,
    "slurmdbd": Source.SLURMDBD,
    "munge": Source.MUNGE,
}
_SYMPTOMS: Final = frozenset({"F83", "F86"})
"""Failures that always have a cause beneath them."""
_SILENT: Final = frozenset({"", "none"})


def examine(scene: Scene) -> Report:
    """What is wrong with a cluster, first causes first; nothing on a healthy one.

    Logs are read only of nodes that take no jobs and of daemons that do not run, and only since
    their last start: what went wrong and was mended is no finding.
    """
    findings = causes(scene)
    known = scene.known
    findings += _reasons(scene, known)
    findings += _logs(scene, known)
    findings += _controllers_log(scene, known, findings)
    return report(findings)


def causes(scene: Scene) -> list[Diagnosis]:
    """What the machines themselves show, without what Slurm says of its nodes."""
    findings = [one for probe in PROBES for one in probe(scene)]
    return [*findings, *_machines(scene)]


def _reasons(scene: Scene, known: Mapping[str, NodeInfo]) -> Iterator[Diagnosis]:
    for node in scene.compute:
        info = known.get(node)
        if info is None:
            continue
        if info.reason.lower() not in _SILENT:
            yield from read(info.reason, Source.REASON, node)
        if "NOT_RESPONDING" in info.state.flags:
            yield found("F83", node, f"Slurm says {node} is {info.state}")


def _logs(scene: Scene, known: Mapping[str, NodeInfo]) -> Iterator[Diagnosis]:
    sick = _sick(scene, known)
    for told in scene.heard:
        for unit, source in _LOGS.items():
            ill = told.node in sick and unit in told.units and unit != "slurmctld"
            if unit in told.down or ill:
                yield from read(told.log(unit), source, told.node)


def _controllers_log(
    scene: Scene, known: Mapping[str, NodeInfo], findings: Sequence[Diagnosis]
) -> Iterator[Diagnosis]:
    """What slurmctld says while a node is ill and nothing else tells why.

    It speaks of its nodes and seldom says which, so what it says of one that was mended a minute
    ago would be taken for another's.
    """
    told = scene.lead
    explained = {n for f in findings if f.failure.id not in _SYMPTOMS for n in f.nodes}
    puzzling = _sick(scene, known) - explained
    if puzzling and told.error is None and "slurmctld" not in told.down:
        yield from read(told.log("slurmctld"), Source.SLURMCTLD)


def _sick(scene: Scene, known: Mapping[str, NodeInfo]) -> set[str]:
    """Compute nodes that take no jobs."""
    return {n for n in scene.compute if n not in known or not known[n].state.usable}


def _machines(scene: Scene) -> Iterator[Diagnosis]:
    for told in scene.heard:
        yield from read(told.text("kernel"), Source.KERNEL, told.node)
        yield from read(told.text("driver"), Source.DRIVER, told.node)
    # Slurm's commands read the same files as its daemons, and say what they cannot read.
    yield from read(scene.lead.text("ping"), Source.SLURMCTLD, scene.controller)
