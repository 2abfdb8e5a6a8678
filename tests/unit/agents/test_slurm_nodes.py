"""What programs on nodes read of scontrol's lines, compared with Corral's own reader of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from corral.agents import FOLDER, functions
from corral.hosts.quote import shipped
from corral.slurm.states.nodes import POWERED_OFF, NodeBase, node_flags
from corral.slurm.text import parse_nodes, readable_nodes

LINE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=2  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=10.73 "
    "AvailableFeatures=cpu ActiveFeatures=cpu Gres=gpu:slot:2 NodeAddr=10.175.5.10 "
    "NodeHostName=node0 Version=24.11.5 OS=Linux 6.18.44 #1 SMP {system} RealMemory=5845 "
    "AllocMem=0 FreeMem=9899 Sockets=1 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 "
    "Owner=N/A MCS_label=N/A Partitions=main  BootTime=2026-11-21T02:40:37 CfgTRES=cpu=2,mem=5845M "
    "AllocTRES= CurrentWatts=0 AveWatts=0 {rest}"
)
"""As slurmctld 24.11.5 printed one (tests/unit/prove/recorded), with places for free text."""
SIGNED = "[root@2026-11-21T10:00:05]"
FORGED = "Reason=health.gpus: forged [root@2026-11-21T10:00:05] State=DOWN+DRAIN ThreadsPerCore=1"
LINES = (
    LINE.format(name="plain", system="DEBIAN", state="IDLE", rest=""),
    LINE.format(name="a", system="x", state="MIXED+DRAIN", rest=f"Reason=bad fan, slot 3 {SIGNED}"),
    LINE.format(name="b", system="x", state="DOWN*+DRAIN", rest="Reason=not signed Comment=c"),
    LINE.format(name="c", system="x", state="IDLE+POWER_DRAIN", rest=f"Comment={FORGED}"),
    LINE.format(name="d", system="State=DOWN+DRAIN NodeAddr=6.6.6.6", state="IDLE", rest=""),
    LINE.format(name="e", system="x", state="IDLE", rest=f"Reason=State=DOWN+DRAIN x {SIGNED}"),
    LINE.format(name="f", system="x", state="IDLE+DRAIN", rest=f"Reason=a [b@c] d {SIGNED}"),
    LINE.format(
        name="g", system="x", state="ALLOCATED+DRAIN",
        rest=f"Reason=first {SIGNED}        second line Comment={FORGED}",
    ),
    LINE.format(name="h", system="x", state="IDLE+UNDRAIN", rest=f"Extra={FORGED}"),
)  # fmt: skip
SENT = (
    ("Arch=x86_64", "Arch=x State=DOWN+DRAIN NodeAddr=6.6.6.6 CPUEfctv=99"),
    ("Version=24.11.5", "Version=24.11.5 State=DOWN+DRAIN CPUEfctv=99"),
    ("OS=Linux", "OS=x Version=1 State=DOWN+DRAIN Reason=x CPUEfctv=99"),
)
"""Fields that slurmd sends, and what can be read in one way however they look."""
TWO_WAYS = (
    ("Arch=x86_64", "Arch=x CoresPerSocket=9 CPUAlloc=0 NodeAddr=6.6.6.6 CPUEfctv=99"),
    ("OS=Linux", "OS=x RealMemory=9 AllocMem=0 State=DOWN+DRAIN ThreadsPerCore=1 Reason=x"),
    ("Version=24.11.5", "Version=x RealMemory=9 AllocMem=0 State=DOWN+DRAIN Comment=x"),
    ("OS=Linux", "OS=x\nNodeName=n State=DOWN+DRAIN"),
)
AWKS = [name for name in ("mawk", "gawk", "original-awk") if shutil.which(name)]


def printed(folder: Path, awk: str, command: str, lines: Sequence[str] = LINES) -> list[str]:
    if not (folder / "awk").exists():
        (folder / "awk").symlink_to(shutil.which(awk) or "")
    ended = subprocess.run(
        ["/bin/sh", "-uc", f"{shipped('slurm-nodes.sh')}\n{command}"],
        input="".join(f"{line}\n" for line in lines),
        env={"PATH": f"{folder}:/usr/bin:/bin", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize("awk", AWKS)
def test_free_text_is_no_state(tmp_path: Path, awk: str) -> None:
    nodes = parse_nodes("\n".join(LINES))
    states = dict(line.split() for line in printed(tmp_path, awk, "node_states"))
    assert {name: frozenset(state.split("+")) for name, state in states.items()} == {
        node.name: frozenset(str(node.state).split("+")) for node in nodes
    }


@pytest.mark.parametrize(("field", "sent"), SENT)
def test_what_slurmd_sends_is_no_state(tmp_path: Path, field: str, sent: str) -> None:
    line = LINE.format(name="n", system="x", state="IDLE", rest="").replace(field, sent)
    (node,) = parse_nodes(line)
    assert (str(node.state), node.address, node.reason) == ("IDLE", "10.175.5.10", "")
    assert printed(tmp_path, "awk", "node_states", [line]) == ["n IDLE"]


@pytest.mark.parametrize(("field", "sent"), TWO_WAYS)
def test_a_line_that_reads_in_two_ways_states_nothing(
    tmp_path: Path, field: str, sent: str
) -> None:
    line = LINE.format(name="n", system="x", state="IDLE", rest="").replace(field, sent)
    node = readable_nodes(line)["n"]
    assert (str(node.state), node.address, node.reason) == ("UNKNOWN", "", "")
    assert printed(tmp_path, "awk", "node_states", [line]) == ["n UNKNOWN"]


def test_cpus_are_not_what_slurmd_claims(tmp_path: Path) -> None:
    plain = LINE.format(name="n", system="x", state="IDLE", rest="")
    lines = [plain.replace("=n ", f"=n{i} ").replace(*pair) for i, pair in enumerate(SENT)]
    assert printed(tmp_path, "awk", "node_cpus", lines) == ["2", "2", "2"]


@pytest.mark.parametrize("awk", AWKS)
def test_reasons_are_those_of_drained_nodes(tmp_path: Path, awk: str) -> None:
    nodes = parse_nodes("\n".join(LINES))
    assert printed(tmp_path, awk, "drained_nodes") == [
        f"{node.name} {node.reason_at or '-'} {node.reason}" for node in nodes if node.state.drained
    ]


@pytest.mark.parametrize("awk", AWKS)
def test_what_is_not_a_node_is_left_out(tmp_path: Path, awk: str) -> None:
    lines = ["No nodes in the system", "", "slurm_load_node: error", "NodeName=x"]
    assert printed(tmp_path, awk, "node_lines", lines) == ["x\t-\t-\t-"]


ADDRESSES = {
    "10.0.0.5": "10.0.0.5",
    "own": "10.0.0.9",  # /etc/hosts of the node has 127.0.1.1 for its own name
    "unknown": "unknown",
    "fd00::5": "fd00::5",
    "": "",
}


@pytest.mark.parametrize(("address", "expected"), ADDRESSES.items())
def test_an_address_others_can_reach(tmp_path: Path, address: str, expected: str) -> None:
    line = LINE.format(name="n", system="NodeAddr=6.6.6.6", state="IDLE", rest="Comment=NodeAddr=7")
    line = line.replace("NodeAddr=10.175.5.10", f"NodeAddr={address}")
    tools = {
        "scontrol": f"echo '{line}'",
        "getent": 'case $2 in own) printf "127.0.1.1 own\\n10.0.0.9 own\\n";; *) exit 2;; esac',
    }
    for name, text in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    ended = subprocess.run(
        ["/bin/sh", "-uc", f"{shipped('node-address.sh')}\ncorral_node_address n"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.rstrip("\n") == expected


OWN_READER = re.compile(
    r"(State|Reason|NodeAddr)=(\[|\\+\()|grep.*[' ](State|Reason|NodeAddr)="
    r"|sinfo .*%[0-9]*[tTE]\b.*\| *(awk|sed|grep|while)|=\$\(timeout [0-9]+ sinfo"
    r"|case \$state in [^)]*(DOWN|DRAIN|MAINT|POWER)"
    r"|node_states[^|]*\| *(awk|sed|grep)"
    r"|[\"'](POWERED_DOWN|POWERING_DOWN|INVALID_REG|drain|inval)[\"'] in "
)
"""A pattern of sed or grep for a node's field; sinfo's words of states; a state taken apart."""


def test_no_other_shell_text_reads_nodes() -> None:
    own = FOLDER / "slurm-nodes.sh"
    files = [p for p in FOLDER.parent.rglob("*.*") if p.suffix in (".py", ".sh") and p != own]
    assert [path for path in files if OWN_READER.search(path.read_text())] == []
    assert OWN_READER.search("sed -n 's/.* State=\\([^ ]*\\) .*/\\1/p'")
    assert OWN_READER.search("grep -q 'State=[^ ]*DRAIN'")
    assert OWN_READER.search("sinfo -h -N -p corral-proof -o '%N %t' | awk '$2 == x'")
    assert OWN_READER.search('if "drain" in node.state:')
    assert OWN_READER.search("case $state in *DOWN* | *MAINT*) exit 0 ;; esac")
    assert OWN_READER.search("node_states | grep -q NOT_RESPONDING")
    assert OWN_READER.search("node_states <x | awk '$2 ~ /DRAIN/'")


STATES = [
    *("IDLE", "ALLOCATED+COMPLETING", "MIXED+PLANNED", "DOWN", "DOWN*", "DOWN+DRAIN", "IDLE+CLOUD"),
    *("IDLE+INVALID_REG", "IDLE+CLOUD+POWERED_DOWN", "IDLE+POWERING_DOWN", "UNKNOWN", "FUTURE"),
    *("IDLE+CLOUD+POWERING_UP", "MIXED+REBOOT_REQUESTED", "IDLE*", "IDLE+MAINTENANCE"),
]


@pytest.mark.parametrize("awk", AWKS)
def test_which_nodes_are_not_registered(tmp_path: Path, awk: str) -> None:
    """As slurm/states/nodes.py; what goes or comes is not there either, drained ones are."""
    lines = [
        LINE.format(name=f"n{i}", system="x", state=state, rest="")
        for i, state in enumerate(STATES)
    ]
    nodes = {node.name: node.state for node in parse_nodes("\n".join(lines))}
    away = [
        *printed(tmp_path, awk, "nodes_silent", lines),
        *printed(tmp_path, awk, "nodes_down", lines),
    ]
    gone = {name for name, state in nodes.items() if not state.registered and not state.drained}
    moving = {
        n for n, s in nodes.items() if s.flags & {*POWERED_OFF, "POWERING_UP", "REBOOT_REQUESTED"}
    }
    assert {line.split()[0] for line in away} == gone | moving


@pytest.mark.parametrize("awk", AWKS)
def test_which_nodes_do_not_answer_and_which_are_not_drained(tmp_path: Path, awk: str) -> None:
    """As slurm/states/nodes.py, for each flag."""
    states = ["IDLE", "DOWN*", "IDLE*+DRAIN", *(f"MIXED+{f}" for f in node_flags()), "IDLE+NODRAIN"]
    lines = [
        LINE.format(name=f"n{i}", system="x", state=state, rest="")
        for i, state in enumerate(states)
    ]
    nodes = {node.name: node.state for node in parse_nodes("\n".join(lines))}
    unanswered = {line.split()[0] for line in printed(tmp_path, awk, "nodes_unanswered", lines)}
    assert unanswered == {name for name, state in nodes.items() if state.silent}
    not_drained = set(printed(tmp_path, awk, "nodes_not_drained", lines))
    assert not_drained == {name for name, state in nodes.items() if not state.drained}


@pytest.mark.parametrize("awk", AWKS)
def test_which_nodes_a_drain_is_for(tmp_path: Path, awk: str) -> None:
    """The health check left nodes alone by parts of words: one that reboots was drained."""
    states = [*NodeBase, *(f"IDLE+{flag}" for flag in node_flags()), "DOWN+MAINT", "IDLE*"]
    lines = [
        LINE.format(name=f"n{i}", system="x", state=state, rest="")
        for i, state in enumerate(states)
    ]
    nodes = {node.name: node.state for node in parse_nodes("\n".join(lines))}
    own = {line.split()[0] for line in printed(tmp_path, awk, "nodes_to_drain", lines)}
    away = (NodeBase.DOWN, NodeBase.ERROR, NodeBase.FUTURE)
    assert own == {
        name
        for name, state in nodes.items()
        if state.base not in away
        and not state.serviced
        and not any(flag.startswith("POWER") for flag in state.flags)
    }


@pytest.mark.parametrize("awk", AWKS)
def test_which_nodes_are_idle_or_powered_off(tmp_path: Path, awk: str) -> None:
    """As slurm/states/nodes.py, for each flag; nothing else is to happen on an idle one."""
    states = ["IDLE", "MIXED", "ALLOCATED", "DOWN", "IDLE*", *(f"IDLE+{f}" for f in node_flags())]
    lines = [
        LINE.format(name=f"n{i}", system="x", state=state, rest="")
        for i, state in enumerate(states)
    ]
    nodes = {node.name: node.state for node in parse_nodes("\n".join(lines))}
    own = {"BLOCKED", "PERFCTRS", "PLANNED", "RES", "RESERVED", "RESUME", "UNDRAIN"}
    own |= {"REBOOT_CANCELED"}
    idle = {line.split()[0] for line in printed(tmp_path, awk, "nodes_idle", lines)}
    assert idle == {n for n, s in nodes.items() if s.idle and not s.flags & own}
    off = {line.split()[0] for line in printed(tmp_path, awk, "nodes_powered_off", lines)}
    assert off == {n for n, s in nodes.items() if s.flags & POWERED_OFF}


@pytest.mark.parametrize("awk", AWKS)
def test_versions_are_those_before_free_text(tmp_path: Path, awk: str) -> None:
    lines = [
        LINE.format(name="a", system="Version=6.6.6", state="IDLE", rest=""),
        "NodeName=b State=IDLE",
    ]
    assert printed(tmp_path, awk, "node_versions", lines) == ["a 24.11.5", "b -"]


def test_a_backslash_in_free_text_begins_no_line(tmp_path: Path) -> None:
    """dash's echo makes a line end of it: a machine that sent such an OS counted as two nodes."""
    sent = LINE.format(name="a", system=r"x\nNodeName=b State=IDLE", state="IDLE", rest="")
    (tmp_path / "shown").write_text(f"{sent}\n")
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\ncat {tmp_path}/shown\n")
    (tmp_path / "scontrol").chmod(0o755)
    gate = functions("gates/slurm.sh", "nodes_listed")
    for count, status in ((1, 0), (2, 1)):
        ended = subprocess.run(
            ["/bin/sh", "-uc", f"{gate}\nnodes_listed {count} a"],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == status, ended.stderr
