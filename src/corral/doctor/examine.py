"""The whole examination: rules over what was told, then the logs of what is ill. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from corral.doctor.health import read_reason
from corral.doctor.job_steps import job_steps
from corral.doctor.launches import launches
from corral.doctor.look import Told
from corral.doctor.model import Diagnosis, Layer, Report, Source
from corral.doctor.namespaces import alone, user_namespaces
from corral.doctor.probes import PROBES, Scene, found
from corral.doctor.reading import read, report
from corral.doctor.tailnet import tailnet
from corral.slurm.states.nodes import NodeInfo

_LOGS: Final = {
    "slurmctld": Source.SLURMCTLD,
    "slurmd": Source.SLURMD,
    "slurmdbd": Source.SLURMDBD,
    "munge": Source.MUNGE,
}
RULES: Final = (*PROBES, alone, user_namespaces, launches, job_steps, tailnet)
"""All that asks the machines."""
_SYMPTOMS: Final = frozenset({"F83", "F86"})
"""Failures that always have a cause beneath them."""
_OLD_FILES: Final = "reconfigure failed"
"""slurmd goes on with its old files and takes jobs; it would not survive a restart."""
_SILENT: Final = frozenset({"", "none"})


def examine(scene: Scene) -> Report:
    """What is wrong with a cluster, first causes first; nothing on a healthy one.

    Logs are read only of nodes that take no jobs and of daemons that do not run, and only since
    their last start: what went wrong and was mended is no finding.
    """
    findings = causes(scene)
    known = scene.known
    findings += _reasons(scene, known)
    findings += _logs(scene, _sick(scene, known, findings))
    findings += _controllers_log(scene, _sick(scene, known, findings) - _explained(findings))
    return report(findings)


def causes(scene: Scene) -> list[Diagnosis]:
    """What the machines themselves show, without what Slurm says of its nodes."""
    findings = [one for probe in RULES for one in probe(scene)]
    return [*findings, *_machines(scene)]


def _reasons(scene: Scene, known: Mapping[str, NodeInfo]) -> Iterator[Diagnosis]:
    for node in scene.compute:
        info = known.get(node)
        if info is None:
            continue
        if info.reason.lower() not in _SILENT:
            yield from read_reason(info.reason, node)
        if "NOT_RESPONDING" in info.state.flags:
            yield found("F83", node, f"Slurm says {node} is {info.state}")


def _sick(scene: Scene, known: Mapping[str, NodeInfo], findings: Sequence[Diagnosis]) -> set[str]:
    """Compute nodes that are down, silent, or out for a cause that is found.

    Not those that a person drained; and none where the controller is ill and cannot say.
    """
    explained = _explained(findings)
    if not known and scene.controller in explained:
        return set()
    broken = {n for n in scene.compute if n not in known or known[n].state.broken}
    return broken | {n for n in explained if n in known and not known[n].state.usable}


def _explained(findings: Sequence[Diagnosis]) -> set[str]:
    """Nodes of which more is known than that they are ill."""
    return {n for f in findings if f.failure.id not in _SYMPTOMS for n in f.nodes}


def _logs(scene: Scene, sick: set[str]) -> Iterator[Diagnosis]:
    for told in scene.heard:
        for unit, source in _LOGS.items():
            ill = told.node in sick and unit in ("slurmd", "munge") and unit in told.units
            log = told.log(unit)
            if unit in told.down or ill or _OLD_FILES in log:
                findings = _of_the_cluster(read(log, source, told.node))
                yield from (one for one in findings if not _refuted(one, told))


def _refuted(one: Diagnosis, told: Told) -> bool:
    """Whether the node itself shows that what its log says is over.

    slurmd 24.11 says once at each start that no name resolves while no controller answers: it asks
    DNS for a SRV record then. And a job that ended while slurmctld was down leaves a line of a
    connection that failed.
    """
    names = told.pairs("names")
    ports = told.pairs("ports").values()
    return {
        "F05": bool(names) and all(names.values()),
        "F18": bool(ports) and "closed" not in ports,
    }.get(one.failure.id, False)


def _of_the_cluster(findings: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
    """Without what a job met: slurmd logs that too, and it is no illness of the node."""
    return (one for one in findings if one.failure.layer is not Layer.JOB)


def _controllers_log(scene: Scene, puzzling: set[str]) -> Iterator[Diagnosis]:
    """What slurmctld says while a node is ill and nothing else tells why.

    It speaks of its nodes and seldom says which, so what it says of one that was mended a minute
    ago would be taken for another's.
    """
    told = scene.lead
    if puzzling and told.error is None and "slurmctld" not in told.down:
        yield from _of_the_cluster(read(told.log("slurmctld"), Source.SLURMCTLD))


def _machines(scene: Scene) -> Iterator[Diagnosis]:
    for told in scene.heard:
        yield from read(told.text("kernel"), Source.KERNEL, told.node)
        yield from read(told.text("driver"), Source.DRIVER, told.node)
    # Slurm's commands read the same files as its daemons, and say what they cannot read.
    yield from read(scene.lead.text("ping"), Source.SLURMCTLD, scene.controller)
