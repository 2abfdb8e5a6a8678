"""Reports of Corral's own programs in the log of a job: no other line is one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from corral.api.workload.job_reports import VARIABLE, JobReports
from corral.jobs.follow import RankLine
from corral.jobs.model import JobSpec
from corral.prove.fabric.benchmark_log import _OWN
from corral.prove.measure.measurement import MARK, results_of

JOB = JobSpec(script="x.py", env={"NCCL_DEBUG": "INFO"})


def read(reports: JobReports, text: str) -> list[dict[str, object]]:
    return results_of([reports.line(RankLine(0, text)).text], "speed")


def test_a_program_reports_by_the_word_of_its_job() -> None:
    reports = JobReports()
    env = reports.job(JOB).env
    assert env["NCCL_DEBUG"] == "INFO"
    assert read(reports, f'0: {env[VARIABLE]}speed {{"ranks": 2}}') == [{"ranks": 2}]
    assert JobReports().job(JOB).env[VARIABLE] != env[VARIABLE]


@given(st.text(), st.sampled_from(["", MARK, "corral-0 ", f"corral-{0:032x} "]))
def test_other_lines_report_nothing(text: str, mark: str) -> None:
    reports = JobReports()
    assert read(reports, f'{text}{mark}speed {{"ranks": 9}}') == []


def test_a_pasted_log_of_such_a_job_is_read() -> None:
    word = JobReports().job(JOB).env[VARIABLE]
    assert _OWN.split(f"0: {word}bench {{}}", maxsplit=1)[1] == "{}"
