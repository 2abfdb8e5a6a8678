"""Why a job failed: its last lines and Slurm's record of its end are one text for the catalogue."""

from __future__ import annotations

import pytest

from corral.doctor.job_end import end_line, explain_end
from corral.slurm.states.jobs import ExitCode

TRACEBACK = """\
Traceback (most recent call last):
  File "/shared/train.py", line 3, in <module>
    main()
ValueError: no such thing
"""
CASES = {
    "no output folder": ("FAILED", "RaisedSignal:53(Real-time_signal_19)", "0:53", "", "F570"),
    "memory, and no word in the log": ("OUT_OF_MEMORY", "OutOfMemory", "0:125", "epoch 1", "F90"),
    "a killed process explains itself by it": ("OUT_OF_MEMORY", "", "0:125", "Killed", "F90"),
    "time": ("TIMEOUT", "TimeLimit", "0:0", "epoch 1", "F91"),
    "node": ("NODE_FAIL", "NodeDown", "1:0", "", "F190"),
    "preempted": ("PREEMPTED", "None", "0:0", TRACEBACK, "F189"),
    "cancelled": ("CANCELLED", "None", "0:15", "", "F191"),
    "a deadline": ("DEADLINE", "DeadLine", "0:0", "", "F1490"),
    "the program's own": ("FAILED", "NonZeroExitCode", "1:0", TRACEBACK, "F106"),
    "no command": ("FAILED", "NonZeroExitCode", "127:0", "job.sh: line 5: tain: command not found",
                   "F170"),
}  # fmt: skip


@pytest.mark.parametrize(("state", "reason", "code", "text", "expected"), CASES.values(), ids=CASES)
def test_the_end_of_a_job_is_explained(
    state: str, reason: str, code: str, text: str, expected: str
) -> None:
    report = explain_end(state, reason, ExitCode.parse(code), text)
    assert report.findings[0].failure.id == expected


@pytest.mark.parametrize("text", ["", "epoch 1\nepoch 2"])
def test_an_exit_status_alone_is_no_cause(text: str) -> None:
    report = explain_end("FAILED", "NonZeroExitCode", ExitCode(1), text)
    assert (report.findings, report.unknown, report.notable) == ((), (), ())


def test_lines_of_the_job_are_named_where_no_failure_is_known() -> None:
    report = explain_end("FAILED", "NonZeroExitCode", ExitCode(1), "epoch 1\nFAILED to frob\nend")
    assert [line.text for line in report.unknown] == ["FAILED to frob"]


def test_nothing_that_a_terminal_or_a_page_obeys_is_in_a_line() -> None:
    text = TRACEBACK.replace("no such", "\x1b[31mno\x1b[0m \x1b]0;title\x07\u202e<b>such\x00")
    (finding,) = explain_end("FAILED", "", ExitCode(1), text).findings
    assert finding.evidence[0].startswith("ValueError: no ")
    shown = "".join([*finding.evidence, finding.detail])
    assert shown.isprintable() and "[31m" not in shown and "<b>such" in shown


def test_a_reason_is_one_line_of_the_record() -> None:
    assert end_line("FAILED", "a\nb  c", None) == "JobState=FAILED Reason=a b c"
    assert end_line("FAILED", "", ExitCode(0, 9)) == "JobState=FAILED Reason=None ExitCode=0:9"
