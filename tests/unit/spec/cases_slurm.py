"""What the rules of slurm.settings, partitions, licences and reservations fire on."""

from __future__ import annotations

from typing import Any, Final

from .cases import LAB
from .cases_iron import MEGA

Case = tuple[str, dict[str, Any], dict[str, Any], str]
SOON: Final = {"name": "soon", "start": "2099-01-31T08:00", "duration": "4"}
OFF: Final = {"slurm": {"accounting": False, "rest": False}}


def settings(version: str = ">=24.05", **keys: object) -> dict[str, Any]:
    return {"slurm": {"version": version, "settings": keys}}


def reserved(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"reservations": [{**SOON, **entry} for entry in entries]}


SLURM: Final[list[Case]] = [
    ("slurm-setting-unknown", LAB, settings(MaxArraySiz=10001), "slurm.settings.MaxArraySiz"),
    ("slurm-setting-unknown", LAB, settings(MaxTime="1-0"), "slurm.settings.MaxTime"),
    ("slurm-setting-unknown", LAB, settings(ConstrainCores=True), "slurm.settings.ConstrainCores"),
    ("slurm-setting-unknown", LAB, settings(**{"a b=$(x)": 1}), "slurm.settings.a b=$(x)"),
    ("slurm-setting-owned", LAB, settings(AuthType="auth/none"), "slurm.settings.AuthType"),
    ("slurm-setting-owned", LAB, settings(slurmuser="root"), "slurm.settings.slurmuser"),
    ("slurm-setting-owned", LAB, settings(HealthCheckInterval=9),
     "slurm.settings.HealthCheckInterval"),
    ("slurm-setting-owned", LAB, settings(NodeName="x"), "slurm.settings.NodeName"),
    ("slurm-setting-owned", LAB, settings(JobCompPass="x"), "slurm.settings.JobCompPass"),
    ("slurm-setting-owned", LAB, settings(Licenses="a:1"), "slurm.settings.Licenses"),
    ("slurm-setting-repeated", LAB, settings(KillWait=9, killwait=8), "slurm.settings.killwait"),
    ("slurm-setting-version", LAB, settings("==23.11", HashPlugin="hash/k12"),
     "slurm.settings.HashPlugin"),
    ("slurm-setting-version", LAB, settings(FastSchedule=1), "slurm.settings.FastSchedule"),
    ("slurm-version-new", LAB, settings(">=31.05", KillWait=9), "slurm.version"),
    ("slurm-setting-loose", LAB, settings(">=23.11", HashPlugin="hash/k12"),
     "slurm.settings.HashPlugin"),
    ("slurm-setting-value", LAB, settings(KillWait="long"), "slurm.settings.KillWait"),
    ("slurm-setting-value", LAB, settings(TrackWCKey="maybe"), "slurm.settings.TrackWCKey"),
    ("slurm-setting-word", LAB, settings(SchedulerType="sched/backfil"),
     "slurm.settings.SchedulerType"),
    ("slurm-field-unused", MEGA, settings(KillWait=9), "slurm.settings"),
    ("slurm-field-unused", MEGA, {"licenses": [{"name": "a", "count": 1}]}, "licenses"),
    ("partition-access-both", LAB, {"partitions.1.allow_accounts": ["corral"],
     "partitions.1.deny_accounts": ["corral"]}, "partitions[1].deny_accounts"),
    ("partition-access-both", LAB, {"partitions.1.allow_qos": ["normal"],
     "partitions.1.deny_qos": ["normal"]}, "partitions[1].deny_qos"),
    ("partition-account-unknown", LAB, {"partitions.1.allow_accounts": ["corral", "corel"]},
     "partitions[1].allow_accounts[1]"),
    ("partition-qos-unknown", LAB, {"partitions.1.deny_qos": ["norml"]},
     "partitions[1].deny_qos[0]"),
    ("partition-qos-unknown", LAB, {"partitions.1.qos": "night"}, "partitions[1].qos"),
    ("partition-access-without-accounting", LAB, {**OFF, "partitions.1.qos": "normal"},
     "partitions[1].qos"),
    ("partition-node-bounds", LAB, {"partitions.1.min_nodes": 3, "partitions.1.max_nodes": 2},
     "partitions[1].min_nodes"),
    ("partition-node-bounds", LAB, {"partitions.1.min_nodes": 4}, "partitions[1].min_nodes"),
    ("partition-default-time", LAB, {"partitions.1.default_time": "1:30"},
     "partitions[1].default_time"),
    ("partition-default-time", LAB, {"partitions.1.default_time": "infinite"},
     "partitions[1].default_time"),
    ("partition-preemption-two", LAB,
     {"partitions.1.preempt_mode": "cancel", "partitions.0.priority_tier": 2,
      "qos": [{"name": "a"}, {"name": "b", "preempts": ["a"]}]}, "partitions[1].preempt_mode"),
    ("partition-preemption-none", LAB, {"partitions.1.preempt_mode": "cancel"},
     "partitions[1].preempt_mode"),
    ("partition-preemption-none", LAB, {"partitions.1.grace_time": "30s"},
     "partitions[1].grace_time"),
    ("partition-default-closed", LAB, {"partitions.0.state": "drain"}, "partitions[0].state"),
    ("partition-field-unused", MEGA, {"partitions.0.priority_job_factor": 2},
     "partitions[0].priority_job_factor"),
    ("license-duplicate", LAB, {"licenses": [{"name": "a", "count": 1}, {"name": "a", "count": 2}]},
     "licenses[1].name"),
    ("reservation-duplicate", LAB, reserved({}, {}), "reservations[1].name"),
    ("reservation-time", LAB, reserved({"start": "2099-02-30T08:00"}), "reservations[0].start"),
    ("reservation-time", LAB, reserved({"duration": "0:00"}), "reservations[0].duration"),
    ("reservation-past", LAB, reserved({"start": "2024-02-29T08:00"}), "reservations[0].start"),
    ("reservation-nodes-both", LAB, reserved({"groups": ["rtx"], "nodes": "node0"}),
     "reservations[0].nodes"),
    ("reservation-group-unknown", LAB, reserved({"groups": ["rtx", "rt"]}),
     "reservations[0].groups[1]"),
    ("reservation-group-unknown", LAB, {**reserved({"groups": ["cpu"]}),
     "partitions.0.groups": ["rtx"]}, "reservations[0].groups[0]"),
    ("reservation-node-unknown", LAB, reserved({"nodes": "node[0-3]"}), "reservations[0].nodes"),
    ("reservation-node-unknown", LAB, reserved({"nodes": "node[0-"}), "reservations[0].nodes"),
    ("reservation-node-unknown", LAB, {**reserved({"nodes": "cpu0"}),
     "partitions.0.groups": ["rtx"]}, "reservations[0].nodes"),
    ("reservation-user-unknown", LAB, reserved({"users": ["alice", "bobb"]}),
     "reservations[0].users[1]"),
    ("reservation-account-unknown", LAB, reserved({"accounts": ["corel"]}),
     "reservations[0].accounts[0]"),
    ("reservation-account-unknown", LAB, {**OFF, **reserved({"accounts": ["corral"]})},
     "reservations[0].accounts"),
    ("reservation-repeats", LAB, reserved({"flags": ["daily", "weekly"]}), "reservations[0].flags"),
    ("reservation-overlap", LAB,
     reserved({"flags": []}, {"name": "b", "start": "2099-01-31T11:00", "flags": ["flex"]}),
     "reservations[1].start"),
    ("reservation-unused", MEGA, reserved({}), "reservations"),
]  # fmt: skip
QUIET_SLURM: Final[list[tuple[dict[str, Any], dict[str, Any]]]] = [
    (LAB, settings(MaxArraySize=10001, TrackWCKey=True, SchedulerParameters="bf_interval=60",
                   MessageTimeout=60, PrologFlags="X11", DebugFlags="Backfill",
                   MpiDefault="none", AccountingStorageTRES="license/matlab")),
    (LAB, {**reserved({"groups": ["rtx"], "users": ["alice"]},
                      {"name": "b", "nodes": "cpu0", "accounts": ["corral"], "flags": []}),
           "licenses": [{"name": "matlab", "count": 4}]}),
    (LAB, reserved({"flags": [], "nodes": "node0"}, {"name": "b", "flags": [], "nodes": "node1"},
                   {"name": "c", "flags": [], "start": "2099-01-31T12:00"})),
    (LAB, {"partitions.1.allow_accounts": ["corral"], "partitions.1.priority_tier": 9,
           "partitions.0.preempt_mode": "requeue", "partitions.0.grace_time": "30s",
           "partitions.1.default_time": "0:30", "partitions.1.max_nodes": 2,
           "partitions.1.oversubscribe": "force:2"}),
]  # fmt: skip
