"""Messages that no entry of the catalogue has are read: who needs what, which file, which host."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corral.doctor.catalog import catalog
from corral.doctor.logs.diagnosis import explain, read
from corral.doctor.logs.message_reader import LONGEST_PART, Reading, read_message, readings
from corral.doctor.model import LIVE, Severity
from corral.errors import CorralError
from corral.tables import parse_table

EXAMPLES = [
    pytest.param(reading, line, sentence, id=f"{reading.name}-{number}")
    for reading in readings()
    for number, (line, sentence) in enumerate(reading.examples.items())
]
LEAST = 100
"""Readings: fewer would be a table that was lost."""
# Messages whose parts a user can choose, and the part.
CHOSEN = (
    "frob: cannot stat '{}': No such file or directory",
    "frob: error while loading shared libraries: {}: cannot open shared object file",
    "srun: error: Unable to allocate resources: {}",
    "fatal: [{}]: UNREACHABLE! => bent",
    "RuntimeError: CUDA error: {}",
)


@pytest.mark.parametrize(("reading", "line", "sentence"), EXAMPLES)
def test_a_message_is_read(reading: Reading, line: str, sentence: str) -> None:
    message = read_message(line)
    assert message is not None
    assert (message.reading.name, message.sentence) == (reading.name, sentence)


@pytest.mark.parametrize(("reading", "line", "sentence"), EXAMPLES)
def test_it_is_the_cause_of_a_log_that_no_entry_accounts_for(
    reading: Reading, line: str, sentence: str
) -> None:
    report = explain(f"step 1 ok\n{line}\nsrun: error: n1: task 0: Exited with exit code 1\n")
    assert not report.healthy
    first = report.findings[0]
    assert first.line == 2
    if not first.failure.stated:
        assert first.detail in (sentence, "") or first.failure.severity is Severity.WARNING
        return
    assert first.failure.title == sentence
    assert (first.failure.cause, first.failure.fix) == (reading.why, reading.fix)


def test_a_known_failure_is_shown_with_what_its_line_reports() -> None:
    (finding,) = explain("bash: ./frob: cannot execute binary file: Exec format error\n").findings
    assert not finding.failure.stated
    assert finding.detail == '"./frob" is not a program or library for this machine'


@pytest.mark.parametrize("reading", readings(), ids=[reading.name for reading in readings()])
def test_a_reading_makes_a_kind_of_message_more_precise(reading: Reading) -> None:
    assert catalog()[reading.kind].stated


def test_many_readings_are_of_messages_that_no_entry_has() -> None:
    """Otherwise their test above would mean nothing."""
    lines = [line for reading in readings() for line in reading.examples]
    unknown = [line for line in lines if not read(line)]
    assert len(lines) >= LEAST
    assert len(unknown) >= 40
    assert len({reading.name for reading in readings()}) == len(readings())


@given(st.text(min_size=1, max_size=300), st.sampled_from(CHOSEN))
@example("\x1b[31m$(reboot)\x07", CHOSEN[0])
@example("a\u202eb\u2066c\x85d", CHOSEN[2])
def test_a_part_of_a_log_cannot_leave_its_quotes(part: str, message: str) -> None:
    message_read = read_message(message.format(part))
    if message_read is None:
        return
    sentence = message_read.sentence
    assert not [c for c in sentence if unicodedata.category(c) in ("Cc", "Zl", "Zp")]
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", sentence)
    assert len(sentence) < 2 * LONGEST_PART + 200
    assert sentence.count('"') in range(0, 2 * message_read.reading.sentence.count("{") + 1, 2)


@given(st.text(min_size=1, max_size=80), st.sampled_from(CHOSEN))
def test_what_to_do_has_no_word_of_the_log(part: str, message: str) -> None:
    message_read = read_message(message.format(part))
    if message_read is not None:
        assert message_read.failure.fix == message_read.reading.fix
        assert message_read.failure.cause == message_read.reading.why


BROKEN = """\
- name: frob
  kind: F926
  patterns: ['frob <file> is bent']
  sentence: '{file} is bent'
  why: it was bent
  fix: rm {file}
  examples: {'frob x is bent': '"x" is bent'}
"""


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("x", "x", "only the sentence may repeat"),
        ("frob <file>", "frob", "has no <file>, which its sentence repeats"),
        ("<file> is", "<file>+ is", "that is not linear"),
        ("F926", "926", "kind"),
    ],
)
def test_a_table_with_a_fault_is_refused_with_its_place(
    before: str, after: str, message: str
) -> None:
    text = BROKEN.replace(before, after)
    text = text if message.startswith("only") else text.replace("rm {file}", "rm FILE")
    with pytest.raises(CorralError, match=r"readings\.yaml:\d+:\d+: ") as caught:
        parse_table(text, "readings.yaml", tuple[Reading, ...])
    assert message in str(caught.value)


def test_on_a_cluster_no_message_is_read() -> None:
    text = "\n".join(line for reading in readings() for line in reading.examples)
    for source in LIVE:
        assert not [finding for finding in read(text, source) if finding.failure.stated]


CHAIN = """\
Traceback (most recent call last):
  File "/x/frob.py", line 3, in get
{first}

{between}

Traceback (most recent call last):
  File "/x/frob.py", line 9, in main
{last}
"""
CAUSED = "The above exception was the direct cause of the following exception:"
HANDLED = "During handling of the above exception, another exception occurred:"
REFUSED = "frob.OSError: [Errno 133] Frob is bent: '/data/frob'"


@pytest.mark.parametrize(
    ("first", "between", "last", "line"),
    [
        ("frob.PlanError: no plan", CAUSED, "frob.StartError: not started", 3),
        (REFUSED, HANDLED, "frob.StartError: not started", 3),
        ("frob.PlanError: plan not message_read", HANDLED, REFUSED, 9),
    ],
)
def test_the_root_of_a_chain_of_exceptions_is_named(
    first: str, between: str, last: str, line: int
) -> None:
    (finding,) = explain(CHAIN.format(first=first, between=between, last=last)).findings
    assert finding.line == line


@pytest.mark.parametrize(
    "follows",
    [
        "ninja: build stopped: subcommand failed.",
        "collect2: error: ld returned 1 exit status",
        "error: subprocess-exited-with-error",
        "make[1]: *** [Makefile:3: frob.o] Error 1",
        "srun: error: n1: task 0: Exited with exit code 1",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    ],
)
def test_what_follows_from_an_error_is_not_its_cause(follows: str) -> None:
    text = f"{follows}\nfrob: error: cannot align /srv/frob: Permission denied\n"
    titles = [finding.failure.title for finding in explain(text).findings]
    assert 'this user may not do that with "/srv/frob"' in titles
    assert follows not in explain(text).findings[0].detail


def test_the_first_error_line_is_shown_where_nothing_reads_it() -> None:
    report = explain("ok\nfrobd: error: frobnicator 7 has no alignment\nfrobd: error: more of it\n")
    (finding,) = report.findings
    assert (finding.failure.id, finding.line) == ("F939", 2)
    assert finding.detail == "frobnicator 7 has no alignment"
    assert finding.severity is Severity.SYMPTOM
    assert [line.number for line in report.unknown] == [2, 3]


def test_a_line_of_source_is_not_its_message() -> None:
    source = 'w0:     raise Frob(f"Failed to connect to {x}: bent")'
    report = explain(f"{source}\nw0: FrobError: Failed to align it: bent\n")
    assert report.findings[0].line == 2
