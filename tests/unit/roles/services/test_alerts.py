"""Prometheus' alert rules by Prometheus' own ``promtool``: what fires them, and what must not.

``alert_rules.yml`` has the series. Each rule is broken here too, so that a test of it that would
pass without it is found.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from corral.inspect.xids import xids_by_number
from corral.roles.services import metrics
from tests import prometheus_tools

PROMTOOL = prometheus_tools.find("promtool")
SERIES = Path(__file__).with_name("alert_rules.yml")
RULES = YAML(typ="safe").load(metrics.alerts())["groups"][0]["rules"]
NAMES = {rule["alert"] for rule in RULES}
HEALTHY = "a healthy cluster"
BREAKS = {
    "an elastic node that is switched off": (
        HEALTHY, " unless on (cluster, node) corral_node_powered_down == 1", ""),
    "somebody else's exporter": (HEALTHY, 'up{job=~"corral|node|dcgm|slurm-.+"}', "up"),
    "somebody else's text file": (HEALTHY, "(.*/)?corral.prom", ".+"),
    "a node that a person drained": (HEALTHY, '{by=~"health|proof"}', ""),
    "an Xid that is the job's matter": (
        "DCGM reports an Xid", "DCGM_FI_DEV_XID_ERRORS == 43 or ", ""),
    "an Xid of long ago": (HEALTHY, " and changes(DCGM_FI_DEV_XID_ERRORS[15m]) > 0", ""),
    "a pause of a job": (
        HEALTHY, "max_over_time(corral_gpu_utilization_ratio[30m])",
        "min_over_time(corral_gpu_utilization_ratio[30m])"),
    "a job that has just begun": (
        "a job's GPU is idle",
        "      and on (cluster, node, jobid) corral_job_memory_bytes offset 30m\n", ""),
    "a node without any process": (
        "GPUs are given to jobs and have no process",
        "      or 0 * max by (cluster, node) (corral_gpu_memory_total_bytes))", ")"),
    "memory as a file system": (HEALTHY, "tmpfs|ramfs|overlay", "ramfs|overlay"),
    "one alert for each node of a shared one": (
        "file systems are full",
        "min by (cluster, mountpoint, device)", "min by (cluster, node, mountpoint, device)"),
    "a backup that is made once a week": (HEALTHY, "2 * corral_backup_interval_seconds", "3600"),
    "a drained node for an Xid": (
        "the health check drained a node, and for an Xid",
        '      or corral_node_drained{check="xid"} == 1\n', ""),
}  # fmt: skip
"""What a rule leaves out or counts: the tests that see it, its text, and the text without it."""

needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason=prometheus_tools.missing("promtool") or "promtool"
)


def promtool_test(folder: Path, rules: str, name: str = "") -> subprocess.CompletedProcess[str]:
    """``promtool test rules`` over these rules, all tests or those of one name."""
    tests = YAML(typ="safe").load(SERIES.read_text())
    tests["rule_files"] = ["alerts.yml"]
    tests["tests"] = [test for test in tests["tests"] if name in ("", test["name"])]
    assert tests["tests"]
    (folder / "alerts.yml").write_text(rules)
    (folder / "tests.yml").write_text(json.dumps(tests))
    argv = [str(PROMTOOL), "test", "rules", "tests.yml"]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=120)


def broken(expression: str) -> str:
    """The rules with one expression in place of each."""
    return re.sub(
        r"    expr: (?:>-\n(?:      .*\n)+|.*\n)", f"    expr: {expression}\n", metrics.alerts()
    )


@needs_promtool
def test_the_rules_are_valid(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(metrics.alerts())
    argv = [str(PROMTOOL), "check", "rules", "--lint-fatal", "alerts.yml"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(NAMES)} rules found" in done.stdout


@needs_promtool
def test_each_alert_fires_on_what_it_is_for_and_on_nothing_healthy(tmp_path: Path) -> None:
    done = promtool_test(tmp_path, metrics.alerts())
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_a_rule_that_never_fires_is_found(tmp_path: Path) -> None:
    rules = broken("vector(1) == 0")
    done = promtool_test(tmp_path, rules)
    assert done.returncode
    output = done.stdout + done.stderr
    assert {name for name in NAMES if f"alertname: {name}" in output} == NAMES


@needs_promtool
def test_a_rule_that_always_fires_is_found(tmp_path: Path) -> None:
    done = promtool_test(tmp_path, broken("vector(1) == 1"), HEALTHY)
    assert done.returncode
    output = done.stdout + done.stderr
    assert {name for name in NAMES if f'alertname="{name}"' in output} == NAMES


@needs_promtool
@pytest.mark.parametrize("what", BREAKS)
def test_each_condition_counts(what: str, tmp_path: Path) -> None:
    name, right, wrong = BREAKS[what]
    assert right in metrics.alerts()
    assert promtool_test(tmp_path, metrics.alerts().replace(right, wrong), name).returncode


def test_the_xids_that_alert_are_those_of_the_table() -> None:
    (rule,) = (rule for rule in RULES if rule["alert"] == "CorralXid")
    left_out = {int(number) for number in re.findall(r"XID_ERRORS == (\d+)", rule["expr"])}
    table = xids_by_number()
    assert left_out == {number for number, xid in table.items() if xid.do == "job"}
