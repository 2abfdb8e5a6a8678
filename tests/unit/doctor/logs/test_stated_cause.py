"""A log that no entry accounts for is named by its own first error line that gives a reason."""

from __future__ import annotations

import pytest

from corral.doctor.catalog import catalog
from corral.doctor.logs.diagnosis import explain, read
from corral.doctor.logs.log_text import Line, LogText
from corral.doctor.logs.stated_cause import complete, message
from corral.doctor.model import LIVE

# Programs that do not exist: their messages are not in the catalogue.
KINDS = (
    ("F920", "frobd: fatal: protocol 4 of the peer is not compatible with protocol 7"),
    ("F921", "frob: error: cannot align /srv/frob: Permission denied"),
    ("F922", "frob ERROR dial 10.0.0.9:7001: connection refused"),
    ("F923", "frob: error: --left and --right are mutually exclusive"),
    ("F924", "frob: error: the maximum number of frobs (64) is exceeded"),
    ("F925", "frob: fatal: unknown parameter 'Alignmnt' in frob.ini line 3"),
    ("F926", "frobctl: error: /opt/frob/plan.bin: No such file or directory"),
    ("F927", "frob: error: alignment is not supported on this device"),
    (
        "F928",
        'Traceback (most recent call last):\n  File "/x/frob.py", line 3, in <module>\n'
        "frob.FrobError: the frob is at rest",
    ),
)


@pytest.mark.parametrize(("kind", "text"), KINDS)
def test_an_unseen_program_is_named_by_its_own_words(kind: str, text: str) -> None:
    report = explain(f"start\n{text}\nsrun: error: n1: task 0: Exited with exit code 1")
    assert [diagnosis.failure.id for diagnosis in report.findings] == [kind]
    assert text.rsplit("\n", maxsplit=1)[-1].split(": ", 1)[-1] in report.findings[0].evidence[0]


@pytest.mark.parametrize(("kind", "text"), KINDS)
def test_a_warning_with_the_same_words_is_no_cause(kind: str, text: str) -> None:
    last = text.rsplit("\n", maxsplit=1)[-1]
    assert kind not in [
        diagnosis.failure.id for diagnosis in explain(f"WARNING: {last}\nok\n").findings
    ]
    assert explain(f"2026-01-01 00:00:00 WARNING {last}\nok\n").findings == ()


def test_lines_are_counted_from_one() -> None:
    log = LogText("a\nb\n\nd")
    assert [log.line(number) for number in range(6)] == ["", "a", "b", "", "d", ""]


def test_what_only_ended_because_of_it_comes_later() -> None:
    text = (
        "make: *** [frob.o] Error 1\nfrob.service: Failed with result 'exit-code'.\n"
        "frob: error: Command frobctl returned non-zero exit status 2\n"
        "frobctl: error: key alignment must be an integer\n"
        "frobctl: error: plan not found\n"
    )
    (diagnosis,) = explain(text).findings
    assert (diagnosis.failure.id, diagnosis.line) == ("F925", 4)


def test_the_last_part_of_a_message_is_its_reason() -> None:
    text = "frob: error: could not connect to the plan: the URL is invalid"
    assert explain(text).findings[0].failure.id == "F925"


def test_an_exception_that_was_handled_is_not_the_first_cause() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/x/a.py", line 3, in get\n'
        "lib.PlanError: plan not found\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/x/a.py", line 9, in main\n'
        "lib.AlignError: the plan server has an unsupported version\n"
    )
    (diagnosis,) = explain(text).findings
    assert (diagnosis.failure.id, diagnosis.line) == ("F920", 9)


def test_a_known_failure_is_the_only_one() -> None:
    text = "frob: error: plan not found\nslurmd: error: Node n1 has low real_memory size (1 < 2)"
    assert [diagnosis.failure.id for diagnosis in explain(text).findings] == ["F07"]


