"""A usage error has the command that is probably meant."""

from __future__ import annotations

import functools
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.main import get_command
from typer.testing import Result

from corral import api, durations
from corral.cli.main import VERBS, app, load_verb
from corral.cli.terminal import correction
from corral.cli.terminal.correction import accepted
from corral.cli.terminal.slurm_options import slurm_options, words_of_others
from corral.cli.terminal.usage import explained, in_words
from corral.cli.workload.run import asked_fields
from corral.jobs.directives import _FIELDS, asked_of  # pyright: ignore[reportPrivateUsage]
from corral.jobs.model import JobSpec
from tests.unit.cli.conftest import Run


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("plam lab.yaml", "corral plan lab.yaml"),
        ("keys rotat lab", "corral keys rotate lab"),
        ("run train.py --node 2", "corral run train.py --nodes 2"),
        ("run train.py --node=2", "corral run train.py --nodes=2"),
        ("squeue", "corral jobs"),
        ("help bench run", "corral bench run --help"),
        ("help", "corral --help"),
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
        assert set(re.findall(r"--?[a-z][a-z-]*", ours)) <= known
    for name in (*words.options, *words.reasons, *(letter.option for letter in words.letters)):
        assert f"--{name}" in slurm_options(), name
    assert {letter.letter for letter in words.letters} == {
        option.short
        for name, option in slurm_options().items()
        if name == f"-{option.short}" and name in known and f"--{option.name}" not in known
    } - {"G", "i"}, "letters with another meaning here"


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


@pytest.mark.parametrize("given", CORPUS["interactive"])
def test_an_option_of_a_terminal_is_not_proposed_with_a_script(given: str, corral: Run) -> None:
    """``corral run train.py --interactive`` is refused."""
    message = shown(corral("run", "train.py", *shlex.split(given)))
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
    listed = [given for part in CORPUS.values() for given in part]
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
        ("srun -N 2 --pty bash -i", "corral run --nodes=2 --interactive -- bash -i"),
        ("run --pty bash", "corral run --interactive -- bash"),
        ("run -N 2 --pty bash -c ls", "corral run -N 2 --interactive -- bash -c ls"),
        ("run --pty train.py", "without it: corral run train.py"),
        ("run --wrap='echo hi'", "corral run -- sh -c 'echo hi'"),
        ("run --wrap 'echo hi' -n 2", "corral run --ranks-per-node 2 -- sh -c 'echo hi'"),
        ("run -N 2 --wrap hostname -f", "corral run -N 2 -- sh -c 'hostname -f'"),
        ("sbatch --wrap hostname", "corral run -- sh -c hostname"),
        ("sbatch --wrap='echo hi' -N 2", "corral run -N 2 -- sh -c 'echo hi'"),
        ("run train.py --wrap='echo hi'", "write -- sh -c COMMAND in its place"),
        ("run --gpus-per-node h100:4 train.py",
         "corral run train.py --gpus-per-node 4 --gpu-type h100"),
        ("run --gpus-per-node=a100:2 -N 2 -- nvidia-smi",
         "corral run -N 2 --gpus-per-node 2 --gpu-type a100 -- nvidia-smi"),
        ("shell --gpus-per-node a100:1", "corral shell --gpus-per-node 1 --gpu-type a100"),
        ("run train.py --gpus-per-node=h100:8 --ntasks=16 -N 2",
         "corral run train.py -N 2 --gpus-per-node 8 --gpu-type h100 --ranks-per-node 8"),
        ("run train.py -G h100-80gb", "corral run train.py --gpus-per-node 1 --gpu-type h100-80gb"),
        ("run --requeue=1 train.py", "corral run --requeue train.py"),
        ("run --requeue=1 -n 4 train.py", "corral run train.py --requeue --ranks-per-node 4"),
        ("run --tasks-per-node=4 --mem-per-cpu=2G --cpus-per-task=2 train.py",
         "corral run train.py --ranks-per-node 4 --cpus-per-rank 2 --mem 16G"),
        ("run -N 2 --ntasks=8 --tasks-per-node=4 train.py",
         "corral run -N 2 train.py --ranks-per-node 4"),
        ("sbatch --cpus-per-gpu=4 train.sh", "without --cpus-per-gpu: corral run train.sh"),
        ("run train.py -n 4 --cpus-per-gpu=4",
         "without --cpus-per-gpu: corral run train.py --ranks-per-node 4"),
        ("sbatch -N2 -J x --mem=4G train.sh a -b",
         "corral run train.sh --nodes=2 --mem=4G --name x -- a -b"),
        ("salloc -N 2 --gres=gpu:1", "corral shell --nodes=2 --gpus-per-node 1"),
        ("scancel 12", "corral cancel 12"),
        ("sbatch train.py", "corral run train.py"),
        ("run train.py --dry-run=yes", "corral run train.py --dry-run"),
    ],
)  # fmt: skip
def test_all_options_of_slurm_are_translated_at_once(line: str, meant: str, corral: Run) -> None:
    assert f"hint: {meant}; see" in shown(corral(*shlex.split(line)))


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


