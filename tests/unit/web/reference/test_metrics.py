"""The page of the metrics has what the exporters print, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from corral import agents
from corral.cli.main import VERBS
from corral.roles.services.metrics import alerts, dashboard
from corral.web import exposition, figures, history, metrics, scheduler_metrics, wait_times
from corral.web.reference.metrics import Metric, alert_rules, backup, controller, node, page, read

REPO = Path(__file__).parents[4]
FILE = REPO / "docs/reference/metrics.md"
NAME = re.compile(r"\bcorral_[a-z_]+[a-z]\b(?![*_])")
ENDINGS = re.compile(r"_(bucket|sum|count)$")


def names() -> set[str]:
    return {metric.name for metric in (*controller(), *node(), *backup())}


def test_the_page_is_current() -> None:
    assert FILE.read_text() == page(), (
        "python -m corral.web.reference.metrics > docs/reference/metrics.md"
    )


@pytest.mark.parametrize(
    "text",
    [alerts(), dashboard(), (REPO / "docs/guide/metrics.md").read_text()]
    + [Path(m.__file__ or "").read_text() for m in (figures, history)],
    ids=["alerts", "dashboard", "guide", "figures", "history"],
)
def test_what_is_asked_for_is_exported(text: str) -> None:
    used = {ENDINGS.sub("", name) for name in NAME.findall(text)}
    assert used
    assert used - names() == set()


def test_every_name_in_the_exporters_is_on_the_page() -> None:
    modules = (exposition, metrics, scheduler_metrics, wait_times)
    text = "".join(Path(module.__file__ or "").read_text() for module in modules)
    text += agents.program("figures.sh")
    assert set(re.findall(r'"(corral_[a-z_]+)"', text)) - names() == set()


def test_labels_and_kinds() -> None:
    known = {metric.name: metric for metric in (*controller(), *node())}
    assert known["corral_node_drained"].labels == ("node", "by", "check")
    assert known["corral_job_wait_seconds"].kind == "histogram"
    assert known["corral_job_wait_seconds"].labels == ("partition",)
    assert known["corral_gpu_job"].labels == ("gpu", "uuid", "jobid")
    assert known["corral_slurmctld_jobs_total"].kind == "counter"
    assert all(metric.about for metric in known.values())


def test_a_text_is_read() -> None:
    text = '# HELP a_b What.\n# TYPE a_b gauge\na_b{x="1",y="2"} 3\n'
    assert [*read(text)] == [Metric("a_b", "gauge", ("x", "y"), "What.")]


def test_every_alert_is_on_the_page() -> None:
    written = page()
    rules = [*alert_rules()]
    assert len(rules) == alerts().count("- alert: ")
    assert all(f"\n### {rule['alert']}\n" in written for rule in rules)


def test_alerts_name_commands_that_there_are() -> None:
    written = " ".join(rule["annotations"].get("description", "") for rule in alert_rules())
    verbs = re.findall(r"\bcorral ([a-z]+)", written)
    assert verbs
    assert set(verbs) <= VERBS.keys()
