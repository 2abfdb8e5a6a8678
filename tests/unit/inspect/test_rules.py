"""Rules over what machines report, and the table of who uses them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral import agents
from corral.api.mesh.tailnet import MeshNode
from corral.api.operations import overview
from corral.doctor import machine_report
from corral.doctor.catalog import catalog
from corral.doctor.probes import SKEW_S
from corral.hosts.fleet import Fleet
from corral.hosts.quote import call
from corral.inspect import discovery, rules
from corral.inspect.machine import CLOCK
from corral.inspect.nvidia import DriverState, HostGpu
from corral.inspect.question import MachineState, Question
from corral.inspect.rules import (
    RULES,
    FolderFault,
    GpuFault,
    NameFault,
    Observer,
    UnitState,
    VersionFault,
    clock_offset,
    differing_files,
    driver_problem,
    folder_fault,
    gpu_problem,
    is_starting,
    name_problems,
    takes_requests,
    unit_state,
    version_fault,
)
from corral.inspect.services import unit_states
from corral.inspect.storage import folder_answers
from corral.prove import survey
from corral.prove.catalog import CHECKS
from corral.prove.context import ProveContext
from corral.providers.base import Observed
from corral.providers.containers.gpus import host_gpus
from corral.providers.local import gpus
from corral.slurm.states.jobs import JobState
from corral.slurm.states.nodes import NodeState
from corral.spec.load import load_or_raise
from corral.web.slurm.snapshot import NODE_COLUMNS

ROOT = Path(__file__).parents[3]
SPEC = load_or_raise(ROOT / "examples" / "laptop.yaml")
SOURCE = ROOT / "src/corral"
MODULES = {
    Observer.PROOF: "prove",
    Observer.DOCTOR: "doctor",
    Observer.STATUS: "api/operations/overview.py",
    Observer.PAGE: "web",
    Observer.MESH: "api/mesh",
    Observer.DISCOVERY: "api/config",
    Observer.THIS_MACHINE: "providers/local",
    Observer.CONTAINERS: "providers/containers",
}
HEALTH = (SOURCE / "agents/health.sh").read_text()
DECIDES = {
    Observer.PROOF: {c.id for c in CHECKS},
    Observer.DOCTOR: {*catalog(), "--why-drained", "--why-pending"},
    Observer.STATUS: {"nodes", "units"},
    Observer.HEALTH: {f"health.{name}" for name in re.findall(r"(?m)^check_(\w+)\(\)", HEALTH)},
    Observer.PAGE: set(NODE_COLUMNS),
    Observer.MESH: {field.name for field in dataclasses.fields(MeshNode)},
    Observer.DISCOVERY: {"clock"},
    Observer.THIS_MACHINE: {field.name for field in dataclasses.fields(Observed)},
    Observer.CONTAINERS: {field.name for field in dataclasses.fields(Observed)},
}


def asked(observer: Observer) -> set[str]:
    """Names of the questions that an observer asks of some node."""
    context = ProveContext(SPEC, Fleet({}), "node0", "corral", {})
    ask = machine_report.Ask(
        ("node0",), ("slurmd",), mounts=("/shared",), controller=True, mesh=True
    )
    questions: dict[Observer, Sequence[Question[object]]] = {
        Observer.PROOF: survey.questions(("node0",), ("slurmd",), controller=True),
        Observer.DOCTOR: machine_report.questions(ask),
        Observer.STATUS: overview.questions(context, "node0"),
        Observer.DISCOVERY: (CLOCK, *discovery.MORE),
        Observer.THIS_MACHINE: gpus.QUESTIONS,
        Observer.CONTAINERS: host_gpus.QUESTIONS,
    }
    return {question.name for question in questions.get(observer, ())}


NOT_RULES = frozenset({"rules_table"})
PARTS = {"Offset": "clock_offset"}
"""What a rule is made of, where an observer uses that alone."""


def uses(sources: Mapping[str, str]) -> set[str]:
    """Rules that modules import or read: each name of ``inspect.rules``, and ``.usable``."""
    names_used: set[str] = set()
    for name, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.ImportFrom(module="corral.inspect.rules", names=names):
                    names_used |= {alias.name for alias in names}
                case ast.ImportFrom(module="corral.inspect", names=names):
                    assert "rules" not in {alias.name for alias in names}, f"{name}: by its name"
                case ast.Attribute(attr="usable"):
                    names_used.add("usable")
                case _:
                    pass
    return {PARTS.get(name, name) for name in names_used} & {rule.name for rule in RULES}


def sources(where: Path) -> dict[str, str]:
    files = sorted(where.rglob("*.py")) if where.is_dir() else [where]
    return {str(file.relative_to(SOURCE)): file.read_text() for file in files}


@pytest.mark.parametrize("observer", Observer)
def test_the_table_names_who_uses_a_rule(observer: Observer) -> None:
    """All that use it and no other; the health check is a separate program."""
    own = {rule.name: rule.used_by[observer] for rule in RULES if observer in rule.used_by}
    assert own
    if observer is not Observer.HEALTH:
        assert set(own) == uses(sources(SOURCE / MODULES[observer]))
    for name, use in own.items():
        assert set(use.decides) <= DECIDES[observer], name
        assert set(use.asks) <= asked(observer), name


def test_a_use_that_the_table_lacks_is_seen() -> None:
    imported = "from corral.inspect.rules import key_ends, UnitState"
    assert uses({"a": imported, "b": "x = node.usable"}) == {"key_ends", "usable"}


def test_nobody_else_uses_a_rule() -> None:
    """Who imports ``inspect.rules`` is an observer of the table."""
    users = {
        name
        for name, text in sources(SOURCE).items()
        if "corral.inspect.rules" in text and not name.startswith("inspect/")
    }
    observed = {name for where in MODULES.values() for name in sources(SOURCE / where)}
    assert users <= observed | {"prove/catalog.py"}


STATES = {"active", "reloading", "activating", "deactivating", "inactive"}
"""Words of systemd's. ``failed`` is one of other things too."""
OWN_WORDS = re.compile(r"""memory (?:==|<=|<) ?[12]\b""")
"""What ``no_real_memory`` decides, written out."""
OTHER_STATES = {"jobs/limits.py": "of a reservation"}


