"""Which jobs the page's timeline shows, and on which nodes."""

from __future__ import annotations

from corral.slurm.records import Job
from corral.slurm.rest.past_jobs import Past
from corral.web.slurm import job_timeline
from corral.web.slurm.job_timeline import timeline

NAMES = ("n0", "n1", "n2", "n3")


def job(number: int, state: str, nodes: str, start: int, end: int = 0) -> Job:
    return Job(number, str(number), "a", "kim", state, nodes=nodes, start_at=start, end_at=end)


def test_jobs_are_runs_of_nodes_the_newest_first() -> None:
    past = Past((job(1, "COMPLETED", "n[0-1,3]", 100, 900), job(2, "FAILED", "n2", 300, 400)))
    drawn = timeline(NAMES, [job(3, "RUNNING", "n[0-3]", 950, 5000)], past, 350)
    assert [(row["id"], row["kind"], row["runs"]) for row in drawn["jobs"]] == [
        (3, "busy", [(0, 3)]),
        (2, "bad", [(2, 2)]),
        (1, "good", [(0, 1), (3, 3)]),
    ]
    # The limit's end of a running job is not when it ended.
    assert [row["end_at"] for row in drawn["jobs"]] == [None, 400, 900]
    assert drawn["complete_from"] == 350
    assert not drawn["cut"]


def test_what_did_not_run_in_the_time_is_left_out() -> None:
    jobs = [
        job(1, "PENDING", "", 5000),  # when Slurm expects to start it
        job(2, "COMPLETED", "n1", 100, 300),
        job(3, "CANCELLED", "", 500, 500),
        job(4, "CANCELLED", "n1", 0, 500),
        job(5, "RUNNING", "n[1-", 500),
    ]
    assert timeline(NAMES, jobs, Past(()), 350)["jobs"] == []


def test_slurmctlds_record_is_newer_than_accountings() -> None:
    drawn = timeline(
        NAMES, [job(1, "FAILED", "n0", 400, 500)], Past((job(1, "COMPLETED", "n0", 1, 2),)), 350
    )
    assert [(row["state"], row["end_at"]) for row in drawn["jobs"]] == [("FAILED", 500)]


def test_a_node_that_is_gone_follows_those_that_are_there() -> None:
    drawn = timeline(NAMES, (), Past((job(1, "COMPLETED", "n3,rented7", 400, 500),)), 350)
    assert drawn["nodes"] == [*NAMES, "rented7"]
    assert drawn["jobs"][0]["runs"] == [(3, 4)]


def test_since_when_the_answer_is_complete() -> None:
    ended = (job(2, "COMPLETED", "n0", 700, 800), job(1, "COMPLETED", "n0", 500, 600))
    drawn = timeline(NAMES, (), Past(ended, cut=True), 350)
    assert (drawn["cut"], drawn["complete_from"]) == (True, 600)
    drawn = timeline(NAMES, (), Past(ended, cut=True), 650)
    assert (drawn["cut"], drawn["complete_from"]) == (False, 650)


def test_of_too_many_jobs_the_newest_are_drawn() -> None:
    many = [job(n, "RUNNING", "n0", n) for n in range(1, job_timeline.MOST + 3)]
    drawn = timeline(NAMES, many, Past(()), 350)
    assert drawn["cut"]
    assert [len(drawn["jobs"]), drawn["jobs"][-1]["id"]] == [job_timeline.MOST, 3]
