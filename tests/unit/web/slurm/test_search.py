"""Which jobs a query of the page means."""

from __future__ import annotations

import pytest

from corral.slurm.records import Job
from corral.web.slurm.search import parse

JOBS = (
    Job(id=1, label="1", name="train", user="kim", account="lab", state="RUNNING"),
    Job(id=2, label="2", name="corral-prove", user="corral-proof", account="corral-proof"),
)


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", [1]),
        ("train", [1]),
        ("corral-prove", []),
        ("user=corral-proof", [2]),
        ("Account=Corral-Proof", [2]),
        ("user!=corral-proof", [1]),
        ("user=kim,corral-proof", [1, 2]),
    ],
)
def test_corrals_own_jobs_are_listed_where_the_query_names_them(
    query: str, numbers: list[int]
) -> None:
    test = parse(query)
    assert [job.id for job in JOBS if test(job)] == numbers