def test_a_line_after_a_consequence_follows_from_it_too() -> None:
    text = (
        "[rank1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)\n"
        "frob.FrobError: peer not found\n"
    )
    assert "F926" not in [diagnosis.failure.id for diagnosis in explain(text).findings]


def test_a_consequence_that_gives_its_reason_is_read() -> None:
    text = "FATAL:   container creation failed: open /etc/resolv.conf: no such file or directory"
    assert [diagnosis.failure.id for diagnosis in explain(text).findings] == ["F926", "F140"]


def test_a_line_that_an_entry_calls_a_warning_is_not_read_by_kind() -> None:
    """slurmctld prints values that it ignores as errors; what follows them is still read."""
    ignored = "slurmctld: error: Ignoring invalid Allow/DenyQOS value: long"
    assert [diagnosis.failure.id for diagnosis in explain(ignored).findings] == ["F1027"]
    text = f"{ignored}\nfrob: fatal: unknown parameter 'Alignmnt' in frob.ini line 3"
    assert [(diagnosis.failure.id, diagnosis.line) for diagnosis in explain(text).findings] == [
        ("F925", 2),
        ("F1027", 1),
    ]


def test_on_a_cluster_nothing_is_read_by_kind() -> None:
    """Any user can make a daemon print such words."""
    kinds = {failure.id for failure in catalog().values() if failure.stated}
    assert len(kinds) == 11
    text = "\n".join(text for _, text in KINDS)
    for source in LIVE:
        assert not kinds & {diagnosis.failure.id for diagnosis in read(text, source)}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("[2026-01-01T00:00:00.000] error: plan missing", "plan missing"),
        ("Jan 01 00:00:00 n1 frobd[7]: frobd: fatal: plan missing", "plan missing"),
        ("run.sh: 18: source: not found", "run.sh: 18: source: not found"),
        ("lib.FrobError: plan missing", "lib.FrobError: plan missing"),
    ],
)
def test_a_message_is_shown_without_time_and_level(line: str, shown: str) -> None:
    assert message(line) == shown


def test_a_log_without_an_error_is_not_called_healthy_where_lines_may_report_trouble() -> None:
    report = explain("srun: Job 7 step creation still disabled, retrying (busy)\nok\n")
    assert report.healthy
    assert explain("job 7 done WTERMSIG 9\n").notable[0].number == 1
    assert explain("no error here\n").notable == ()


FRAME = """\
Traceback (most recent call last):
  File "/x/frob.py", line 3, in lock
    fcntl.flock(file, mode)
OSError: [Errno 9] Bad file descriptor
"""


def test_an_exception_is_read_with_the_call_that_raised_it() -> None:
    log = LogText(FRAME)
    line = Line(4, log.line(4))
    assert complete(log, line) == f"{line.text} <= lock: fcntl.flock(file, mode)"
    (diagnosis,) = explain(FRAME).findings
    assert diagnosis.failure.title == (
        "the file system does not lock files: errno 9 (bad file descriptor)"
    )
    marked = FRAME.replace("OSError", "    ^^^^^^^^^^^\nOSError")
    assert explain(marked).findings[0].failure == diagnosis.failure
    other = explain(FRAME.replace("fcntl.flock(file, mode)", "frob.align(file)"))
    assert other.findings[0].failure.id == "F928"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (
            "Caused by:\n  Invalid FROB submit response:\n42 frobbed\n",
            "the workflow engine does not understand the answer of the submit command: "
            '"42 frobbed"',
        ),
        (
            " >> 110    configure: error:\n   111    no frobs found\n",
            'configure ends: "no frobs found"',
        ),
        (
            "+ grep frob\nFrobs not yet prepared\n+ exit 1\n",
            'the script ends itself with status 1 after this: "Frobs not yet prepared"',
        ),
    ],
)
def test_a_line_is_read_with_the_one_that_completes_it(text: str, title: str) -> None:
    assert explain(text).findings[0].failure.title == title


