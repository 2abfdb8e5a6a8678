"""The answer of a check that disproves a message about the same object, and no other answer."""

from __future__ import annotations

import pytest

from corral.doctor.logs.counter_evidence import table
from corral.doctor.logs.diagnosis import explain
from corral.doctor.model import Severity

CLOSED = 'munge: Error: Failed to access "/var/run/munge/munge.socket.2": Permission denied'
OPEN = "srwxrwxrwx. 1 munge munge 0 Feb 18 13:02 {}"
UNKNOWN = 'sbatch: error: Unable to resolve "ctl1.lab.example": Unknown host'
REFUSED = "ssh: connect to host node3 port 22: Connection refused"
DISPROVED = [
    (CLOSED, OPEN.format("/run/munge/munge.socket.2"), "F162"),
    (CLOSED, OPEN.format("/var/run/munge/munge.socket.2"), "F162"),
    (UNKNOWN, "10.1.1.2        ctl1.lab.example", "F05"),
    (UNKNOWN, "10.1.1.2        STREAM ctl1.lab.example", "F05"),
    (UNKNOWN, "ctl1.lab.example has address 10.1.1.2", "F05"),
    (UNKNOWN, "PING ctl1.lab.example (10.1.1.2) 56(84) bytes of data.", "F05"),
    (REFUSED, "Connection to node3 22 port [tcp/ssh] succeeded!", "F2167"),
    (REFUSED, "Connection to node3 (10.0.0.3) 22 port [tcp/ssh] succeeded!", "F2167"),
]
LEFT = [
    (CLOSED, OPEN.format("/run/other/munge.socket.2"), "F162"),
    (CLOSED, "srwx------ 1 munge munge 0 Feb 18 13:02 /run/munge/munge.socket.2", "F162"),
    (
        CLOSED,
        "drwx------ 2 munge munge 100 Feb 1 08:02 /run/munge\n"
        + OPEN.format("/run/munge/munge.socket.2"),
        "F162",
    ),
    (UNKNOWN, "10.1.1.3        ctl2.lab.example", "F05"),
    (UNKNOWN, "10.1.1.2        ctl1.lab.example.org", "F05"),
    (REFUSED, "Connection to node3 6818 port [tcp/*] succeeded!", "F2167"),
    (UNKNOWN, "[ana@ctl1 ~]$ getent hosts ctl1.lab.example\n10.1.1.2   ctl1.lab.example", "F05"),
    (REFUSED, "Connection to node30 22 port [tcp/ssh] succeeded!", "F2167"),
]


@pytest.mark.parametrize(("message", "check", "failure"), DISPROVED)
def test_a_disproved_message_is_no_cause(message: str, check: str, failure: str) -> None:
    prompt = "[ana@n1 ~]$ "
    prompted = f"{prompt}sbatch job.sh\n{message}\n{prompt}check\n{check}"
    for log in (f"{message}\n{check}", f"{check}\n{message}", prompted):
        (finding,) = explain(log).findings
        assert finding.failure.id == failure
        assert finding.contrary == check
        assert finding.severity is Severity.SYMPTOM
        assert finding.as_dict()["contrary"] == check


@pytest.mark.parametrize(("message", "check", "failure"), LEFT)
def test_a_check_of_something_else_disproves_nothing(
    message: str, check: str, failure: str
) -> None:
    (finding,) = explain(f"[ana@n1 ~]$ sbatch job.sh\n{message}\n{check}").findings
    assert (finding.failure.id, finding.contrary, finding.severity) == (failure, "", Severity.ERROR)


def test_a_real_cause_comes_before_a_disproved_one() -> None:
    log = f"{UNKNOWN}\n10.1.1.2   ctl1.lab.example\nslurmctld: fatal: CLUSTER NAME MISMATCH."
    assert [finding.contrary != "" for finding in explain(log).findings][:1] == [False]


def test_every_row_is_tried() -> None:
    claims = [
        [any(p.expression.search(message) for p in row.claim) for message, _, _ in DISPROVED]
        for row in table()
    ]
    assert all(any(row) for row in claims)
