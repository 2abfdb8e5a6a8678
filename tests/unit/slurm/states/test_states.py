"""Answers of real Slurm (22.05.8, 24.11.5, 26.05.5), hostile names included."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import CorralError
from corral.slurm.states.jobs import (
    ExitCode,
    JobState,
    ended_states,
    going_on_states,
    holding_states,
)
from corral.slurm.states.nodes import NodeBase, NodeState, node_flags
from corral.slurm.states.reasons import explain, reasons
from corral.slurm.text import (
    SHOW_QUEUE,
    fields_of,
    node_fields,
    parse_history,
    parse_nodes,
    parse_queue,
    show_history,
    show_queue,
)

# scontrol show node --oneliner, recorded from real controllers
V2205 = (
    "NodeName=node1 CoresPerSocket=2  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=N/A "
    "AvailableFeatures=rtx ActiveFeatures=rtx Gres=gpu:rtx5090:2 NodeAddr=10.9.9.2 "
    "NodeHostName=node1  RealMemory=1894 AllocMem=0 FreeMem=N/A Sockets=1 Boards=1 "
    "State=UNKNOWN+DRAIN+NOT_RESPONDING ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A "
    "MCS_label=N/A Partitions=main  BootTime=None SlurmdStartTime=None LastBusyTime=Unknown "
    "CfgTRES=cpu=2,mem=1894M,billing=2 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 "
    "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s "
    "Reason=bad GPU State=IDLE Reason=none [root@1795231953]\n"
)
V2411 = (
    "NodeName=node2 CoresPerSocket=2  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=0.00 "
    "AvailableFeatures=rtx,big ActiveFeatures=rtx Gres=(null) NodeAddr=10.9.9.3 "
    "NodeHostName=node2  RealMemory=1894 AllocMem=0 FreeMem=N/A Sockets=1 Boards=1 "
    "State=DOWN+NOT_RESPONDING ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
    "Partitions=main,all  BootTime=None SlurmdStartTime=None LastBusyTime=Unknown "
    "ResumeAfterTime=None CfgTRES=cpu=2,mem=1894M,billing=2 AllocTRES= CurrentWatts=0 "
    "AveWatts=0  Reason=two [root@1795231950]        lines [x@y] \n"
)
V2605 = (
    "NodeName=node0 Arch=x86_64 CoresPerSocket=2  CPUAlloc=1 CPUEfctv=2 CPUTot=2 CPULoad=0.00 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:rtx5090:2 NodeAddr=10.9.9.1 "
    "NodeHostName=node0 Version=26.05.5 OS=Linux 6.1.0-42 #1 SMP Debian State=X  RealMemory=1894 "
    "AllocMem=0 FreeMem=N/A Sockets=1 Boards=1 State=MIXED ThreadsPerCore=1 "
    "Partitions=main  BootTime=1795231900 SuspendTime=INFINITE AllocTRES=cpu=1\n"
)


def test_nodes() -> None:
    first, second = parse_nodes(V2205 + V2411)
    assert (first.name, first.address, first.cpus, first.memory) == ("node1", "10.9.9.2", 2, 1894)
    assert first.state == NodeState(NodeBase.UNKNOWN, frozenset({"DRAIN", "NOT_RESPONDING"}))
    assert first.state.drained
    assert (first.gres, first.partitions, first.features) == ("gpu:rtx5090:2", ("main",), ("rtx",))
    assert first.version == ""
    assert second.state.base is NodeBase.DOWN
    assert second.state.broken
    assert not second.state.usable
    assert second.reason == "two lines [x@y]"
    assert (second.reason_by, second.reason_at) == ("root", 1795231950)
    assert (second.gres, second.partitions, second.features) == (
        "",
        ("main", "all"),
        ("rtx", "big"),
    )


def test_the_reason_keeps_what_resembles_a_field() -> None:
    (node,) = parse_nodes(V2205)
    assert node.reason == "bad GPU State=IDLE Reason=none"
    assert (node.reason_by, node.reason_at) == ("root", 1795231953)


@pytest.mark.parametrize(
    ("tail", "reason", "comment"),
    [
        (" Reason=Not responding [slurm@1] ", "Not responding", None),
        (" Reason=a [b@c] d [root@1] Comment=x Reason=y", "a [b@c] d", "x Reason=y"),
        (" Comment=why Reason=no", "", "why Reason=no"),
        (" Reason=unsigned Comment=x", "unsigned", "x"),
        ("", "", None),
    ],
)
def test_reasons_of_nodes(tail: str, reason: str, comment: str | None) -> None:
    line = f"NodeName=a State=IDLE CPUTot=1{tail}\n"
    (node,) = parse_nodes(line)
    assert node.reason == reason
    assert node_fields(line).get("Comment") == comment
    assert node.state.idle


@given(st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), max_size=60))
def test_no_reason_changes_another_field(text: str) -> None:
    (node,) = parse_nodes(f"NodeName=a State=DOWN CPUTot=1 Reason={text} [root@1795231953]")
    assert (node.name, node.state.base, node.cpus) == ("a", NodeBase.DOWN, 1)


@pytest.mark.parametrize(
    ("state", "registered", "resumable"),
    [
        ("IDLE", True, False), ("MIXED+PLANNED", True, False), ("IDLE+DRAIN", True, True),
        ("IDLE+DRAIN+REBOOT_ISSUED", True, True), ("IDLE+POWER_DRAIN", True, False),
        ("DOWN", False, True), ("DOWN*", False, True), ("IDLE*", False, False),
        ("IDLE+NO_RESPOND", False, False), ("IDLE+DRAIN+INVALID_REG", False, True),
        ("UNKNOWN", False, False), ("ERROR", True, True), ("FUTURE", False, False),
    ],
)  # fmt: skip
def test_who_is_registered_and_what_resume_takes_back(
    state: str, *, registered: bool, resumable: bool
) -> None:
    parsed = NodeState.parse(state)
    assert (parsed.registered, parsed.resumable) == (registered, resumable)


@pytest.mark.parametrize(
    ("state", "silent", "misconfigured", "in_service"),
    [
        ("IDLE", False, False, True), ("IDLE*", True, False, False),
        ("IDLE+NO_RESPOND", True, False, False), ("IDLE+INVALID", False, True, False),
        ("IDLE+INVALID_REG", False, True, False), ("IDLE+POWERED_DOWN", False, False, True),
        ("ERROR", False, False, False), ("IDLE+FAIL", False, False, False),
        ("IDLE+MAINT", False, False, True), ("IDLE+DRAIN", False, False, False),
    ],
)  # fmt: skip
def test_who_answers_and_who_is_in_service(
    state: str, *, silent: bool, misconfigured: bool, in_service: bool
) -> None:
    parsed = NodeState.parse(state)
    assert (parsed.silent, parsed.misconfigured) == (silent, misconfigured)
    assert parsed.in_service is in_service


def test_a_kernel_name_cannot_change_the_state() -> None:
    # OS= is the node's own word, and it comes before State=
    (node,) = parse_nodes(V2605)
    assert node.state.base is NodeBase.MIXED
    assert node.state.usable
    assert not node.state.idle
    assert node.cpus_used == 1
    assert node.version == "26.05.5"
    assert node.features == ()


def test_fields_of_any_line() -> None:
    line = "JobId=4 JobName=a b UserId=bob(2000) JobState=RUNNING Reason=None Comment=x JobState=NO"
    fields = fields_of(line)
    assert (fields["JobName"], fields["JobState"], fields["Reason"]) == ("a b", "RUNNING", "None")


def test_no_nodes() -> None:
    assert parse_nodes("") == ()
    assert parse_nodes("No nodes in the system\n") == ()


@pytest.mark.parametrize("text", ["slurm_load_node error: Unable to contact", "NodeName=x\n",
                                  "NodeName=x State=IDLE CPUTot=many"])  # fmt: skip
def test_broken_answers(text: str) -> None:
    with pytest.raises(CorralError):
        parse_nodes(text)


@pytest.mark.parametrize(
    ("text", "usable", "idle", "drained", "broken"),
    [
        ("IDLE", True, True, False, False),
        ("IDLE+COMPLETING", True, False, False, False),
        ("IDLE+CLOUD", True, True, False, False),
        ("MIXED", True, False, False, False),
        ("ALLOCATED", True, False, False, False),
        ("ALLOCATED+DRAIN", False, False, True, False),
        ("IDLE+DRAIN", False, False, True, False),
        ("IDLE+DRAIN+INVALID_REG", False, False, True, True),
        ("DOWN*", False, False, False, True),
        ("DOWN+NOT_RESPONDING", False, False, False, True),
        ("UNKNOWN", False, False, False, False),
        ("IDLE+POWERED_DOWN", False, False, False, False),
        ("IDLE+REBOOT_ISSUED", False, False, False, False),
        ("IDLE+SOMETHING_NEW", False, False, False, False),
    ],
)
def test_node_states(text: str, usable: bool, idle: bool, drained: bool, broken: bool) -> None:
    state = NodeState.parse(text)
    properties = (state.usable, state.idle, state.drained, state.broken)
    assert properties == (usable, idle, drained, broken)
    assert NodeState.parse(str(state)) == state


def test_unknown_base_state() -> None:
    with pytest.raises(CorralError, match="not a node state"):
        NodeState.parse("SLEEPING")
    assert all(flag.means for flag in node_flags().values())


MARK = "|a1b2c3d4|"


def row(*fields: object) -> str:
    return MARK.join(map(str, fields))


QUEUE = (
    "\n".join(
        [
            row(
                5,
                5,
                "PENDING",
                "ReqNodeNotAvail, UnavailableNodes:node[0-2]",
                "main",
                "bob",
                "(null)",
                "2-3",
                3,
                "N/A",
                "0:00",
                "UNLIMITED",
                1795231950,
                "N/A",
                "",
                "wrap",
            ),
            row(
                2,
                2,
                "PENDING",
                "Resources",
                "main",
                "bob",
                "(null)",
                1,
                1,
                "N/A",
                "0:00",
                "UNLIMITED",
                1795231950,
                "N/A",
                "",
                "x\n9|9|RUNNING|None|main|root|(null)|1|1|N/A|0:00|1:00|1|1|node0|y",
            ),
            row(
                1,
                1,
                "RUNNING",
                "None",
                "main",
                "bob",
                "lab",
                1,
                1,
                "gres/gpu:rtx5090:1",
                "1:03",
                "1-02:04:00",
                1795231950,
                1795231960,
                "node0",
                "a b|c",
            ),
            row(
                "3_1",
                4,
                "PENDING",
                "JobHeldUser",
                "main",
                "bob",
                "(null)",
                1,
                1,
                "N/A",
                "0:00",
                "UNLIMITED",
                1795231950,
                "N/A",
                "",
                "wrap",
            ),
        ]
    )
    + "\n"
)


def test_queue() -> None:
    waiting, hostile, running, part = parse_queue(QUEUE, MARK)
    assert waiting.waiting
    assert (waiting.node_count, waiting.limit, waiting.start_at) == (2, None, None)
    assert waiting.reason.startswith("ReqNodeNotAvail")
    assert hostile.name.startswith("x\n9|9|RUNNING")
    assert (running.label, running.name, running.nodes) == ("1", "a b|c", "node0")
    assert (running.elapsed, running.limit, running.reason) == (63, 93840, "")
    assert (running.submit_at, running.start_at) == (1795231950, 1795231960)
    assert (running.account, running.gres) == ("lab", "gres/gpu:rtx5090:1")
    assert (part.label, part.id) == ("3_1", 4)


def test_one_job_with_the_plain_mark() -> None:
    (job,) = parse_queue(QUEUE.split("\n")[-2].replace(MARK, "|"))
    assert job.label == "3_1"
    assert show_queue("|") == SHOW_QUEUE
    assert SHOW_QUEUE[-1].count("|") == 15


def test_an_empty_queue_and_a_broken_one() -> None:
    assert parse_queue("", MARK) == ()
    with pytest.raises(CorralError, match="squeue did not answer"):
        parse_queue("slurm_load_jobs error: Unable to contact slurm controller\n", MARK)


@given(st.text(st.characters(blacklist_categories=("Cs",)), max_size=60))
def test_no_name_forges_a_job(name: str) -> None:
    text = row(
        1,
        1,
        "RUNNING",
        "None",
        "main",
        "bob",
        "lab",
        1,
        1,
        "N/A",
        "1:03",
        "1:00",
        5,
        6,
        "node0",
        name,
    )
    other = row(
        2,
        2,
        "RUNNING",
        "None",
        "main",
        "eve",
        "lab",
        1,
        1,
        "N/A",
        "1:03",
        "1:00",
        5,
        6,
        "node0",
        "z",
    )
    first, second = parse_queue(f"{text}\n{other}\n", MARK)
    assert (first.name, second.user) == (name, "eve")


HISTORY = "\n".join(
    [
        row("7", "7", "COMPLETED", "0:0", "0:0", "main", "bob", "", 3, 3, "cpu=3",
            "cpu=3,gres/gpu=3", 12, 1795231950, 1795231951, 1795231963, "node[0-2]", "train"),
        row("8", "8", "CANCELLED by 2000", "0:15", "0:0", "main", "bob", "lab", 1, 1, "cpu=1", "",
            0, 1795231950, "None", 1795231951, "None assigned", "x"),
        row("9", "9", "RUNNING", "0:0", "0:0", "main", "bob", "lab", 1, 1, "cpu=1", "cpu=1", 3,
            1795231950, 1795231950, "Unknown", "node0", "y"),
        row("10", "10", "OUT_OF_MEMORY", "0:125", "0:0", "main", "bob", "lab", 1, 1, "", "cpu=1", 3,
            1795231950, 1795231950, 1795231953, "node0", "y"),
    ]
)  # fmt: skip


def test_history() -> None:
    good, cancelled, running, oom = parse_history(HISTORY, MARK)
    assert good.state == JobState.COMPLETED
    assert good.exit_code == ExitCode(0)
    assert (good.end_at, good.elapsed, good.tres) == (1795231963, 12, "cpu=3,gres/gpu=3")
    assert cancelled.state == JobState.CANCELLED
    assert (cancelled.start_at, cancelled.nodes, cancelled.tres) == (None, "", "cpu=1")
    assert cancelled.exit_code is not None
    assert cancelled.exit_code.words == "ended by SIGTERM"
    assert (running.end_at, running.exit_code) == (None, None)
    assert oom.ended
    assert oom.exit_status == 0


def test_commands_ask_for_what_is_read() -> None:
    assert show_queue(MARK)[-1].count(MARK) == QUEUE.split("\n")[0].count(MARK)
    assert show_history(MARK)[-1].count(",") == HISTORY.split("\n")[0].count(MARK)
    assert f"--delimiter={MARK}" in show_history(MARK)
    for bad in ("", "%i", "a b", "x\n"):
        with pytest.raises(CorralError, match="cannot separate"):
            show_queue(bad)


@pytest.mark.parametrize("state", JobState)
def test_every_job_state_is_read_and_sorted(state: JobState) -> None:
    assert JobState.read(state.value) is state
    assert not (state.ended and state.waiting)


def test_job_state_is_refused() -> None:
    with pytest.raises(CorralError, match="not a job state"):
        JobState.read("SLEEPING")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0:0", "succeeded"),
        ("0:125", "ended by Slurm: out of memory"),
        ("", "succeeded"),
        ("1:0", "exit status 1"),
        ("0:9", "ended by SIGKILL"),
        ("137:0", "ended by SIGKILL"),
        ("127:0", "exit status 127 (command not found)"),
        ("0:64", "ended by signal 64"),
    ],
)
def test_exit_codes(text: str, words: str) -> None:
    code = ExitCode.parse(text)
    assert code.words == words
    assert ExitCode.parse(str(code)) == code


def test_broken_exit_code() -> None:
    with pytest.raises(CorralError, match="not an exit code"):
        ExitCode.parse("x:1")


@pytest.mark.parametrize(
    ("reason", "has"),
    [
        ("Resources", "waits until enough"),
        ("(Priority)", "higher priority"),
        ("None", ""),
        ("ReqNodeNotAvail, UnavailableNodes:node[0-2]", "UnavailableNodes:node[0-2]"),
        ("AssocGrpGRES", "limit on the running jobs of its user or account together"),
        ("QOSMaxCpuPerUserLimit", "limit of its QOS"),
        ("MaxGRESPerAccount", "limit for its user"),
        ("SomethingNew", "SomethingNew"),
    ],
)
def test_reasons(reason: str, has: str) -> None:
    assert has in explain(reason)
    assert bool(explain(reason)) == bool(has)
    assert all(row.means for row in reasons().words)


def test_one_table_has_the_phase_of_each_state() -> None:
    """A state that a loop does not know would end it while parts of an array still wait."""
    going = set(going_on_states())
    assert going | set(ended_states()) == {state.value for state in JobState}
    assert not going & set(ended_states())
    assert going > {state.value for state in JobState if state.waiting}
    assert set(holding_states().split(",")) == {
        *("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING"),
        *("SIGNALING", "STAGE_OUT", "STOPPED", "RESIZING"),
    }
