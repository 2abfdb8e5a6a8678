"""From Slurm's words to what is done; texts as scontrol of Slurm 24.11.5 printed them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.agents import program
from corral.elastic.marks import TAKEN_REASON, Marks, decide, nodes_of_jobs, together
from corral.elastic.marks import states as words_of
from corral.inspect.jobs import PLACED
from corral.inspect.slurm import NODES

TEXT = """\
NodeName=gpu0 CoresPerSocket=1 CPUAlloc=1 State=ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP Threads=1
NodeName=gpu1 CoresPerSocket=1 CPUAlloc=0 State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=1
NodeName=gpu2 CoresPerSocket=1 CPUAlloc=0 State=IDLE+CLOUD+POWERING_DOWN ThreadsPerCore=1
NodeName=gpu3 CoresPerSocket=1 CPUAlloc=0 State=DOWN+CLOUD+NOT_RESPONDING ThreadsPerCore=1
NodeName=desk CoresPerSocket=1 CPUAlloc=0 State=DOWN ThreadsPerCore=1
"""


def states(text: str) -> dict[str, frozenset[str]]:
    return words_of(NODES.parse(text))


def jobs_of(text: str) -> dict[str, tuple[str, ...]]:
    return nodes_of_jobs(PLACED.parse(text))


GROUP = ("gpu0", "gpu1", "gpu2", "gpu3")


def marks(rented: tuple[str, ...], joined: tuple[str, ...] = (), least: int = 0) -> Marks:
    return decide(states(TEXT), rented, joined, {"h100": (GROUP, least)})


def test_states_are_words() -> None:
    assert states(TEXT)["gpu1"] == {"IDLE", "CLOUD", "POWERED_DOWN"}
    assert states("no node") == {}


def test_what_is_marked_is_done_whoever_asked() -> None:
    assert marks(("gpu2", "gpu1")) == Marks(("gpu0",), ("gpu1", "gpu2"), ("gpu3",), ())


def test_a_machine_that_is_there_is_set_up_by_the_next_process() -> None:
    assert marks(("gpu0",)).come == ("gpu0",)
    assert marks(("gpu0",), ("gpu0",)).come == ()


def test_what_is_not_rented_is_not_ended_and_others_are_left_alone() -> None:
    decided = marks(())
    assert decided.go == ()
    assert "desk" not in (*decided.come, *decided.go, *decided.failed, *decided.wake)


def test_a_machine_that_is_taken_back_goes_at_once_and_comes_again() -> None:
    line = "NodeName=gpu0 CoresPerSocket=1 CPUAlloc=0 State={state} ThreadsPerCore=1 Reason={why}"
    why = f"{TAKEN_REASON} [root@2026-11-29T10:00:00]"
    down = decide(
        states(line.format(state="DOWN+CLOUD+DRAIN", why=why)), ("gpu0",), (), {"h": (("gpu0",), 0)}
    )
    assert (down.taken, down.failed) == (("gpu0",), ())
    off = "DOWN+CLOUD+DRAIN+POWERED_DOWN"
    powered = decide(states(line.format(state=off, why=why)), (), (), {"h": (("gpu0",), 0)})
    assert (powered.taken, powered.back) == ((), ("gpu0",))
    other = decide(
        states(line.format(state="DOWN+CLOUD", why="corral: no GPU [root@2026-11-29T10:00:00]")),
        ("gpu0",),
        (),
        {"h": (("gpu0",), 0)},
    )
    assert (other.taken, other.failed) == ((), ("gpu0",))


def test_the_program_gives_the_reason_that_is_read() -> None:
    assert f"reason='{TAKEN_REASON}'" in program("../providers/gcp/programs/preemption.sh")
    assert TAKEN_REASON.replace("corral: ", " corral: ") in program("jobs/batch/again.sh")


def test_some_stay() -> None:
    assert marks((), least=2).wake == ()  # gpu0 comes, gpu3 is there
    assert marks((), least=3).wake == ("gpu1",)


def test_a_node_that_no_list_shows_is_lost_unless_it_comes_goes_or_is_down() -> None:
    seen = states(TEXT) | {"gpu4": frozenset({"ALLOCATED", "CLOUD"})}
    groups = {"h100": ((*GROUP, "gpu4"), 0)}
    assert decide(seen, (), (), groups).lost == ("gpu4",)
    assert decide(seen, ("gpu4",), (), groups).lost == ()


@pytest.mark.parametrize(
    ("reason", "back"),
    [
        ("corral: the cloud took the machine back [root@2026-11-22T04:22:11]", ("gpu0",)),
        ("Not responding [slurm@2026-11-22T04:09:13]", ("gpu0",)),
        ("broken fan [root@2026-11-22T04:09:13]", ()),
    ],
)
def test_a_node_whose_machine_is_gone_is_to_be_had_again(
    reason: str, back: tuple[str, ...]
) -> None:
    seen = states(f"NodeName=gpu0 CPUAlloc=0 State=DOWN+CLOUD+POWERED_DOWN Reason={reason}\n")
    assert decide(seen, (), (), {"h100": (("gpu0",), 0)}).back == back
    assert decide(seen, ("gpu0",), (), {"h100": (("gpu0",), 0)}).back == ()


def test_what_one_job_waits_for_comes_together() -> None:
    jobs = jobs_of("7|gpu[0-1]\n8|gpu3\nnonsense\n9|gpu[3-4]\n10|\n")
    assert jobs == {"7": ("gpu0", "gpu1"), "8": ("gpu3",), "9": ("gpu3", "gpu4")}
    names = [f"gpu{i}" for i in range(6)]
    assert together(names, jobs.values()) == [
        ("gpu0", "gpu1"),
        ("gpu2",),
        ("gpu3", "gpu4"),
        ("gpu5",),
    ]


def test_nodes_are_read_as_slurm_folds_them() -> None:
    """Slurm 20.11 to 26.05 write n08 to n99 and n100 as one range."""
    names = tuple(f"n{i:02}" for i in range(8, 101))
    assert jobs_of("7|n[08-100]\n") == {"7": names}


NAMES = [f"n{i}" for i in range(6)]


@given(st.lists(st.sets(st.sampled_from([*NAMES, "other"])), max_size=4))
def test_groups_hold_each_node_once_and_no_job_is_cut(jobs: list[set[str]]) -> None:
    groups = together(NAMES, jobs)
    assert sorted(n for g in groups for n in g) == NAMES
    for job in jobs:
        assert sum(bool(set(g) & job) for g in groups) <= 1
