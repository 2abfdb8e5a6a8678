"""The reference page and shell completion come from the commands themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.cli import file_reference
from corral.cli.main import VERBS
from corral.cli.reference import page
from corral.jobs.model import JobSpec
from corral.prove.advice.run_file import TrainingFile

from .conftest import Run

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def test_the_page_is_current() -> None:
    assert page() == PAGE.read_text(), (
        "re-create it: python -m corral.cli.reference > docs/reference/cli.md"
    )


def test_the_page_of_job_and_training_files_is_current() -> None:
    text = file_reference.page()
    assert text == PAGE.with_name("files.md").read_text(), (
        "re-create it: python -m corral.cli.file_reference > docs/reference/files.md"
    )
    for model in (JobSpec, TrainingFile):
        missing = [name for name in model.model_fields if f"| `{name}" not in text]
        assert missing == []
    assert "| `links[].gbps` | number" in text


def test_the_page_has_every_verb() -> None:
    text = page()
    assert all(f"\n## corral {verb}\n" in text for verb in VERBS)
    assert "\n### corral image build\n" in text


def test_completion_of_verbs(corral: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_CORRAL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "corral st")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert corral().stdout.split() == ["status"]


def test_completion_of_a_verbs_options(corral: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_CORRAL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "corral prove --ver")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert corral().stdout.split() == ["--verbose"]
