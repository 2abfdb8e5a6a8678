"""What a job's state decides is in one table, and no other list of job states is in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.slurm.records import Job
from corral.slurm.states.jobs import (
    Began,
    JobState,
    Phase,
    ended_states,
    holding_states,
    job_states,
)

LISTED = re.compile(r"\b[A-Z][A-Z_]+(?:[|,][A-Z][A-Z_]+)*\b")
"""Words of which shell programs and squeue's options make one of several states."""
MOST = 2
"""State words next to each other that are not a list: a comparison with two."""
OF_OTHERS = {"STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"}
"""Flags of a job that has another state of the table, by which squeue lists it too."""
SHELL = {
    "agents/health.sh": set(ended_states()),  # installed on nodes
    "agents/lost-jobs.sh": set(holding_states().split(",")) - OF_OTHERS,
}
"""Lists in programs that run where Corral is not."""


def named_in(text: str) -> set[str]:
    """The states of the longest list in a text; of a sentence those of one word."""
    lists = [set(re.split(r"[|,]", words)) & {*JobState} for words in LISTED.findall(text)]
    return max(lists, key=len, default=set())


def states_of(node: ast.expr | None) -> set[str]:
    """The states that a value names: ``JobState.X``, ``"X"``, ``"X|Y"``."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return {node.attr} & {*JobState} if node.value.id == "JobState" else set()
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return named_in(node.value)
    return set()


def lists_in(tree: ast.Module) -> Iterator[tuple[int, set[str]]]:
    """Sets, tuples, lists, mappings and texts that name more than ``MOST`` states."""
    for node in ast.walk(tree):
        match node:
            case ast.Set(elts=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = [*parts]
            case ast.Dict(keys=keys):
                values = [key for key in keys if key]
            case ast.Constant():
                values = [node]
            case _:
                continue
        states = set[str]().union(*map(states_of, values))
        if len(states) > MOST:
            yield getattr(node, "lineno", 0), states


def test_every_state_is_in_the_table() -> None:
    assert set(job_states()) == set(JobState)


def test_lost_jobs_are_those_whose_state_has_steps(repo: Path) -> None:
    text = (repo / "src/corral/agents/lost-jobs.sh").read_text()
    body = text[text.index("lost() {") : text.index("\n}\n")]
    [asked] = re.findall(r"-t ([A-Z,]+)", body)
    [kept] = re.findall(r"case \$state in ([A-Z| ]+)\)", body)
    with_steps = {word for word, row in job_states().items() if row.steps}
    assert set(asked.split(",")) == set(kept.replace(" ", "").split("|")) == with_steps


def test_no_other_list_of_job_states(repo: Path) -> None:
    source = repo / "src/corral"
    lists = [
        f"{file.relative_to(source)}:{line}: {sorted(states)}"
        for file in sorted(source.rglob("*.py"))
        if not file.is_relative_to(source / "slurm/states")
        for line, states in lists_in(ast.parse(file.read_text()))
    ]
    assert not lists, "what a state decides is a field of slurm/states/job_states.toml"


def test_lists_in_shell_programs_are_those_of_the_table(repo: Path) -> None:
    source = repo / "src/corral"
    lists: dict[str, set[str]] = {}
    for file in sorted(source.rglob("*.sh")):
        for line in file.read_text().splitlines():
            if len(states := named_in(line)) > MOST:
                assert lists.setdefault(str(file.relative_to(source)), states) == states
    assert lists == SHELL
    assert SHELL["agents/lost-jobs.sh"] < set(holding_states().split(","))


@pytest.mark.parametrize(
    "text",
    [
        "X = frozenset({JobState.RUNNING, JobState.FAILED, JobState.TIMEOUT})",
        'X = ("RUNNING", "FAILED", "TIMEOUT")',
        'X = {JobState.RUNNING: 1, "FAILED": 2, JobState.TIMEOUT: 3}',
        'X = "RUNNING|FAILED|TIMEOUT"',
        'f(states=["RUNNING,FAILED", "TIMEOUT"])',
    ],
)
def test_a_list_is_found(text: str) -> None:
    assert [states for _, states in lists_in(ast.parse(text))] == [{"RUNNING", "FAILED", "TIMEOUT"}]
    assert not list(lists_in(ast.parse(text.replace("TIMEOUT", "LATER"))))


@pytest.mark.parametrize("state", list(JobState))
def test_what_follows_from_a_state(state: JobState) -> None:
    row = job_states()[state]
    job, ran = Job(7, state=state.value), Job(7, state=state.value, nodes="node0")
    assert [job.waiting, job.going, job.ended].count(True) == 1
    if row.phase is Phase.GOING:
        assert job.began
    if row.phase is Phase.WAITING:
        assert not ran.began
    assert ran.began == (row.began is not Began.NEVER)
    assert job.began == (row.began is Began.ALWAYS)
    if job.paused or job.has_steps:
        assert row.holds, "its nodes are its own"
    if state.stopped:
        assert state.ended
        assert not state.good


def test_a_state_of_a_later_release_decides_nothing() -> None:
    job = Job(7, state="HIBERNATED", nodes="node0")
    decided = (job.waiting, job.going, job.ended, job.began, job.paused, job.has_steps, job.held)
    assert not any(decided)
