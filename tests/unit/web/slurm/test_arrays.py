"""An array is one row, counted by state; what is cancelled where several jobs are chosen."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.slurm.records import Job
from corral.web.routes.jobs import page_of
from corral.web.slurm.arrays import all_tasks, array_row, array_tasks_of, grouped, tasks_of
from corral.web.slurm.search import ordered, parse
from corral.web.slurm.targets import choose, matching
from tests.growth import AT_MOST, growth


def job(number: int, label: str = "", state: str = "RUNNING", user: str = "kim") -> Job:
    return Job(id=number, label=label or str(number), state=state, user=user, gpus=1)


ARRAY = (
    job(12, "12_[3-30:3,40%4]", "PENDING"),
    job(13, "12_1"),
    job(14, "12_2", "FAILED"),
    job(15, "12_3", "CANCELLED"),
)


@pytest.mark.parametrize(
    ("label", "count", "exact"),
    [
        ("7", 1, True), ("7_3", 1, True), ("7_[3-30]", 28, True), ("7_[1,4,9%2]", 3, True),
        ("7_[0-200000]", 200_001, True), ("7_[1,,3]", 2, False), ("7_[3-1]", 1, False),
        ("7_[0-4000000:2,4000003%9]", 2_000_002, True), ("7_[1-3,2-5]", 3, False),
        (f"7_[{'9' * 5000}]", 1, False), ("7_[-]", 1, False), ("7_[1-3:0]", 3, True),
        ("7_[0-8:2]", 5, True), ("7_[1-3,5,...]", 4, False), ("7+1", 1, True), ("7_[?]", 1, False),
    ],
)  # fmt: skip
def test_tasks_of_a_record_are_counted(label: str, count: int, *, exact: bool) -> None:
    tasks = tasks_of(job(7, label))
    assert (tasks.count, tasks.exact) == (count, exact)


def test_tasks_are_counted_by_state() -> None:
    row = array_row(ARRAY)
    assert row["array"] == "12"
    assert (row["tasks"], row["exact"], row["alike"], row["ended"]) == (14, True, True, False)
    assert row["counts"] == [
        {"state": "PENDING", "kind": "warn", "count": 11},
        {"state": "RUNNING", "kind": "busy", "count": 1},
        {"state": "FAILED", "kind": "bad", "count": 1},
        {"state": "CANCELLED", "kind": "off", "count": 1},
    ]
    assert array_row(ARRAY[2:])["ended"]
    assert not array_row([*ARRAY, Job(id=16, label="12_4", gpus=2)])["alike"]


def test_the_page_of_an_array_has_its_tasks_and_those_that_failed() -> None:
    shown = array_tasks_of(ARRAY)
    assert [(t["id"], t["task"], t["kind"]) for t in shown["tasks"]] == [
        (13, 1, "busy"),
        (14, 2, "bad"),
        (15, 3, "off"),
    ]
    assert (shown["array"]["tasks"], shown["total"]) == (14, 3)
    assert [task["id"] for task in shown["failed"]] == [14]


def test_all_tasks_of_an_array_as_it_is_submitted_again() -> None:
    ended = [job(52, "52_2"), job(53, "52_0"), job(54, "52_1"), job(55, "52_7")]
    assert all_tasks(ended) == "0-2,7"
    assert all_tasks([job(52, "52_[4-8:2%2]"), job(53, "52_1")]) == "1,4,6,8"
    assert not all_tasks([job(52, "52_[4,6,...]"), job(53, "52_1")])


def test_an_array_is_where_its_first_task_is() -> None:
    jobs = [job(20), *ARRAY, job(5)]
    groups = grouped(ordered(jobs, "id", down=True))
    assert [[j.id for j in group] for group in groups] == [[20], [15, 14, 13, 12], [5]]
    page = page_of(ordered(jobs, "id", down=True), 0, 2, arrays=True)
    assert (page["total"], page["jobs"], len(page["rows"])) == (3, 6, 2)
    assert set(page["arrays"]) == {"15"}
    plain = page_of(jobs, 0, 2, arrays=False)
    assert plain["total"] == 6
    assert "arrays" not in plain


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), unique=True, max_size=20))
def test_no_job_is_lost_in_groups(pairs: list[tuple[int, int]]) -> None:
    jobs = [
        job(100 + n, f"{array}_{task}" if task else "") for n, (array, task) in enumerate(pairs)
    ]
    groups = grouped(jobs)
    assert sorted(j.id for group in groups for j in group) == [j.id for j in jobs]
    for group in groups:
        assert len({j.array for j in group}) == 1
        assert group[0].array or len(group) == 1


def test_a_filter_finds_the_tasks_of_an_array() -> None:
    test = parse("array=12 state=failed")
    assert [j.id for j in (*ARRAY, job(12000)) if test(j)] == [14]


def known(*jobs: Job) -> dict[int, Job]:
    return {j.id: j for j in jobs}


def numbers(target: str, jobs: dict[int, Job]) -> list[int]:
    return [j.id for j in matching([target], jobs)[target]]


def test_a_complete_array_is_one_target() -> None:
    jobs = known(*ARRAY, job(50))
    made = choose(jobs.values(), jobs, "kim", operates=False)
    assert made.targets == ("12", "50")
    assert (made.tasks, made.users, made.others) == (13, {"kim": 13}, 0)


def test_a_part_of_an_array_ends_no_other_task() -> None:
    """The pending tasks' record has the array's number, with which all of it would end."""
    jobs = known(*ARRAY)
    pending = choose([ARRAY[0]], jobs, "kim", operates=False)
    assert pending.targets == ("12:pending",)
    assert pending.tasks == 11
    assert choose([ARRAY[1]], jobs, "kim", operates=False).targets == ("13",)
    assert numbers("12:pending", jobs) == [12]
    # A requeued task has its own record, and the state of those that have not begun.
    more = known(*ARRAY, job(16, "12_4", "PENDING"))
    assert choose([ARRAY[0]], more, "kim", operates=False).targets == ()
    both = choose([ARRAY[0], more[16]], more, "kim", operates=False)
    assert both.targets == ("12:pending", "16")
    assert numbers("12", jobs) == [12, 13]  # 14 and 15 have ended
    assert numbers("13", jobs) == [13]
    assert numbers("99", jobs) == numbers("99:pending", jobs) == []


class Counted(dict[int, Job]):
    """Jobs, and how often all of them were gone through."""

    passes = 0

    def values(self) -> Any:
        self.passes += 1
        return super().values()


def test_one_pass_over_all_jobs_finds_what_many_targets_stand_for() -> None:
    """500 targets went through 50,000 jobs each: 1.5 s."""
    jobs = Counted(known(*ARRAY, job(50)))
    matched = matching(["12:pending", "12", "50", *map(str, range(100, 200))], jobs)
    assert [[j.id for j in matched[target]] for target in ("12:pending", "12", "50")] == [
        [12],
        [12, 13],
        [50],
    ]
    assert jobs.passes == 1


def test_what_has_ended_and_what_is_others_is_left_out() -> None:
    jobs = known(*ARRAY, job(60, user="ada"), job(61, state="FAILED"))
    made = choose(jobs.values(), jobs, "kim", operates=False)
    assert made.targets == ("12",)
    assert made.others == 1
    everybody = choose(jobs.values(), jobs, "ola", operates=True)
    assert everybody.users == {"kim": 12, "ada": 1} or everybody.users["ada"] == 1
    assert everybody.others == 0


def test_50000_jobs_are_grouped_in_little_more_than_the_time_of_a_filter() -> None:
    jobs = [
        Job(id=n, label=f"{100_000 + n // 500}_{n % 500}" if n % 2 else str(n), state="RUNNING")
        for n in range(1, 50_001)
    ]
    listed: list[Any] = ordered(jobs, "id", down=True)
    test = parse("train")

    def filtered() -> list[Any]:
        return ordered([job for job in jobs if not test(job)], "id", down=True)

    assert growth(filtered, partial(page_of, listed, 0, 100, arrays=True)) < AT_MOST
