"""A usage error has the command that is probably meant."""

from __future__ import annotations

import re

import pytest

from corral.cli.main import VERBS, load_verb
from corral.cli.terminal.usage import in_words, words_of_others
from tests.unit.cli.conftest import Run


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("plam lab.yaml", "corral plan lab.yaml"),
        ("keys rotat lab", "corral keys rotate lab"),
        ("run train.py --node 2", "corral run train.py --nodes 2"),
        ("run train.py --node=2", "corral run train.py --nodes=2"),
        ("squeue", "corral jobs"),
        ("run x.sh --ntasks-per-node=4", "--ranks-per-node N"),
        ("run x.sh --reservation=class", "--sbatch=--reservation=class"),
        ("drain gpu0", "corral drain gpu0 --reason 'new memory'"),
        ("ui lab.yaml --port 99999", "Invalid value '99999' for '--port'"),
        ("ui lab.yaml --port=99999", "Invalid value '99999' for '--port'"),
    ],
)
def test_what_is_meant_is_shown(line: str, meant: str, corral: Run) -> None:
    ended = corral(*line.split())
    assert ended.exit_code == 2
    assert meant in " ".join(ended.stderr.split())


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("Input should be a valid integer, unable to parse string", "it must be an integer"),
        ("Input should be a valid number, unable to parse", "it must be a number"),
        ("x: Input should be greater than or equal to 1", "x: it must be at least 1"),
        ("Input should be less than 5", "it must be less than 5"),
        ("No such option: --x", "No such option: --x"),
    ],
)
def test_messages_of_the_parser_in_words(message: str, words: str) -> None:
    assert in_words(message) == words


def test_other_names_are_of_commands_that_there_are() -> None:
    for name, command in words_of_others().verbs.items():
        assert name not in VERBS
        verb = command.split()[1]
        assert verb in VERBS or verb in {"--version", "--help"}


def test_slurms_options_are_options_of_run() -> None:
    known = {option for parameter in load_verb("run").params for option in parameter.opts}
    for name, ours in words_of_others().options.items():
        assert name not in known
        assert set(re.findall(r"--[a-z-]+", ours)) <= known


def test_an_option_after_a_verbs_words_with_dashes_is_the_jobs(corral: Run) -> None:
    ended = corral("run", "--nodes", "two", "--", "prog", "--nodes", "9")
    assert "Invalid value 'two'" in ended.stderr
