"""Logs that no rule knows are never healthy, and harmless lines make no log ill."""

from __future__ import annotations

import pytest

from corral.doctor.logs.diagnosis import explain
from corral.doctor.logs.fatal_lines import fatal_table, harmless

UNKNOWN = (
    "[2026-11-23T10:00:00.000] fatal: the frobnicator is not aligned",
    "error: frobnicator 7 has no alignment",
    "myprog: ERROR frobnication stopped",
    "srun: error: node3: task 4: Exited with exit code 9",
    "subprocess.CalledProcessError: Command 'frob' returned non-zero exit status 3.",
    "panic: runtime error: index out of range [3] with length 3",
    "SCR v3.0.0 ERROR: rank 0 on gpu180: frobnication stopped",
    "+ exit 1",
    'Fatal exception\nTraceback (most recent call last):\n  File "x.py"\nlib.FrobTimeout: no',
    "foo.service: Main process exited, code=exited, status=7/NOTRUNNING",
    "foo.service: Failed with result 'exit-code'.",
    "2026-11-23 10:00:00 CRITICAL frobnicator stopped",
    "host:1:2 [0] x.cc:9 NCCL WARN frobnicator is not aligned",
    "NVRM: Xid (PCI:0000:3b:00): 777, pid=1, frobnication",
    'time=2026-11-23T10:00:00Z level=error msg="frobnicator stopped"',
    "frob: connect to frobd: Operation not permitted",
    'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nlib.FrobError: no',
)
TRACE = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/work/train.py", line 40, in <module>
[rank1]:     main()
[rank0]: Traceback (most recent call last):
[rank0]:   File "/work/train.py", line 12, in load
[rank0]:     raise OSError
[rank1]:   File "/opt/lib/python3.12/site-packages/lib/dict.py", line 7, in get
[rank1]:     return self[key]
[rank1]: KeyError: 'labels'
[rank0]: lib.FrobError: rank 1 is gone
[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)
srun: error: n1: task 1: Exited with exit code 1
"""


@pytest.mark.parametrize("line", UNKNOWN)
def test_a_log_with_an_error_that_nobody_knows_is_not_healthy(line: str) -> None:
    report = explain(f"step 1 ok\nstep 2 ok\n{line}\ndone\n")
    assert not report.healthy
    assert [entry.failure.id for entry in report.findings if not entry.failure.stated] == []
    assert 3 in {
        *(entry.line for entry in report.findings),
        *(entry.number for entry in report.unknown),
    }


def test_a_programs_own_error_is_named_as_such_with_its_place() -> None:
    (diagnosis,) = explain(TRACE).findings
    assert diagnosis.failure.name == "program-error"
    assert diagnosis.detail == "KeyError: 'labels' at /work/train.py line 40"
    assert diagnosis.line == 9


@pytest.mark.parametrize(
    "file",
    [
        "/opt/azurehpc/slurm/venv/lib/python3.8/site-packages/slurmcc/cli.py",
        "/slurm/scripts/resume.py",
        "/opt/parallelcluster/pyenv/versions/node/lib/slurm_plugin/clustermgtd.py",
        "/usr/lib/python3/dist-packages/cloudinit/cmd/main.py",
        "/usr/bin/ansible-playbook",
    ],
)
def test_an_exception_of_a_management_program_is_not_the_jobs(file: str) -> None:
    text = f'Traceback (most recent call last):\n  File "{file}", line 3, in main\nKeyError: 12\n'
    (finding,) = explain(text).findings
    assert (finding.failure.name, finding.detail) == (
        "management-tool-error",
        f"KeyError: 12 at {file} line 3",
    )


@pytest.mark.parametrize(
    "file", ["/u/ana/slurm/train.py", "/shared/salt.py", "/u/ana/ansible_net/fit.py"]
)
def test_an_exception_of_a_jobs_program_is_its_own(file: str) -> None:
    text = f'Traceback (most recent call last):\n  File "{file}", line 3, in main\nKeyError: 12\n'
    assert [f.failure.name for f in explain(text).findings] == ["program-error"]


def test_an_exception_that_a_failure_explains_is_not_the_programs_own() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 3, in <module>\n'
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment "
        "variable RANK expected, but not set\n"
    )
    assert [f.failure.name for f in explain(text).findings] == ["launcher-missing"]


HARMLESS = (
    "slurmctld: error: Configured MailProg is invalid",
    "[2026-01-01T00:00:00.000] error: Could not open job state file /var/spool/slurmctld/job_state:"
    " No such file or directory",
    "n1:1:1 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal",
    "[W1123 03:47:03.601536917 socket.cpp:752] [c10d] The client socket cannot be initialized to "
    "connect to [localhost]:29500 (errno: 97 - Address family not supported by protocol).",
    "ERROR: pip's dependency resolver does not currently take into account all the packages",
    "E0000 00:00:1731 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register",
    "train.py:12: FutureWarning: error: torch.load with weights_only=False",
    "# Out of bounds values : 0 OK",
    "test: 10 passed, 0 failed, 0 errors",
)


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_lines_make_no_log_ill(line: str) -> None:
    assert explain(f"begin\n{line}\nend\n").healthy


def test_each_kind_of_harmless_line_has_its_reason() -> None:
    for entry in fatal_table().harmless:
        assert entry.patterns
        assert len(entry.why) > 6
    assert not harmless("error: frobnicator 7 has no alignment")


def test_a_number_before_failed_is_not_always_a_count() -> None:
    """The step 9.0 that failed was taken for "0 failed"."""
    line = "srun: error: Task launch for StepId=9.0 failed on node n1: Unspecified error"
    assert not harmless(line)
    assert not explain(line).healthy
    assert harmless("tests: error summary: 12 passed, 0 failed")


def test_an_error_that_quotes_a_warning_is_an_error() -> None:
    line = "harness: ERROR: unexpected text: 'bash: warning: shell level (1000) too high'"
    assert not harmless(line)
    assert harmless("train.py:12: FutureWarning: error: torch.load with weights_only=False")
