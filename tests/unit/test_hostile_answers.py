"""What users and nodes write is read as data: another shape of JSON, other line ends, no end."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import partial

import pytest

from corral.doctor.machine_report import MachineReport
from corral.doctor.probes import Scene
from corral.doctor.tailnet import tailnet
from corral.errors import Code, CorralError
from corral.inspect.machine import USERS
from corral.inspect.question import MachineState
from corral.inspect.services import UNITS
from corral.inspect.system import CGROUP
from corral.jobs.arrays import _numbered, _points  # pyright: ignore[reportPrivateUsage]
from corral.jobs.control import _handle  # pyright: ignore[reportPrivateUsage]
from corral.jobs.datasets import kept_entries
from corral.jobs.profile.recordings import parse_stats, timeline
from corral.jobs.profile.trace import read_trace
from corral.prove.fabric.corral_benchmark import progress_of
from corral.prove.measure.measurement import MARK, results_of
from corral.slurm.rest.commands import body_of
from corral.slurm.text import node_fields, readable_nodes
from tests.growth import AT_MOST, TIMES, growth

DEEP = "[" * 200_000
HUGE = "1" + "0" * 400
ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
"""What ``str.splitlines`` takes for the end of a line besides line feeds."""
HEAD = "Time (%),Total Time (ns),Instances,Name\n"
NODE = (
    "NodeName=n1 CPUTot=4 OS={system} RealMemory=100 AllocMem=0 State=IDLE ThreadsPerCore=1 "
    "Reason={reason} [root@1]"
)


def trace(event: str) -> bytes:
    return f'{{"traceEvents":[{event}]}}'.encode()


@pytest.mark.parametrize(
    "read",
    [
        lambda: read_trace(DEEP.encode(), 0),
        lambda: read_trace(gzip.compress(DEEP.encode(), mtime=0), 0),
        lambda: read_trace(trace(f'{{"ph":"X","name":"x","ts":1,"dur":{HUGE}}}'), 0),
        lambda: timeline({0: trace(f'{{"ph":"B","ts":{HUGE}}}')}, "x"),
        lambda: timeline({0: b'{"baseTimeNanoseconds":1e999,"traceEvents":[]}'}, "x"),
        lambda: body_of(DEEP),
        lambda: results_of([f"{MARK}x {DEEP}"], "x"),
    ],
)
def test_json_of_another_shape_is_an_error_with_words(read: Callable[[], object]) -> None:
    """It ended `corral profile` and the page's answer in a traceback."""
    with pytest.raises(CorralError) as raised:
        read()
    assert raised.value.code is Code.PARSE_FAILED


@pytest.mark.parametrize("about", [DEEP, '{"logs": 1e999}', '{"logs": [1]}', "7"])
def test_a_job_whose_user_wrote_its_description_has_unknown_ranks(about: str) -> None:
    """It was taken for a job without ranks and parts."""
    with pytest.raises(CorralError, match=r"unknown: .*/1-a-x/job\.json is damaged"):
        _handle(f"kim\n/shared/corral/jobs/kim/1-a-x\n{about}", 1, "c")
    assert _handle("kim\n/shared/corral/jobs/kim/1-a-x\n", 1, "c") is None, "it was removed"


def test_a_sweep_that_a_user_wrote_later_has_no_endless_points() -> None:
    """Eleven names of ten values each are 100 billion points."""
    values = list(range(10))
    sweep = {name: values for name in "abcdefghijk"}
    assert _points(json.dumps({"job": {"sweep": sweep}})) is None
    assert _points(json.dumps({"job": {"sweep": {}}})) == _points('{"job": {}}') == ()
    assert len(_points(json.dumps({"job": {"sweep": {"a": values, "b": values}}}))) == 100
    assert _points(DEEP) is None


def test_numbers_of_a_users_files_are_numbers_of_parts() -> None:
    assert _numbered(f"7 0\n{'9' * 5000} 1\n٣ 2\n\n8 x\u20289 0") == [(7, "0"), (8, "x\u20289 0")]


def test_what_else_is_no_answer_is_left_out() -> None:
    assert kept_entries(f"7 {DEEP}") == {}
    assert progress_of(f"@@corral-row {DEEP}") is None
    silent = MachineReport("node1", {"tailnet": DEEP, "clock": "1.0"})
    empty = MachineReport("node1", {"tailnet": "{}", "clock": "1.0"})
    seen = [list(tailnet(Scene("node1", ("node1",), {"node1": t}, {}))) for t in (silent, empty)]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("line", ["1,1,1," + "a" * 200_000, "nan,1,1,a", "1,inf,1,a", '1,1,1,"a'])
def test_a_table_that_a_user_wrote_has_its_good_rows(line: str) -> None:
    rows = parse_stats(f"{HEAD}5,2000000,3,good\n{line}\n")
    assert rows[0].name == "good"
    assert json.loads(json.dumps([row.percent for row in rows], allow_nan=False))


@pytest.mark.parametrize("end", ENDS)
def test_a_line_feed_alone_ends_a_line(end: str) -> None:
    line = NODE.format(system=f"Linux{end}NodeName=n2 State=DOWN", reason=f"x{end}NodeName=n3")
    nodes = readable_nodes(f"{line}\n")
    assert list(nodes) == ["n1"]
    assert str(nodes["n1"].state) == "IDLE"
    state = MachineState("n", {"units": f"slurmd active{end}munge failed"})
    assert list(state.by_key(UNITS)) == ["slurmd"]
    assert state.by_key(USERS) == {}
    assert MachineState("n", {"uids": f"slurm 64030{end}munge 5"}).by_key(USERS) == {}


@pytest.mark.parametrize("end", ENDS)
def test_a_last_word_is_the_daemons_own(end: str) -> None:
    """A user asks for a partition of such a name, and the doctor took it for the daemon's end."""
    text = f"Running as primary controller\nerror: invalid partition specified: x{end}fatal: y"
    answers = MachineReport("c", {"trustedslurmctld": text, "units": "slurmctld failed"})
    assert "fatal: y" not in answers.trusted("slurmctld")


@pytest.mark.parametrize("blank", ["\u2003", "\x1c", "\x85"])
def test_no_mount_of_a_user_changes_the_cgroup_version(blank: str) -> None:
    """FUSE mounts have any name; the kernel escapes ASCII's blanks and line feeds alone."""
    name = f"x{blank}\u2028x{blank}/sys/fs/cgroup{blank}cgroup"
    text = f"cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n{name} /scratch/x fuse.x rw 0 0\n"
    assert CGROUP.read({"mounts": text}) == "v2"


@pytest.mark.parametrize("word", [" OS=", " ", " RealMemory=1", " CoresPerSocket=1  "])
def test_a_nodes_own_words_are_read_in_linear_time(word: str) -> None:
    """A node states its OS itself; one of 200,000 characters held the reader for minutes."""
    size = 200_000 // len(word)
    small, large = (NODE.format(system=word * n, reason="x") for n in (size // TIMES, size))
    assert growth(partial(node_fields, small), partial(node_fields, large)) < AT_MOST
    assert node_fields(large)["State"] == "IDLE"
