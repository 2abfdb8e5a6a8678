"""The judging half of the smoke checks, with good and bad outputs of real Slurm (24.11.5)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.inspect.facts import Facts
from corral.inspect.machine import listening
from corral.inspect.question import MachineState
from corral.prove import probe
from corral.prove.checks import ranks, rest, slots, smoke
from corral.prove.model import Verdict
from corral.prove.survey import Survey
from corral.slurm.text import readable_nodes
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of
from tests.unit.prove.surveys import slurm_node, survey_of

# --- the survey's parsers


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        ("IDLE", True),
        ("MIXED", True),
        ("ALLOCATED", True),
        ("MIXED+PLANNED", True),
        ("IDLE+CLOUD+POWER_DRAIN", False),
        ("IDLE+COMPLETING", True),
        ("IDLE+DRAIN", False),
        ("ALLOCATED+DRAIN", False),
        ("DOWN*", False),
        ("IDLE*", False),
        ("UNKNOWN*", False),
        ("UNKNOWN", False),
        ("IDLE+INVALID_REG", False),
        ("IDLE+NOT_RESPONDING", False),
        ("IDLE+CLOUD+POWERED_DOWN", False),
        ("DOWN+DRAIN+INVALID_REG", False),
    ],
)
def test_usable(state: str, usable: bool) -> None:
    assert slurm_node("node0", state=state).usable is usable


def test_parse_nodes_keeps_the_reason() -> None:
    line = (
        "NodeName=node1 Arch=x86_64 CoresPerSocket=1 CPUAlloc=3 CPUEfctv=4 CPUTot=4 CPULoad=0.1"
        " Gres=gpu:rtx5090:2(S:0-1),gpu:a100:1,shard:8 NodeAddr=10.1.1.2 NodeHostName=node1"
        " Version=24.11.5 OS=Linux 6.1.0 #1 SMP State=FAKE RealMemory=3900 AllocMem=0 Sockets=2"
        " State=DOWN*+DRAIN ThreadsPerCore=2 Partitions=main,debug  BootTime=None"
        " Reason=Low RealMemory (reported:1 < 100.00% of configured:2) [slurm@2026-11-21T03:00:00]"
    )
    node = readable_nodes(line)["node1"]
    assert (node.gpus, node.cpus, node.cpus_used, node.threads, node.cores) == (3, 4, 3, 2, 2)
    assert node.reason == "Low RealMemory (reported:1 < 100.00% of configured:2)"
    assert str(node.state) == "DOWN+DRAIN+NOT_RESPONDING"
    assert node.partitions == ("main", "debug")
    assert node.memory == 3900


def test_parse_nodes_of_an_error_is_empty() -> None:
    text = "slurm_load_node error: Unable to contact slurm controller (connect failure)"
    assert readable_nodes(text) == {}


@given(st.text())
def test_parsers_take_any_text(text: str) -> None:
    readable_nodes(text)
    probe.parse_probes(text)
    slots.SNAPSHOT.parse(text)
    ranks.parse_ranks(text)
    ranks.parse_calls(text)
    rest.parse_answers(text)
    listening(text)


# --- smoke


def test_nodes() -> None:
    assert smoke.judge_nodes(survey_of()).verdict is Verdict.PASS
    drained = {"node0": slurm_node("node0"), "node1": slurm_node("node1", state="IDLE+DRAIN")}
    drained["node1"] = replace(drained["node1"], reason="Prolog error")
    judged = smoke.judge_nodes(survey_of(slurm=drained))
    assert judged.verdict is Verdict.FAIL
    assert judged.summary == "node1 is idle+drain (Prolog error)"
    unknown = smoke.judge_nodes(survey_of(slurm={"node0": slurm_node("node0")}))
    assert unknown.summary == "node1 is not known to slurmctld"


def test_a_node_that_cannot_be_reached_fails_all_checks_of_it() -> None:
    error = CorralError(Code.UNREACHABLE, "the connection broke", node="node1")
    nodes = {"node0": survey_of().nodes["node0"], "node1": MachineState("node1", error=error)}
    seen = survey_of(nodes=nodes)
    services = {"node0": ("slurmd",), "node1": ("slurmd",)}
    for judged in (
        smoke.judge_services(seen, services),
        smoke.judge_names(seen, {}),
        smoke.judge_versions(seen),
        smoke.judge_clocks(nodes.values()),
        smoke.judge_config(seen),
    ):
        assert judged.verdict is Verdict.FAIL
        assert "node1 cannot be reached" in judged.summary


def services(auth: str, **units: str) -> Survey:
    text = "\n".join(f"{unit} {state}" for unit, state in units.items())
    sections = {"units": text, "config": f"AuthType = {auth}"}
    return survey_of(nodes={"node0": MachineState("node0", sections)}, compute=("node0",))


@pytest.mark.parametrize(
    ("auth", "units", "problem"),
    [
        ("auth/slurm", {"slurmd": "active", "munge": "inactive"}, ""),
        ("auth/slurm", {"slurmd": "failed", "munge": "inactive"}, "slurmd on node0 is failed"),
        ("auth/munge", {"slurmd": "active", "munge": "inactive"}, "munge on node0 is inactive"),
        ("auth/munge", {"slurmd": "active", "munge": "active"}, ""),
        ("auth/slurm", {"munge": "inactive"}, "slurmd on node0 is not seen"),
    ],
)
def test_services(auth: str, units: dict[str, str], problem: str) -> None:
    judged = smoke.judge_services(services(auth, **units), {"node0": ("slurmd",)})
    assert judged.verdict is (Verdict.FAIL if problem else Verdict.PASS)
    assert problem in judged.summary


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("node0 10.1.1.1\nnode1 10.1.1.2 10.2.1.2\n", ""),
        ("node0 127.0.1.1\nnode1 10.1.1.2\n", "resolves node0 to 127.0.1.1"),
        ("node0 10.1.1.1\nnode1 \n", "cannot resolve node1"),
        ("node0 10.1.1.1\nnode1 10.9.9.9\n", "node1 to 10.9.9.9, not 10.1.1.2"),
        ("node0 10.1.1.1\nnode1 ? \n", "could not look up node1 within 10 s"),
        ("node0 10.1.1.1 127.0.1.1\nnode1 10.1.1.2\n", ""),
        ("node0 10.1.1.1\nnode1 10.9.9.9 10.1.1.2\n", "node1 to 10.9.9.9, not 10.1.1.2"),
        ("", "cannot resolve node0"),
    ],
)
def test_names(lines: str, problem: str) -> None:
    nodes = {name: MachineState(name, {"names": lines}) for name in ("node0", "node1")}
    judged = smoke.judge_names(survey_of(nodes=nodes), {"node0": "10.1.1.1", "node1": "10.1.1.2"})
    assert judged.verdict is (Verdict.FAIL if problem else Verdict.PASS)
    assert problem in judged.summary


def versions(node1: str, running1: str = "24.11.5", ctl: str = "24.11.5") -> Survey:
    both = "slurmd slurm-wlm 24.11.5\nslurmctld slurm-wlm 24.11.5"
    nodes = {
        "node0": MachineState("node0", {"versions": both, "config": f"SLURM_VERSION = {ctl}"}),
        "node1": MachineState("node1", {"versions": node1}),
    }
    known = {"node0": slurm_node("node0"), "node1": slurm_node("node1", version=running1)}
    return survey_of(nodes=nodes, slurm=known)


@pytest.mark.parametrize(
    ("seen", "problem"),
    [
        (versions("slurmd slurm-wlm 24.11.5"), ""),
        (versions("slurmd slurm 23.11.4"), "slurmd on node1 is 23.11.4, not 24.11.5"),
        (versions("slurmd slurm 24.11.5", running1="24.05.1"), "slurmd running on node1"),
        (versions("slurmd slurm 24.11.5", ctl="24.05.1"), "slurmctld running on node0"),
        (versions(""), "slurmd on node1 is missing"),
        (versions("slurmd"), "slurmd on node1 could not be read"),
    ],
)
def test_versions(seen: Survey, problem: str) -> None:
    judged = smoke.judge_versions(seen)
    assert judged.verdict is (Verdict.FAIL if problem else Verdict.PASS), judged.summary
    assert problem in judged.summary


def clock(name: str, value: object, sent: float = 100.0, received: float = 100.2) -> MachineState:
    return MachineState(name, {"clock": str(value)}, sent, received)


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        ([clock("a", 100.1), clock("b", 100.15)], Verdict.PASS),
        ([clock("a", 100.1), clock("b", 101.9)], Verdict.PASS),  # within 2 s of uncertainty
        ([clock("a", 100.1), clock("b", 103.0)], Verdict.WARN),
        ([clock("a", 100.1), clock("b", 96.0)], Verdict.WARN),
        ([clock("a", 100.1), clock("b", 160.1)], Verdict.FAIL),
        ([clock("a", 100.1), clock("b", -500.0)], Verdict.FAIL),
        # A slow answer explains the difference: no skew is proven.
        ([clock("a", 100.1), clock("b", 110.0, 100.0, 111.0)], Verdict.PASS),
        ([clock("a", 100.1), clock("b", 110.0, 100.0, 160.0)], Verdict.WARN),
        # The same node asked later is not ahead.
        ([clock("a", 100.1), clock("b", 200.1, 200.0, 200.2)], Verdict.PASS),
        ([clock("a", ""), clock("b", 100.1)], Verdict.FAIL),
        ([clock("a", "100.%N"), clock("b", 100.1)], Verdict.FAIL),
        ([], Verdict.FAIL),
    ],
)
def test_clocks(seen: list[MachineState], verdict: Verdict) -> None:
    judged = smoke.judge_clocks(seen)
    assert judged.verdict is verdict, judged.summary


def configured(node1: dict[str, str]) -> Survey:
    def sections(hash_val: str, folder: str, digest: str) -> dict[str, str]:
        config = f"HASH_VAL = {hash_val}\nSLURM_CONF              = {folder}/slurm.conf"
        return {"config": config, "files": f"{digest}  {folder}/slurm.conf"}

    good = sections("Match", "/etc/slurm", "aa")
    other = {"hash_val": "Match", "folder": "/run/slurm/conf", "digest": "aa"} | node1
    nodes = {
        "node0": MachineState("node0", good),
        "node1": MachineState("node1", sections(**other)),
    }
    return survey_of(nodes=nodes)


@pytest.mark.parametrize(
    ("node1", "problem"),
    [
        ({}, ""),
        ({"digest": "bb"}, "/run/slurm/conf/slurm.conf on node1 differs"),
        ({"hash_val": "Different Ours=0x1 Slurmctld=0x2"}, "settings on node1: Different"),
        ({"hash_val": ""}, "slurmctld did not report them"),
    ],
)
def test_config(node1: dict[str, str], problem: str) -> None:
    judged = smoke.judge_config(configured(node1))
    assert judged.verdict is (Verdict.FAIL if problem else Verdict.PASS), judged.summary
    assert problem in judged.summary


def test_config_without_any_file_fails() -> None:
    judged = smoke.judge_config(survey_of())
    assert "no slurm.conf was found on node0" in judged.summary


def machine(**changes: object) -> Facts:
    facts = Facts("node0", "debian", "13", "6.1", 2, 1, 2, 1, 3000, "v2", True, "10.1.1.1")
    return replace(facts, **changes)


def spec(provider: str = "ssh", gpus: int = 2) -> ClusterSpec:
    group: dict[str, object] = {"name": "g", "provider": provider, "nodes": "node0"}
    if gpus:
        group["gpu"] = {"type": "slot", "count": gpus}
    return ClusterSpec.model_validate({"corral": "v1", "name": "lab", "groups": [group]})


@pytest.mark.parametrize(
    ("known", "facts", "provider", "problem"),
    [
        ({}, machine(), "ssh", ""),
        ({}, None, "ssh", ""),
        ({"gpus": 1}, machine(), "ssh", "1 GPUs in Slurm, 2 declared"),
        ({"gpus": 3}, machine(), "ssh", "3 GPUs in Slurm, 2 declared"),
        ({"memory": 1}, machine(), "ssh", "no RealMemory"),
        ({"memory": 1400}, machine(), "ssh", "1400 MiB in Slurm"),
        ({"memory": 1400}, machine(), "embedded", ""),
        ({"memory": 3001}, machine(), "embedded", "3001 MiB in Slurm"),
        ({"cpus": 1}, machine(), "ssh", "1 CPUs in Slurm, 2 on the machine"),
        ({}, machine(cpus=4), "ssh", "2 CPUs in Slurm, 4 on the machine"),
    ],
)
def test_registered(
    known: dict[str, object], facts: Facts | None, provider: str, problem: str
) -> None:
    seen = survey_of(compute=("node0",), slurm={"node0": slurm_node("node0", **known)})
    judged = smoke.judge_registered(seen, nodes_of(spec(provider)), {"node0": facts})
    assert judged.verdict is (Verdict.FAIL if problem else Verdict.PASS), judged.summary
    assert problem in judged.summary


# --- the directory of people


REFUSED = "ldaps://a refused refuses the password: correct it"


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ("ldaps://a ok\nvision ok", ""),
        (f"{REFUSED}\nldaps://b ok\nvision ok", ""),
        (f"{REFUSED}\nvision ok", "on node1 ldaps://a refuses the password: correct it"),
        ("ldaps://a ok\nvision unknown is a group", "on node1 vision is a group"),
        ("", "node1 has no answer of the directory"),
    ],
)
def test_one_server_of_the_directory_is_enough_and_all_groups_are_known(
    answers: str, problem: str
) -> None:
    good = MachineState("node0", {"directory": "ldaps://a ok\nvision ok"}, 99.9, 100.1)
    other = MachineState("node1", {"directory": answers}, 99.9, 100.1)
    judged = smoke.judge_directory([good, other])
    assert judged.verdict is (Verdict.FAIL if problem else Verdict.PASS)
    assert problem in judged.summary


def test_a_node_that_is_not_reached_has_no_directory() -> None:
    silent = MachineState("node1", {}, 99.9, 100.1, CorralError(Code.UNREACHABLE, "timed out"))
    assert smoke.judge_directory([silent]).verdict is Verdict.FAIL
