"""Of an entry's several causes the one is named that the log shows."""

from __future__ import annotations

import pytest

from corral.doctor.catalog import catalog
from corral.doctor.logs.diagnosis import explain, read
from corral.doctor.logs.narrower_causes import NarrowerCause, causes
from corral.doctor.model import LIVE
from corral.errors import CorralError
from corral.tables import parse_table

ROWS = [
    pytest.param(row, example, id=f"{row.failure}-{at}-{number}")
    for at, row in enumerate(causes())
    for number, example in enumerate(row.examples)
]


@pytest.mark.parametrize(("row", "example"), ROWS)
def test_each_cause_is_named_for_its_examples(row: NarrowerCause, example: str) -> None:
    finding = explain(example).findings[0]
    assert (finding.failure.id, finding.failure.cause) == (row.failure, row.cause)
    assert finding.failure.fix == row.fix
    assert not finding.general


@pytest.mark.parametrize(("row", "example"), ROWS)
def test_a_cluster_s_own_logs_choose_no_cause(row: NarrowerCause, example: str) -> None:
    """A user writes lines into them: the entry's own text stays."""
    for source in LIVE:
        for finding in read(example, source):
            assert finding.failure == catalog()[finding.failure.id], row.title


@pytest.mark.parametrize(
    "row", causes(), ids=[f"{row.failure}-{n}" for n, row in enumerate(causes())]
)
def test_every_row_is_complete(row: NarrowerCause) -> None:
    assert row.line or row.log
    for text in (row.cause, row.fix, row.title):
        assert text == text.strip()
        assert not text.endswith(".")
        assert "  " not in text
    for pattern in (*row.line, *row.log):
        assert not pattern.expression.search("")


def test_without_its_evidence_the_entry_keeps_its_causes() -> None:
    (finding,) = explain("sbatch: error: Invalid --frob specification\n").findings
    assert finding.failure == catalog()["F241"]


def test_a_message_of_several_causes_is_sure_once_one_is_shown() -> None:
    message = "RuntimeError: No CUDA GPUs are available\n"
    (vague,) = (f for f in explain(message).findings if f.failure.id == "F76")
    assert vague.general
    (sure,) = explain(f"CUDA_VISIBLE_DEVICES=NoDevFiles\n{message}").findings
    assert not sure.general
    assert "CUDA_VISIBLE_DEVICES" in sure.failure.title


def test_a_row_for_an_entry_that_is_not_there_is_refused() -> None:
    row = "- {failure: F9999, line: [frob], cause: a, fix: b, examples: [frob]}\n"
    with pytest.raises(CorralError, match="F9999 is not an entry"):
        parse_table(row, "narrower_causes.yaml", tuple[NarrowerCause, ...])
