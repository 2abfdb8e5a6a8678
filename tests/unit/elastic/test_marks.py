"""From Slurm's words to what is done; texts as scontrol of Slurm 24.11.5 printed them."""

from __future__ import annotations

from corral.elastic.marks import Marks, decide, states

TEXT = """\
NodeName=gpu0 CoresPerSocket=1 CPUAlloc=1 State=ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP Threads=1
NodeName=gpu1 CoresPerSocket=1 CPUAlloc=0 State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=1
NodeName=gpu2 CoresPerSocket=1 CPUAlloc=0 State=IDLE+CLOUD+POWERING_DOWN ThreadsPerCore=1
NodeName=gpu3 CoresPerSocket=1 CPUAlloc=0 State=DOWN+CLOUD+NOT_RESPONDING ThreadsPerCore=1
NodeName=desk CoresPerSocket=1 CPUAlloc=0 State=DOWN ThreadsPerCore=1
"""
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
    found = marks(())
    assert found.go == ()
    assert "desk" not in (*found.come, *found.go, *found.failed, *found.wake)


def test_some_stay() -> None:
    assert marks((), least=2).wake == ()  # gpu0 comes, gpu3 is there
    assert marks((), least=3).wake == ("gpu1",)
