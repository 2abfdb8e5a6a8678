"""No false alarms: a healthy cluster with auth/slurm, recorded soon after its daemons started."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from corral.doctor.cluster_diagnosis import diagnose
from corral.doctor.drain_reason import of_nodes
from corral.doctor.logs.diagnosis import read
from corral.doctor.machine_report import MachineReport
from corral.doctor.probes import Scene
from corral.inspect import services
from corral.inspect.slurm import NODES

RECORDED = Path(__file__).parents[2] / "recorded" / "doctor"
LOGS = ("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "mariadb")


def recorded(name: str) -> Scene:
    data = json.loads((RECORDED / name).read_text())
    machine = {n: MachineReport(n, sections) for n, sections in data["told"].items()}
    return Scene(
        data["controller"],
        tuple(data["compute"]),
        machine,
        data["addresses"],
        data["gpus"],
        data["fabric"],
        data["auth"],
    )


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.glob("healthy-*.json")))
def test_a_healthy_cluster_has_no_finding(name: str) -> None:
    scene = recorded(name)
    assert scene.auth == "slurm"
    assert [f.as_dict() for f in diagnose(scene).findings] == []


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.glob("healthy-*.json")))
def test_its_complete_logs_hold_nothing(name: str) -> None:
    """Pasted as they are, starts of daemons and all."""
    for machine in recorded(name).machines.values():
        for unit in LOGS:
            text = machine.text(services.log(unit)) + machine.text(services.log_file(unit))
            assert [d.failure.id for d in read(text)] == [], (machine.node, unit)


@pytest.mark.parametrize(
    ("node", "section", "before", "after", "id_"),
    [
        ("node1", "units", "slurmd active", "slurmd failed", "F73"),
        ("node2", "devices", "/dev/nvidia1", "", "F13"),
    ],
)
def test_the_same_recording_broken_is_found(
    node: str, section: str, before: str, after: str, id_: str
) -> None:
    """The recording is one that can fail: otherwise its silence would mean nothing."""
    scene = recorded("healthy-auth-slurm-24.11.json")
    machine = scene.machines[node]
    text = machine.sections[section].replace(before, after)
    assert text != machine.sections[section]
    broken = replace(machine, sections={**machine.sections, section: text})
    findings = [
        f.failure.id
        for f in diagnose(replace(scene, machines={**scene.machines, node: broken})).findings
    ]
    assert findings[:1] == [id_]


def test_a_node_that_somebody_drained_is_out_of_service() -> None:
    """No known failure is not healthy: the page called a cluster with such a node so."""
    scene = recorded(min(path.name for path in RECORDED.glob("healthy-*.json")))
    assert diagnose(scene).out_of_service == ()
    lead = scene.machines[scene.controller]
    name = scene.compute[-1]
    nodes = lead.text(NODES)
    (line,) = [text for text in nodes.splitlines() if text.startswith(f"NodeName={name} ")]
    drained = re.sub(r" State=(\S+)", r" State=\1+DRAIN", line) + " Reason=fan [ada@2026-11-25]"
    sections = {**lead.sections, "nodes": nodes.replace(line, drained)}
    machines = {**scene.machines, scene.controller: replace(lead, sections=sections)}
    report = diagnose(replace(scene, machines=machines))
    assert report.healthy
    (out,) = report.out_of_service
    assert out.node == name
    assert "DRAIN" in out.state
    assert out.text == f"{name} is {out.state}: fan (ada)"
    assert of_nodes(report, {scene.controller}).out_of_service == ()
    assert of_nodes(report, {name}).out_of_service == (out,)
