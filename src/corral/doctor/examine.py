"""The whole examination: rules over what was told, then the logs of what is ill. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
_SILENT: Final = frozenset({"", "none"})


def examine(scene: Scene) -> Report:
    """What is wrong with a cluster, first causes first; nothing on a healthy one.

    Logs are read only of nodes that are ill now, and only since their daemons' last start: what
    went wrong and was mended is no finding.
    """
    findings = [one for probe in PROBES for one in probe(scene)]
    known = scene.known
    findings += _reasons(scene, known)
    findings += _logs(scene, known, {n for f in findings for n in f.nodes})
    findings += _machines(scene)
    return report(findings)


def _reasons(scene: Scene, known: Mapping[str, NodeInfo]) -> Iterator[Diagnosis]:
    for node in scene.compute:
        info = known.get(node)
        if info is None:
            continue
        if info.reason.lower() not in _SILENT:
            yield from read(info.reason, Source.REASON, node)
        if "NOT_RESPONDING" in info.state.flags:
            yield found("F83", node, f"Slurm says {node} is {info.state}")


def _logs(scene: Scene, known: Mapping[str, NodeInfo], ill: set[str]) -> Iterator[Diagnosis]:
    sick = {n for n in scene.compute if n not in known or not known[n].state.usable} | ill
    for node in sorted(sick | ({scene.controller} if sick else set())):
        told = scene.told.get(node)
        if told is None or told.error is not None:
            continue
        for unit, source in _LOGS.items():
            yield from read(told.log(unit), source, node)


def _machines(scene: Scene) -> Iterator[Diagnosis]:
    for told in scene.heard:
        yield from read(told.text("kernel"), Source.KERNEL, told.node)
        yield from read(told.text("driver"), Source.DRIVER, told.node)
