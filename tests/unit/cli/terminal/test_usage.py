"""A usage error has the command that is probably meant."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from corral.cli.main import VERBS, load_verb
from corral.cli.terminal.correction import accepted
from corral.cli.terminal.slurm_options import slurm_options, words_of_others
from corral.cli.terminal.usage import in_words
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
    words = words_of_others()
    for name, ours in words.options.items():
        assert f"--{name}" not in known or ours.startswith(f"--{name} ")
        assert set(re.findall(r"--?[a-z-]+", ours)) <= known
    for name in (*words.options, *words.reasons, *(letter.option for letter in words.letters)):
        assert f"--{name}" in slurm_options(), name
    assert {letter.letter for letter in words.letters} == {
        option.short
        for name, option in slurm_options().items()
        if name == f"-{option.short}" and name in known and f"--{option.name}" not in known
    } - {"G"}, "letters with another meaning here"


def test_an_option_after_a_verbs_words_with_dashes_is_the_jobs(corral: Run) -> None:
    ended = corral("run", "--nodes", "two", "--", "prog", "--nodes", "9")
    assert "Invalid value 'two'" in ended.stderr


CORPUS = yaml.safe_load(
    (Path(__file__).parents[3] / "corpora" / "mistakes" / "slurm_options.yaml").read_text()
)
LINE = "corral run train.py"


def shown(ended: Result) -> str:
    return " ".join(ended.stderr.split())


@pytest.mark.parametrize(("given", "ours"), CORPUS["translated"].items())
def test_an_option_of_slurm_has_its_translation(given: str, ours: str, corral: Run) -> None:
    """``corral run train.py -N2 -n 4`` proposed ``-N2 -N 4``, and ``-J x`` another command."""
    message = shown(corral("run", "train.py", *shlex.split(given)))
    hint = ours if ours.startswith("write ") else f"{LINE} {ours}".strip()
    assert f"hint: {hint}; see: corral run --help" in message
    if not ours.startswith("write "):
        assert accepted(hint.split()[1:])


@pytest.mark.parametrize("given", CORPUS["none"])
def test_an_option_without_a_counterpart_is_left_out(given: str, corral: Run) -> None:
    message = shown(corral("run", "train.py", *shlex.split(given)))
    why = "corral run (has no counterpart of|does without) s(batch|run)'s --"
    assert re.search(f"unknown option {re.split('[ =]', given)[0]}: {why}", message)
    assert f"hint: without it: {LINE}; see: corral run --help" in message


@pytest.mark.parametrize("given", CORPUS["same"])
def test_an_option_that_run_has_too_is_taken(given: str) -> None:
    assert given in {"--help", "-h"} or accepted(["run", "train.py", *shlex.split(given)])


@pytest.mark.parametrize(("given", "hint"), CORPUS["letters"].items())
def test_a_letter_with_another_meaning_is_explained(
    given: str, hint: str, corral: Run, home: Path
) -> None:
    (home / "train.py").write_text("")
    ended = corral("run", "train.py", "--cluster=laptop.yaml", "--dry-run", *shlex.split(given))
    if given.startswith("-d"):  # a flag here: the value would be the script's
        note = "afterok:12 is passed to train.py; for the job: corral run train.py --after 12:ok"
        assert note in shown(ended)
    else:
        meaning, _, line = hint.partition(LINE)
        more = " --cluster=laptop.yaml --dry-run"
        assert f"hint: {meaning}{LINE}{more}{line}" in shown(ended)


def test_each_option_of_slurm_is_in_the_list() -> None:
    """Long and short; the letters of the other meaning have a long option too."""
    listed = [*CORPUS["translated"], *CORPUS["none"], *CORPUS["same"], *CORPUS["letters"]]
    names = {re.split("[ =]", words)[0] for given in listed for words in re.split(" (?=-)", given)}
    assert {*slurm_options()} <= names


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("run -N 2 -n 4 -J x --reservation=r -- hostname",
         "corral run -N 2 --name x --ranks-per-node 2 --sbatch=--reservation=r -- hostname"),
        ("run train.py -Jx -n4 -c 2",
         "corral run train.py --name x --cpus-per-rank 2 --ranks-per-node 4"),
        ("run train.py -g h100", "corral run train.py --gpus-per-node 1 --gpu-type h100"),
        ("run train.py -G h100:8", "corral run train.py --gpus-per-node 8 --gpu-type h100"),
        ("run train.py --mail-user a@b --mail-type BEGIN", "corral run train.py --mail a@b:BEGIN"),
        ("shell -n 2", "corral shell --ranks-per-node 2"),
        ("notebook -J lab", "corral notebook --name lab"),
        ("srun -n 4 hostname -n", "corral run --ranks-per-node 4 -- hostname -n"),
        ("srun --label hostname", "corral run -- COMMAND"),
        ("sbatch -N2 -J x --mem=4G train.sh a -b",
         "corral run train.sh --nodes=2 --mem=4G --name x -- a -b"),
        ("salloc -N 2 --gres=gpu:1", "corral shell --nodes=2 --gpus-per-node 1"),
        ("scancel 12", "corral cancel 12"),
        ("sbatch train.py", "corral run train.py"),
        ("run train.py --dry-run=yes", "corral run train.py --dry-run"),
    ],
)  # fmt: skip
def test_all_options_of_slurm_are_translated_at_once(line: str, meant: str, corral: Run) -> None:
    assert f"hint: {meant}; see" in shown(corral(*line.split()))


def options_with_values() -> list[tuple[str, Any]]:
    """Each option of each verb and of those below it that takes a value."""
    verbs = [((name,), load_verb(name)) for name in VERBS]
    for path, verb in verbs:
        verbs += [
            ((*path, below), command) for below, command in getattr(verb, "commands", {}).items()
        ]
    return [
        (" ".join(path), parameter)
        for path, verb in verbs
        for parameter in verb.params
        if parameter.param_type_name == "option" and not parameter.is_flag
    ]


def test_an_option_without_its_value_has_an_example_with_that_option(corral: Run) -> None:
    """``corral run train.py --partition`` had one without ``--partition``."""
    wrong = []
    for verb, parameter in options_with_values():
        message = shown(corral(*verb.split(), max(parameter.opts, key=len)))
        _, line = re.split("(?:such as|for example): corral ", message, maxsplit=1)
        words = shlex.split(line.partition("; see: ")[0])
        if not {*parameter.opts} & {*words}:
            wrong.append(message)
    assert not wrong, "\n".join(wrong)
