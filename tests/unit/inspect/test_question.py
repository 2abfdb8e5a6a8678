"""Asking a machine: its state is made of complete answers alone."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import corral
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.local import Local
from corral.hosts.quote import sh
from corral.hosts.transport import Result
from corral.inspect.machine import CLOCK, HOSTNAME
from corral.inspect.question import MachineState, Question, inquiry, text
from corral.inspect.slurm import versions
from tests.fakes import Recorded

SOURCES = Path(corral.__file__).parent
HUNG = Question("hung", sh("timeout 0.1 sleep 5"), text)
KILLED = Question("killed", sh("echo begun; kill -9 $PPID_OF_NONE $(sh -c 'echo $PPID')"), text)


def ask(*questions: Question[object]) -> MachineState:
    fleet = Fleet({"here": Local("here")})
    return asyncio.run(MachineState.ask(fleet, "here", questions, timeout=20))


def test_a_machine_that_answers() -> None:
    state = ask(CLOCK, HOSTNAME)
    clock = state.get(CLOCK)
    assert clock is not None
    assert state.sent <= clock <= state.received + 0.001
    assert state.get(HOSTNAME)
    assert (state.error, state.cut) == (None, ())


def test_what_was_not_asked_is_unknown() -> None:
    state = ask(CLOCK)
    assert state.get(HOSTNAME) is None
    assert state.text(HOSTNAME) == ""


def test_a_command_that_takes_too_long_is_named() -> None:
    state = ask(HUNG, HOSTNAME)
    assert state.cut == ("hung",)
    assert state.get(HOSTNAME)


def test_a_script_that_is_killed_leaves_an_error_and_what_came_before() -> None:
    state = ask(HOSTNAME, KILLED, CLOCK)
    assert state.get(HOSTNAME)
    assert state.get(CLOCK) is None
    assert state.error is not None
    assert state.error.code is Code.PARSE_FAILED
    assert "2 of 3 questions were not answered" in state.error.message


def test_a_machine_out_of_reach() -> None:
    gone = CorralError(Code.UNREACHABLE, "no route to host")

    class Gone(Recorded):
        async def run(self, *_: object, **__: object) -> Result:
            raise gone

    fleet = Fleet({"here": Gone("here", {})})
    state = asyncio.run(MachineState.ask(fleet, "here", (CLOCK,), timeout=20))
    assert state.error is gone
    assert state.get(CLOCK) is None


def test_versions_of_all_distributions_are_read() -> None:
    shown = "slurmd 24.11.5\nslurmctld slurm-wlm 23.11.4\nslurmdbd slurm 26.05.4-rc1\nsackd\n"
    parse: Callable[[str], dict[str, str]] = versions
    assert parse(shown) == {
        "slurmd": "24.11.5",
        "slurmctld": "23.11.4",
        "slurmdbd": "26.05.4-rc1",
        "sackd": "",
    }


def test_two_questions_of_one_name_hide_no_answer() -> None:
    """Discovery asked for the firewall twice, and the second answer was added to the first."""
    inquiry((HOSTNAME, CLOCK, HOSTNAME))  # the same one
    with pytest.raises(ValueError, match="two questions are called hostname"):
        inquiry((HOSTNAME, Question("hostname", sh("hostname"), text)))


def test_questions_to_machines_are_in_one_room() -> None:
    """Observers name the questions they need; a question is written in one place."""
    source = Path(corral.__file__).parent
    packages = {
        file.relative_to(source).parts[0]
        for file in source.rglob("*.py")
        if re.search(r"\bQuestion\(\s*[\"f]", file.read_text())
    }
    assert packages == {"inspect"}


# What no machine states unasked (decision 0097): each with what the module has done before.
OWN_ANSWERS = {
    "prove/checks/access.py": "logs in, and looks whether pam_slurm_adopt lets it",
    "prove/checks/slots.py": "submits jobs, and looks how many of them run",
    "prove/checks/storage.py": "writes a file on each node, and reads it on the others",
    "jobs/limits.py": "sends hashes of a project, and reads which of them its store lacks",
    "jobs/explanation.py": "sets up a job's environment, and reads what it became",
    "jobs/arrays.py": "reads a job's folder: files that Corral's own batch script wrote",
    "api/page/job_resubmission.py": "reads a job's folder: job.json, which Corral wrote",
}


def own_answers(sources: Mapping[str, str]) -> set[str]:
    """Modules that read answers which no question of the table has."""
    return {
        name
        for name, source in sources.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        and node.module == "corral.inspect.question"
        and "Answer" in {alias.name for alias in node.names}
        and not name.startswith("inspect/")
    }


def test_observations_are_in_the_table() -> None:
    """A module of another room reads only what came of its own doing, and is listed with that."""
    files = {str(f.relative_to(SOURCES)): f.read_text() for f in sorted(SOURCES.rglob("*.py"))}
    assert own_answers(files) == set(OWN_ANSWERS)


def test_an_answer_of_another_module_is_seen() -> None:
    text = "from corral.inspect.question import Answer, inquiry"
    assert own_answers({"jobs/x.py": text, "inspect/y.py": text}) == {"jobs/x.py"}


def names_asked() -> Iterator[tuple[str, str]]:
    """Each name of a question or an answer in Corral's sources, with its place."""
    for path in sorted(SOURCES.rglob("*.py")):
        source = path.read_text()
        if "corral.inspect.question import" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(
                    func=ast.Name(id="Question" | "Answer"),
                    args=[ast.Constant(value=str(name)), *_],
                ):
                    yield name, f"{path.relative_to(SOURCES)}:{node.lineno}"
                case _:
                    pass


def test_no_two_questions_have_one_name() -> None:
    """Two in one script would be refused there alone, or the answer to one read as the other's."""
    places: dict[str, list[str]] = {}
    for name, place in names_asked():
        places.setdefault(name, []).append(place)
    assert len(places) > 80
    assert {name: each for name, each in places.items() if len(each) > 1} == {}
