"""Diagnosis of a cluster: rules over responses, then the logs of what is unhealthy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from corral.doctor.drain_reason import read_reason
from corral.doctor.job_steps import job_steps, launches
from corral.doctor.lemons import lemons
from corral.doctor.logs.diagnosis import read, report
from corral.doctor.machine_report import MachineReport
from corral.doctor.model import Diagnosis, Layer, OutOfService, Report, Source
from corral.doctor.probes import (
    PROBES,
    Scene,
    alone,
    backup,
    directory,
    finding,
    user_namespaces,
)
from corral.doctor.tailnet import tailnet
from corral.inspect.machine import DRIVER, KERNEL_LOG, NAMES, PORTS
from corral.inspect.slurm import PING
from corral.slurm.records import Node

_LOGS: Final = {
    "slurmctld": Source.SLURMCTLD,
    "slurmd": Source.SLURMD,
    "slurmdbd": Source.SLURMDBD,
    "munge": Source.MUNGE,
}
RULES: Final = (
    *(*PROBES, alone, backup, directory, user_namespaces, launches, job_steps, tailnet),
    lemons,
)
"""All that asks the machines."""
_SILENT: Final = frozenset({"", "none"})


def diagnose(scene: Scene) -> Report:
    """What is wrong with a cluster, first causes first; nothing on a healthy one.

    Logs count only where no user can have written into them (``MachineReport.trusted``): what a
    daemon printed in its last start, before it took requests. slurmctld prints names of refused
    requests with the line ends that are in them, so a user can write any line into its log.
    """
    findings = causes(scene)
    known = scene.known
    findings += _reasons(scene, known)
    findings += _logs(scene)
    made = report(findings)
    return replace(made, out_of_service=tuple(_out_of_service(scene, made)))


def causes(scene: Scene) -> list[Diagnosis]:
    """What the machines themselves show, without what Slurm reports about its nodes."""
    findings = [cause for probe in RULES for cause in probe(scene)]
    return [*findings, *_machines(scene)]


def _reasons(scene: Scene, known: Mapping[str, Node]) -> Iterator[Diagnosis]:
    for node in scene.compute:
        info = known.get(node)
        if info is None:
            continue
        if info.reason.lower() not in _SILENT:
            yield from read_reason(info.reason, node)
        if info.state.silent:
            yield finding("F83", node, f"Slurm reports {node} as {info.state}")


def _out_of_service(scene: Scene, made: Report) -> Iterator[OutOfService]:
    """Nodes that take no jobs, and of which no finding states why."""
    explained = {node for cause in made.findings for node in cause.nodes}
    for name in scene.compute:
        info = scene.known.get(name)
        if info is not None and not info.state.usable and name not in explained:
            reason = "" if info.reason.lower() in _SILENT else info.reason
            yield OutOfService(name, str(info.state), reason, info.reason_by)


def _logs(scene: Scene) -> Iterator[Diagnosis]:
    for machine in scene.answered:
        for unit, source in _LOGS.items():
            findings = _of_the_cluster(read(machine.trusted(unit), source, machine.node))
            yield from (cause for cause in findings if not _refuted(cause, machine))


def _refuted(cause: Diagnosis, machine: MachineReport) -> bool:
    """Whether the node itself shows that what its log reports is over.

    slurmd 24.11 logs once at each start that no name resolves while no controller answers: it asks
    DNS for a SRV record then. And a job that ended while slurmctld was down leaves a line of a
    connection that failed.
    """
    names = machine.by_key(NAMES).values()
    ports = machine.get(PORTS) or ()
    return {
        "F05": bool(names) and all(name.addresses or name.late for name in names),
        "F18": bool(ports) and all(port.is_open for port in ports),
    }.get(cause.failure.id, False)


def _of_the_cluster(findings: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
    """Without what a job met: slurmd logs that too, and it is not the node's fault."""
    return (cause for cause in findings if cause.failure.layer is not Layer.JOB)


def _machines(scene: Scene) -> Iterator[Diagnosis]:
    for machine in scene.answered:
        yield from read(machine.text(KERNEL_LOG), Source.KERNEL, machine.node)
        yield from read(machine.text(DRIVER), Source.DRIVER, machine.node)
    # Slurm's commands read the same files as its daemons, and print what they cannot read.
    yield from read(scene.lead.text(PING), Source.SLURMCTLD, scene.controller)