AS_LINES = {
    "job-name": "--job-name=x",
    "partition": "--partition=main",
    "chdir": "--chdir=/shared/x",
    "nodes": "--nodes=2",
    "ntasks-per-node": "--ntasks-per-node=4",
    "ntasks": "--nodes=2 --ntasks=8",
    "cpus-per-task": "--cpus-per-task=4",
    "gres": "--gres=gpu:h100:2",
    "gpus-per-node": "--gpus-per-node=h100:4",
    "gpus": "--nodes=2 --gpus=h100:8",
    "gpus-per-task": "--ntasks-per-node=2 --gpus-per-task=2",
    "mem": "--mem=16G",
    "mem-per-cpu": "--tasks-per-node=4 --mem-per-cpu=2G --cpus-per-task=2",
    "mem-per-gpu": "--gpus-per-node=a100:2 --mem-per-gpu=16G",
    "time": "--time=2:00:00",
    "array": "--array=0-9%2",
    "requeue": "--requeue",
    "export": "--export=ALL,LR=0.1",
    "container-image": "--container-image=/shared/a.sqsh",
    "container-mounts": "--container-image=/shared/a.sqsh --container-mounts=/raid:/raid",
}
"""Each option of a script that is a field of a job, on a command line."""


def job_of(words: list[str]) -> JobSpec:
    """What a command line of ``corral run`` asks for."""
    given = dict(load_verb("run").make_context("run", words[1:]).params)
    others = ("named", "as_json", "detach", "dry_run", "explain", "interactive", "sweep")
    fields = asked_fields({k: v for k, v in given.items() if k not in others})
    if "time" in fields:  # 2:00:00 as a script's lines have it
        fields["time"] = durations.clock(durations.seconds(fields["time"]) or 0)
    return api.job_spec(fields)


@pytest.mark.parametrize("option", _FIELDS)
def test_a_proposed_line_asks_for_the_job_that_the_same_lines_of_a_script_ask_for(
    option: str, corral: Run, home: Path
) -> None:
    """``--gpus-per-node h100:4`` was left out without a word."""
    (home / "train.py").write_text("")
    given = shlex.split(AS_LINES[option])
    words = ["run", "train.py", *given]
    message = shown(corral(*words, "-c", "laptop.yaml", "--dry-run"))
    if re.search("unknown option|Invalid value|sbatch's", message):
        line = re.search("corral (run train.py .*?)(; |$)", message)
        assert line
        words = shlex.split(line[1].replace(" -c laptop.yaml --dry-run", ""))
    script = "\n".join(["#!/bin/sh", *(f"#SBATCH {word}" for word in given), ""])
    fields = asked_of(script, "train.py", {}).fields
    assert fields
    assert job_of(words) == api.job_spec({"script": "train.py", **fields})


def verbs_with_options() -> list[tuple[list[str], Any]]:
    verbs = [([name], load_verb(name)) for name in VERBS]
    for path, verb in verbs:
        verbs += [([*path, name], each) for name, each in getattr(verb, "commands", {}).items()]
    return [(path, p) for path, verb in verbs for p in verb.params if p.param_type_name == "option"]


def test_an_option_in_front_of_its_command_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """``corral --json jobs`` ended in a traceback with another one in it."""
    monkeypatch.setattr(correction, "load_verb", functools.cache(load_verb))
    program = get_command(app)
    for path, parameter in verbs_with_options():
        name = max(parameter.opts, key=len)
        values = [] if parameter.is_flag else ["1"] * parameter.nargs
        for first in ([], ["--json"]):
            if name in {"--help", "--version", *first}:
                continue
            words = [*first, name, *values]
            with pytest.raises(typer.TyperException) as caught:
                program.make_context("corral", [*words, *path])
            error = explained(caught.value, [*words, *path])
            assert error.message == f"unknown option {words[0]}: options come after the command"
            moved = [*path, *words]
            assert error.hint.startswith(correction.line(moved) or ("for example: ", "corral "))


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("-c lab jobs", "corral jobs -c lab"),
        ("--json -c lab jobs", "corral jobs --json -c lab"),
        ("-c run jobs", "corral jobs -c run"),
        ("-N 2 run -- hostname -i", "corral run -N 2 -- hostname -i"),
        ("--json nodes history", "corral nodes history --json"),
        ("nodes --json history", "corral nodes history --json"),
        ("nodes --json histry", "corral nodes history --json"),
        ("--json jbos", "corral jobs --json"),
        ("--jsn jobs", "corral jobs --json"),
        ("--verbose", "for example: corral init -o laptop.yaml"),
        ("--bogus", "for example: corral init -o laptop.yaml"),
        ("--json", "for example: corral init -o laptop.yaml"),
        ("--bogus jobs", "for example: corral jobs"),
        ("--versoin", "corral --version"),
        ("cloud --bogus", "for example: corral cloud firewall"),
        ("image --x", "for example: corral image list"),
    ],
)
def test_an_option_without_its_command(line: str, hint: str, corral: Run) -> None:
    ended = corral(*line.split())
    assert ended.exit_code == 2
    text = json.loads(ended.stdout)["error"]["hint"] if "--json" in line else shown(ended)
    assert f"{hint}; see: corral" in text


def test_a_flag_of_the_program_with_a_value(corral: Run) -> None:
    assert "--version takes no value: it is a flag" in shown(corral("--version=x"))