def test_a_warning_whose_message_is_known_counts_where_no_error_does() -> None:
    warning = "2016-01-14 frob WARNING - Failed to parse file. Is the parser correct?\n"
    (diagnosis,) = explain(f"ok\n{warning}").findings
    assert (diagnosis.failure.id, diagnosis.line) == ("F925", 2)
    error = "frob: error: cannot align /srv/frob: Permission denied\n"
    assert explain(warning + error).findings[0].failure.id == "F921"


def test_a_general_reading_leaves_the_causes_to_the_kind_of_its_reason() -> None:
    (diagnosis,) = explain("frob: error: cannot align the plan: Permission denied\n").findings
    assert diagnosis.failure.title == '"align the plan" fails: "Permission denied"'
    assert diagnosis.failure.cause == catalog()["F921"].cause


@pytest.mark.parametrize(
    "line",
    [
        "Copying blob 9088cdb84e39 skipped: already exists",
        "/sbin/ldconfig: Can't create temporary cache file /etc/ld.so.cache~: Permission denied",
        "warning: the compiler differs from the one used to build the kernel",
    ],
)
def test_a_harmless_line_is_no_cause(line: str) -> None:
    assert explain(f"{line}\n").healthy
    cause = "FrobBLAS blas_thread_init: pthread_create: Resource temporarily unavailable"
    assert explain(f"{line}\n{cause}\n").findings[0].line == 2


def test_a_collective_that_waited_is_not_read_as_a_connection() -> None:
    """The output of tests/embedded/test_doctor_jobs.py's job whose one rank hangs."""
    log = (
        "[rank0]: Traceback (most recent call last):\n"
        "[rank0]: RuntimeError: [./gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
        "15000ms for recv operation to complete\n"
        "srun: error: node0: task 0: Exited with exit code 1\n"
    )
    assert [finding.failure.id for finding in explain(log).findings] == ["F88"]


def test_lines_that_only_look_like_errors_are_explained_where_nothing_else_is_found() -> None:
    notice = "slurmdbd: error: Database settings not recommended values: innodb_buffer_pool_size\n"
    report = explain(f"slurmdbd: started\n{notice}")
    assert report.healthy
    assert [(n.number, n.why) for n in report.notices] == [
        (2, "notices of Slurm's daemons; they run as well")
    ]
    assert report.as_dict()["notices"]
    assert not explain(f"{notice}slurmdbd: fatal: frobnicator 7 has no alignment\n").notices


@pytest.mark.parametrize(
    "text",
    [
        "INFO LayerNorm is needed by Block\nINFO done\n",
        "the lock is needed by frob-1.0\ndone\n",
        "gitlab: user bob has no account\n",
        "gitlab: user bob doesn't have an account\n",
        "sshd: pam_session: opened for bob\n",
        "(debug) fetch failed: Connection refused\n",
        "frob 'debug' fetch failed: Connection refused\n",
        "DEBUG: fetch failed: Connection refused\n",
        "frob debug, fetch failed: Connection refused\n",
    ],
)
def test_words_of_another_program_or_level_are_no_cause(text: str) -> None:
    assert explain(text).findings == ()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("        frob >= 2.0 is needed by (installed) grab-1.0-3.el9.noarch\n", "F926"),
        ("slurmctld[7]: error: user bob has no default account\n", "F167"),
        ("slurmstepd: error: pam_session: Permission denied\n", "F921"),
        ("frob: error: unknown parameter 'x', known ones: slurm, debug.\n", "F925"),
        ("frob: error: unknown parameter 'x' (known: slurm, 'debug').\n", "F925"),
    ],
)
def test_a_message_like_them_keeps_its_cause(text: str, kind: str) -> None:
    assert kind in [finding.failure.id for finding in explain(text).findings]


def test_a_session_of_another_program_is_not_slurm_s() -> None:
    of_slurm = "slurmstepd: error: pam_session: Permission denied\n"
    assert "PAM refuses" in explain(of_slurm).findings[0].failure.title
    (other,) = explain("sshd: error: pam_session: Permission denied\n").findings
    assert "PAM refuses" not in other.failure.title
