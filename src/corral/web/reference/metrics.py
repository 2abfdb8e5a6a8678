"""Writes docs/reference/metrics.md: ``python -m corral.web.reference.metrics``.

Nothing about a metric is written here. The exporters' own functions run on a sample cluster in
which each metric has a value; name, type, labels and help text are those that they print.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from corral import agents
from corral.roles.services.metrics import alerts as rules_text
from corral.slurm.policy import EVENTS, Call, Cycle, Scheduler, Share
from corral.slurm.records import Job, Node, Partition
from corral.slurm.states.nodes import NodeState
from corral.web.exposition import families, text_of
from corral.web.metrics import own_families
from corral.web.scheduler_metrics import scheduler_families, share_families
from corral.web.wait_times import Waits

_INTRODUCTION: Final = """\
# Metrics and alerts

<!-- Generated: python -m corral.web.reference.metrics > docs/reference/metrics.md -->
<!-- each block: a rule as installed, compared by `tests/unit/web/reference/test_metrics.py` -->

What `services: {metrics: true}` exports; the guide [Metrics](../guide/metrics.md) has the
set-up, queries and the number of series. Each series also has the label `cluster`, and those of one
machine have `node`.
"""
_ABOUT: Final = (
    ("Controller", "`corral-metrics` on the controller, `127.0.0.1:9341`, job `corral`.\n"),
    (
        "Jobs and GPUs of a node",
        "The node exporter of each machine, port 9100, job `node`. The node exporter's own metrics "
        "have names that\nbegin with `node_`, NVIDIA's DCGM exporter's begin with `DCGM_FI_`.\n",
    ),
)
_OF_BACKUP: Final = (
    "The node exporter of the controller, where `backup` is declared; after each run.\n"
)
_SAMPLE: Final = re.compile(r"(\w+?)(?:\{(.*)\})? \S+$")
_LABEL: Final = re.compile(r'(\w+)="')
_SMI: Final = """\
#!/bin/sh
case $* in
*query-gpu*) echo '0, GPU-1, 50, 1024, 81559, 40, 300.0, 0, 00000000:81:00.0' ;;
*) echo 'GPU-1, 7' ;;
esac
"""
_DMESG: Final = """\
#!/bin/sh
echo '[   83.511744] NVRM: Xid (PCI:0000:81:00): 31, pid=3688, name=python3'
"""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as an exporter prints it.

    Attributes:
        name: the family's; a histogram's series have it with an ending.
        kind: Prometheus' type.
        labels: in the order printed, without ``le``.
        about: the help text.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    about: str


def page() -> str:
    """The page as Markdown."""
    parts = [_INTRODUCTION]
    sections = (*_ABOUT, ("Scheduled backup", _OF_BACKUP))
    for (title, about), metrics in zip(sections, (controller(), node(), backup()), strict=True):
        parts += [f"\n## {title}\n\n{about}\n", "| metric | type | labels | meaning |\n"]
        parts.append("|---|---|---|---|\n")
        for metric in metrics:
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            parts.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.about} |\n")
    parts += _alerts()
    return "".join(parts)


def controller() -> list[Metric]:
    """Metrics of the controller's exporter, in its order."""
    state = NodeState.parse("IDLE+DRAIN+POWERED_DOWN")
    nodes = [
        Node("node1", state, "health.xid", load=1.0, gres="gpu:8", gres_used="gpu:1", watts=300)
    ]
    running = _job(1, "RUNNING", gpus=1)
    jobs = [running, _job(2, "PENDING", reason="Resources")]
    waits = Waits()
    waits.note([])
    waits.note([running])
    cycle = Cycle(1, 1, 1, 1, 1, 1, 1, 1)
    diagnosed = Scheduler(
        *(1, 1, 1, 1, 1),
        jobs=dict.fromkeys(EVENTS, 1),
        main=cycle,
        backfill=cycle,
        backfilled=1,
        by_type=(Call("REQUEST_PING", 1, 1, 1),),
    )
    shares = [_share(""), _share("kim")]
    made: list[Any] = [
        *own_families(up=True, took=0.1, rounds=1.0),
        *families(nodes, jobs, [Partition(name="main", state="UP")], 2.0),
        waits.family(),
        *scheduler_families(diagnosed),
        *share_families(shares, jobs),
    ]
    return [*read(text_of(made))]


def node() -> list[Metric]:
    """Metrics of ``figures.sh``, which runs here on a made-up cgroup and GPU."""
    with tempfile.TemporaryDirectory() as temporary:
        top = Path(temporary)
        job = top / "cgroup/system.slice/slurmstepd.scope/job_1"
        _put(job / "memory.current", "4096\n")
        _put(job / "cpu.stat", "usage_usec 1000000\n")
        _put(top / "health/last", "ok\thealth.gpus\tall of them\n")
        _put(top / "proc/7/cgroup", "0::/system.slice/slurmstepd.scope/job_1/step_0\n")
        _put(top / "bin/nvidia-smi", _SMI)
        _put(top / "bin/dmesg", _DMESG)
        for program in ("nvidia-smi", "dmesg"):
            (top / "bin" / program).chmod(0o755)
        env = {"PATH": f"{top}/bin:{os.environ.get('PATH', os.defpath)}"}
        env |= {"CORRAL_CGROUP": f"{top}/cgroup", "CORRAL_PROC": f"{top}/proc"}
        env |= {"CORRAL_HEALTH_RUN": f"{top}/health"}
        command = ["/bin/sh", "-c", agents.program("figures.sh")]
        text = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    return [*read(text)]


def backup() -> list[Metric]:
    """Metrics of the scheduled backup's program."""
    program = runpy.run_path(str(agents.FOLDER / "backup/scheduled.py"))
    return [*read(program["metrics"](1, 1, 1))]


def read(text: str) -> Iterator[Metric]:
    """The metrics of a text of Prometheus, each with the labels of its samples."""
    kinds: dict[str, tuple[str, str]] = {}
    labels: dict[str, dict[str, None]] = {}
    name = about = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            about = line.split(" ", 3)[3]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            kinds[name] = (kind, about)
            labels[name] = {}
        elif (match := _SAMPLE.fullmatch(line)) is not None:
            own = _LABEL.findall(match[2] or "")
            labels[name] |= dict.fromkeys(label for label in own if label != "le")
    for name, (kind, help_text) in kinds.items():
        yield Metric(name, kind, tuple(labels[name]), help_text)


def alert_rules() -> Iterable[dict[str, Any]]:
    """The alert rules that the controller's Prometheus has."""
    reader: Any = YAML(typ="safe")
    for group in reader.load(rules_text())["groups"]:
        yield from group["rules"]


def _alerts() -> Iterator[str]:
    yield "\n## Alerts\n\n`/etc/corral/prometheus-alerts.yml` on the controller.\n"
    for rule in alert_rules():
        yield f"\n### {rule['alert']}\n\n"
        yield f"* Severity: {rule['labels']['severity']}{_after(rule.get('for', ''))}.\n"
        yield f"* Summary: `{rule['annotations']['summary']}`\n"
        if what := rule["annotations"].get("description"):
            yield f"* Do: {what}\n"
        yield f"\n```text\n{rule['expr'].strip()}\n```\n"


def _after(time: str) -> str:
    return f"; after {time}" if time else "; at once"


def _job(number: int, state: str, **more: Any) -> Job:
    names = {"user": "kim", "account": "physics", "partition": "main"}
    return Job(id=number, state=state, eligible_at=1, start_at=2, **names, **more)


def _share(user: str) -> Share:
    return Share("physics", user, part=0.5, effective=0.5, factor=0.5)


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    sys.stdout.write(page())
