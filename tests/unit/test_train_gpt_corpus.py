"""The text that examples/train_gpt trains on; numpy is not asked for by what is tested here."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest

FILE = Path(__file__).parents[2] / "examples/train_gpt/corpus.py"


def test_one_file_of_text_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training on two H200 ended with "cannot mmap an empty file": all text was for the test."""
    monkeypatch.setitem(sys.modules, "numpy", MagicMock())
    spec = importlib.util.spec_from_file_location("train_gpt_corpus", FILE)
    assert spec is not None
    assert spec.loader is not None
    corpus = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(corpus)
    text = tmp_path / "text.txt"
    text.write_bytes(b"abcdefghij" * 100)
    corpus.prepare(tmp_path / "data", text)
    about = json.loads((tmp_path / "data/corpus.json").read_text())
    assert 800 < about["train"]["bytes"] < 950
    assert about["train"]["bytes"] + about["test"]["bytes"] == 1001