def states_written(text: str) -> list[int]:
    """Lines that compare with a state of a systemd unit, which ``unit_state`` judges."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Compare | ast.MatchValue)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and part.value in STATES
    ]


@pytest.mark.parametrize("text", ["info.memory == 1", "node.memory <= 1"])
def test_a_rule_written_again_is_seen(text: str) -> None:
    assert OWN_WORDS.search(text)


@pytest.mark.parametrize(
    "text",
    [
        'x[:6] == "active"',
        'x in ("active", "reloading")',
        'state in (["active"], ["reloading"])',
        'state == ["activating"]',
        'match x:\n case "inactive":\n  pass',
    ],
)
def test_a_state_of_a_unit_judged_again_is_seen(text: str) -> None:
    assert states_written(text)


def test_what_a_rule_judges_is_judged_by_no_observer_itself() -> None:
    rooms = ("prove", "doctor", "api", "cli", "web", "jobs", "elastic", "mesh")
    texts = {n: text for room in rooms for n, text in sources(SOURCE / room).items()}
    assert not [name for name, text in texts.items() if OWN_WORDS.search(text)]
    again = {name: lines for name, text in texts.items() if (lines := states_written(text))}
    assert set(again) == set(OTHER_STATES), again


# Asked by two observers, and no common rule: who uses the answer, and for what.
NO_RULE = {
    "ping": "whether slurmctld answers is the answer to nodes; shown where that is none",
}


def test_what_two_observers_ask_has_a_rule() -> None:
    """A fact that a second observer asks for is judged by a rule of both."""
    asks = [asked(observer) for observer in Observer]
    several = {q for i, some in enumerate(asks) for other in asks[i + 1 :] for q in some & other}
    ruled = {q for rule in RULES for use in rule.used_by.values() for q in use.asks}
    assert several - ruled == set(NO_RULE)


def test_every_rule_is_in_the_table() -> None:
    functions = {
        name
        for name, value in vars(rules).items()
        if inspect.isfunction(value) and value.__module__ == rules.__name__ and name[0] != "_"
    }
    assert (functions - NOT_RULES) | {"usable"} == {rule.name for rule in RULES}
    assert isinstance(NodeState.usable, property)


def test_health_calls_no_unit_good_that_is_down() -> None:
    """The two cannot share code: the words that the program lets pass are read out of it."""
    (words,) = re.findall(r"case \$state in ([a-z |]+)\) ;; \*\) bad=", HEALTH)
    good = [word.strip() for word in words.split("|")]
    assert UnitState.DOWN not in map(unit_state, good)
    down = set(map(unit_state, ("failed", "inactive", "unknown")))
    assert down == {UnitState.DOWN}


def test_health_takes_the_same_jobs_for_ended() -> None:
    """Each list of states in a program for nodes that has those of jobs that ended has them all."""
    ended = {state.value for state in JobState if state.ended}
    lists = [
        set(words.split("|"))
        for path in sorted((SOURCE / "agents").rglob("*"))
        if path.suffix in {".sh", ".awk", ".pl"}
        for words in re.findall(r"[A-Z_]+(?:\|[A-Z_]+)+", path.read_text())
    ]
    assert [words for words in lists if "COMPLETED" in words] == [ended]


def test_health_and_doctor_allow_clocks_the_same() -> None:
    (seconds,) = re.findall(r'\[ "\$size" -gt (\d+) \]; then \w+ fail clock', HEALTH)
    assert int(seconds) == SKEW_S


def test_health_and_proof_ask_a_folder_the_same() -> None:
    """By statfs(2), and exit status 137 is a server that is away."""
    assert "stat -f -c" in agents.functions("folder-answer.sh", "folder_answer")
    assert 'begin "mount$i" stat -f -c' in HEALTH
    assert re.search(r'= late \] \|\| \[ "\$code" = 137 \]; then bad="[^"]*no answer', HEALTH)


@pytest.mark.parametrize(
    ("version", "expected", "fault"),
    [
        ("24.11.5", "24.11.5", None),
        ("24.11.6", "24.11.5", VersionFault.NEWER),
        ("23.11.4", "24.11.5", VersionFault.OTHER),
        ("directory", "24.11.5", VersionFault.UNREADABLE),
        ("24.11.5", "", None),
        ("", "24.11.5", None),
    ],
)
def test_faults_of_versions(version: str, expected: str, fault: VersionFault | None) -> None:
    assert version_fault(version, expected) is fault


def test_files_that_differ() -> None:
    expected = {"slurm.conf": "a", "gres.conf": "b"}
    files = {"/x/slurm.conf": "a", "/y/slurm.conf": "c", "/x/gres.conf": "b", "/x/other": "d"}
    paths = {PurePosixPath(path): digest for path, digest in files.items()}
    assert differing_files(paths, expected) == (PurePosixPath("/y/slurm.conf"),)


@pytest.mark.parametrize(
    ("stat", "fault"),
    [
        ("echo nfs", None),
        ("echo \"stat: cannot read '/s': Stale file handle\"; exit 1", FolderFault.STALE),
        ("echo \"stat: cannot read '/s': No such file\"; exit 1", FolderFault.UNREADABLE),
        ("kill -9 $$", FolderFault.SILENT),
        ("sleep 60", FolderFault.SILENT),
        ("exit 1", FolderFault.UNREADABLE),
    ],
)
def test_faults_of_folders(tmp_path: Path, stat: str, fault: FolderFault | None) -> None:
    (tmp_path / "stat").write_text(f"#!/bin/sh\n{stat}\n")
    (tmp_path / "stat").chmod(0o755)
    script = call("folder-answer.sh", "folder_answer", "/s", 1)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True)
    (answer,) = folder_answers(f"/s mounted {done.stdout}").values()
    assert folder_fault(answer) is fault


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("active", UnitState.ACTIVE),
        ("activating", UnitState.CHANGING),
        ("reloading", UnitState.CHANGING),
        ("inactive (masked: systemctl unmask slurmd)", UnitState.DOWN),
        ("failed", UnitState.DOWN),
        ("Failed to connect to bus", UnitState.DOWN),
        (" ", UnitState.UNKNOWN),
    ],
)
def test_states_of_units(answer: str, state: UnitState) -> None:
    word = unit_states(f"slurmd {answer}")["slurmd"].state
    assert unit_state(word) is state
    assert word == (answer.split() or [""])[0]
    assert takes_requests(answer) == (word in ("active", "reloading"))
    assert is_starting(answer) == (word == "activating")


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("b 10.0.0.2", None),
        ("b 10.0.0.2 10.1.0.2", None),
        ("b 10.1.0.2 10.0.0.2", NameFault.LATER),
        ("b 10.1.0.2", NameFault.OTHER),
        ("b 127.0.1.1 10.0.0.2", NameFault.LOOPBACK),
        ("b 10.0.0.2 127.0.1.1", NameFault.ALSO_LOOPBACK),
        ("b ? ", NameFault.UNANSWERED),
        ("b ", NameFault.MISSING),
        ("", NameFault.MISSING),
    ],
)
def test_faults_of_names(answer: str, fault: NameFault | None) -> None:
    state = MachineState("a", {"names": answer})
    problems = list(name_problems(state, ("b",), {"b": "10.0.0.2"}))
    assert [problem.fault for problem in problems] == ([fault] if fault else [])


@pytest.mark.parametrize(
    ("gpu", "fault"),
    [
        (HostGpu("/dev/nvidia0", "", "GPU-1", "H200", 1), None),
        (HostGpu("/dev/nvidia0", "", "GPU-1", "H200", 1, mig=True), GpuFault.MIG),
        (HostGpu("/dev/nvidia0", "", "GPU-1", "H200", 1, processes=("4 (a)",)), GpuFault.IN_USE),
    ],
)
def test_faults_of_gpus(gpu: HostGpu, fault: GpuFault | None) -> None:
    problem = gpu_problem(gpu)
    assert (problem.fault if problem else None) is fault


@pytest.mark.parametrize(
    ("programs", "loaded", "fault"),
    [
        (("/usr/bin/nvidia-smi",), (), None),
        (("/usr/bin/nvidia-smi",), ("0000:01:00.0",), GpuFault.UNLISTED),
        ((), ("0000:01:00.0",), GpuFault.NO_PROGRAM),
        (("/usr/bin/nvidia-debugdump",), (), GpuFault.NO_PROGRAM),
    ],
)
def test_faults_of_drivers(
    programs: tuple[str, ...], loaded: tuple[str, ...], fault: GpuFault | None
) -> None:
    paths = tuple(map(PurePosixPath, programs))
    problem = driver_problem(DriverState(loaded, (), paths, ""))
    assert (problem.fault if problem else None) is fault


@given(clock=st.floats(1e6, 2e9), sent=st.floats(1e6, 2e9), seconds=st.floats(0, 100))
def test_a_clock_that_the_round_trip_explains_is_not_off(
    clock: float, sent: float, seconds: float
) -> None:
    state = MachineState("a", {"clock": f"{clock:.6f}"}, sent, sent + seconds)
    offset = clock_offset(state)
    assert offset is not None
    assert offset.least <= offset.most
    inside = sent <= float(f"{clock:.6f}") <= sent + seconds
    assert (offset.surely == 0.0) or not inside


def test_a_clock_that_was_not_read_is_unknown() -> None:
    assert clock_offset(MachineState("a", {"clock": "date: not found"})) is None
    assert clock_offset(MachineState("a")) is None
