"""What is asked of Slurm is written in ``inspect`` and ``slurm``, with its reader.

What a machine asks on its own, where Corral is not, and what a script asks to decide what it does,
is in a list here, each with its reason.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import corral
from corral import agents

SOURCE = Path(corral.__file__).parent
OWN = ("inspect", "slurm", "agents")
COMMANDS = ("sinfo", "squeue", "sacct", "sdiag", "sprio", "sshare", "sreport", "sstat")
READING = re.compile(
    r"\b(?:scontrol(?: -[\w-]+)* (?:show(?! hostnames)|ping|listpids|write)\b"
    rf"|(?:{'|'.join(COMMANDS)})\b(?!\()"
    r"|sacctmgr\b[^|;\n]*\b(?:show|list)\b|srun --mpi=list)"
)
"""A command that prints Slurm's state. ``show hostnames`` unfolds its argument."""
READERS = ("text", "steps", "job_use", "diagnostics")
"""Modules of ``corral.slurm`` that read what these commands print."""

PROBES = "state/"
"""Probes and changes of resources: they travel with a plan, and the room is below ``inspect``."""
TEXTS_OF_PROBES = {
    "state/slurm/accounts.py": "adding fails where it is there already; looks whether it is",
}
READERS_OF_PROBES = {
    "state/slurm/accounts.py": "diff of a resource, from its own probe",
    "state/slurm/reservations.py": "diff of a resource, from its own probe",
}
PROGRAMS = {
    # Installed on nodes, and run there by Slurm, systemd or cron, without Corral.
    "backup/restore.py": "a restore on the controller: its jobs, and whether daemons answer",
    "health.sh": "HealthCheckProgram: drains its node, and returns it to service",
    "lost-jobs.sh": "a unit at a node's start: requeues jobs that it lost",
    "notify/send.py": "a unit on the controller: what an ended job used, of accounting",
    "proof-round.sh": "a timer on the controller: the scheduled proof",
    "jobs/batch/again.sh": "part of a job: whether a cloud takes one of its nodes back",
    "prolog/run.sh": "Slurm's prolog: what the job was given, whether the node is drained already",
    "wind-down.sh": "the guard of rented machines, also when Corral is gone: ends jobs in time",
    "node-address.sh": "part of a job: the address of its first node",
    # Functions that other programs include, or that the calls below send.
    "slurmctld.sh": "waits until slurmctld answers",
    "gates/slurm.sh": "gates wait for Slurm; drains wait for jobs",
    "jobs/user.sh": "follows a job for hours, and finds its folder and its owner",
    "node-replacement.sh": "takes a node out of service, and runs a job behind its reservation",
    "prove/jobs.sh": "checks wait for jobs that they submitted",
    "state/directory.sh": "probe of accounts of a directory's groups, and a timer's",
    "state/containers.sh": "which Slurm Pyxis was built for",
    "state/databases.sh": "probe of accounts",
    "state/members.sh": "probe of members; draining waits for jobs",
    "state/packages.sh": "an upgrade drains its node, where it is not drained already",
    "state/slurm-state.sh": "a move of the state asks whether another slurmctld would go on",
    "state/reservations.sh": "probe of reservations; a change checks that it exists",
}
"""Programs that ask Slurm themselves, with the reason."""
CALLS = {
    ("api/operations/nodes.py", "nodes_update"): "changes nodes, waits, prints them for NODES",
    ("api/lifecycle/node_replacement.py", "node_proven"): "changes the node, and runs a job on it",
    ("api/page/job_details.py", "job_extras"): "finds a process of the job, reads its environment",
    ("apply/restoration.py", "jobs_cancel_all"): "cancels jobs, and waits until they are gone",
    ("elastic/driver.py", "wind-down.sh"): "drains nodes and ends their jobs in time",
    ("jobs/batch/fabric.py", "node-address.sh"): "a job's script runs it in the job",
    ("jobs/batch/script.py", "node-address.sh"): "a job's script runs it in the job",
    ("jobs/control.py", "job_find"): "finds the owner whose folder it then reads",
    ("roles/machine/directory.py", "group-accounts.sh"): "a timer: accounts for members of groups",
    ("roles/machine/directory.py", "member-folders.sh"): "the same file; calls none of Slurm's",
    ("prove/checks/access.py", "job_running"): "submits a job, and waits until it runs",
    ("prove/checks/access.py", "jobs_cancel"): "cancels the check's own jobs",
    ("prove/checks/slots.py", "slots_start"): "submits jobs, and waits until they run",
    ("prove/checks/slots.py", "slots_end"): "ends these jobs, and waits for the last one",
    ("prove/launch.py", "watched"): "runs a job, and notes why it waits",
    ("prove/launch.py", "records_wait"): "waits until the check's own jobs are recorded",
    ("prove/runner.py", "jobs_clean"): "cancels the proof's own jobs",
    ("roles/services/rental_guard.py", "wind-down.sh"): "installs it",
    ("roles/services/notify.py", "notify/send.py"): "installs it",
    ("roles/slurm/health.py", "health.sh"): "installs it",
    ("roles/slurm/lost_jobs.py", "lost-jobs.sh"): "installs it",
    ("roles/slurm/compute.py", "nodes_registered"): "gate",
    ("roles/slurm/controller.py", "slurmctld_reconfigure"): "changes, once slurmctld answers",
    ("roles/slurm/packages.py", "node_back"): "waits for its slurmd, and resumes the node",
    ("roles/slurm/packages.py", "nodes_run"): "gate",
    ("jobs/batch/script.py", "jobs/batch/again.sh"): "a part of the batch script",
}
"""Where another room has such a program or function run, with the reason."""
SENT = ("program", "shipped", "filled", "piece")
"""Who takes the text of a program; ``call`` and ``defined`` take functions of one."""


def modules() -> dict[str, str]:
    """Sources of all rooms but those that own Slurm's commands, by path."""
    files = {str(file.relative_to(SOURCE)): file for file in sorted(SOURCE.rglob("*.py"))}
    return {
        name: file.read_text() for name, file in files.items() if name.partition("/")[0] not in OWN
    }


def constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Values of the module's own names."""
    return {
        node.target.id: node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value
    }


def called(node: ast.AST) -> str:
    """The name of what is called; "" for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        return node.func.id if isinstance(node.func, ast.Name) else node.func.attr
    return ""


def literals(values: list[ast.expr]) -> Iterator[str]:
    for value in values:
        for part in ast.walk(value):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def words_of(node: ast.expr) -> Iterator[str]:
    """Words of a command; what is not written there is ``X``."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from words_of(part)
        case ast.Starred(value=value):
            yield from words_of(value)
        case ast.Constant(value=str(word)):
            yield word
        case _:
            yield "X"


def shells(tree: ast.Module) -> Iterator[str]:
    """Shell text: arguments of ``sh`` and its kind, also by a constant; and commands as words."""
    named = constants(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in ("sh", "Script", "call", "reread"):
            given = [*node.args, *(word.value for word in node.keywords)]
            own = [
                named[each.id] for each in given if isinstance(each, ast.Name) and each.id in named
            ]
            yield from literals([*given, *own])
        elif isinstance(node, ast.Tuple | ast.List):
            words = " ".join(words_of(node))
            words = re.sub(r"^(?:(?:timeout|env) \S+ )+", "", words)
            if READING.match(words):
                yield words


def commands(text: str) -> set[str]:
    """Commands that print Slurm's state, in shell text of a module."""
    return {
        match[0].split()[0]
        for shell in shells(ast.parse(text))
        for match in READING.finditer(shell)
    }


def readers(text: str) -> set[str]:
    """Readers of Slurm's texts, and commands that they read, which a module imports."""
    matches: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(module="corral.slurm", names=names):
                matches |= {each.name for each in names} & set(READERS)
            case ast.ImportFrom(module=str(module), names=names) if module in {
                f"corral.slurm.{name}" for name in READERS
            }:
                values = {
                    each.name: getattr(importlib.import_module(module), each.name) for each in names
                }
                matches |= {name for name, value in values.items() if reads(value)}
            case _:
                pass
    return matches


def reads(value: object) -> bool:
    """A function that takes text, or the words of a command."""
    if inspect.isfunction(value):
        return any(
            each.annotation == "str" for each in inspect.signature(value).parameters.values()
        )
    return isinstance(value, tuple) and bool(READING.match(" ".join(map(str, value))))


def asks(text: str) -> bool:
    """Whether a program asks Slurm."""
    lines = (line for line in text.split("\n") if not line.lstrip().startswith("#"))
    return any(READING.search(line) for line in lines)


def sent(text: str) -> set[str]:
    """Programs, and functions of programs, that ask Slurm and that a module has run."""
    tree = ast.parse(text)
    named = constants(tree)
    files = {str(file.relative_to(agents.FOLDER)) for file in agents.FOLDER.rglob("*.*")}
    matches: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        given = [
            named.get(each.id, each) if isinstance(each, ast.Name) else each for each in node.args
        ]
        words = [each.value if isinstance(each, ast.Constant) else None for each in given]
        program, *functions = words
        if program not in files:
            continue
        assert isinstance(program, str)
        if called(node) in SENT and asks(agents.program(program)):
            matches.add(program)
        elif called(node) in ("call", "defined"):
            functions = functions[:1] if called(node) == "call" else functions
            for name in functions:
                assert isinstance(name, str), f"{program}: the function is named by a literal"
                if asks(agents.functions(program, name)):
                    matches.add(name)
    return matches


def test_commands_of_slurm_are_written_with_their_readers() -> None:
    written = {name: matches for name, text in modules().items() if (matches := commands(text))}
    hint = "use a Question of corral.inspect, or a Command of corral.slurm.command"
    assert written.keys() == TEXTS_OF_PROBES.keys(), hint


def test_answers_of_slurm_are_read_by_their_question() -> None:
    imported = {name: matches for name, text in modules().items() if (matches := readers(text))}
    assert imported.keys() == READERS_OF_PROBES.keys(), "QUESTION.parse and Answer.read do it"


def test_programs_that_ask_slurm_themselves_are_listed() -> None:
    own = {
        str(file.relative_to(agents.FOLDER)): asks(file.read_text())
        for pattern in ("*.sh", "*.awk", "*.pl", "*.py")
        for file in sorted(agents.FOLDER.rglob(pattern))
    }
    assert {name for name, matches in own.items() if matches} == set(PROGRAMS)
    others = [file for file in sorted(SOURCE.glob("providers/**/programs/*")) if file.is_file()]
    assert others
    asking = {file.name for file in others if asks(file.read_text(errors="replace"))}
    assert asking == {"preemption.sh"}, "a unit on a spot machine: which of its jobs are to save"


def test_who_has_such_a_program_run_is_listed() -> None:
    run = {
        (module, matches)
        for module, text in modules().items()
        if not module.startswith(PROBES)
        for matches in sent(text)
    }
    assert run == set(CALLS), "a read of Slurm's state is a Question of corral.inspect"


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("sh(\"scontrol show config | sed -n 's/^A *= *//p'\")", {"scontrol"}),
        ("_A: Final = 'x; sacctmgr -nP show qos'\nsh(_A)", {"sacctmgr"}),
        ("sh('sacctmgr --noheader list user')", {"sacctmgr"}),
        ("sh('squeue -h -t {states} -o {format}', states=s, format=f)", {"squeue"}),
        ("sh('timeout 10 scontrol ping 2>&1 | grep -q UP')", {"scontrol"}),
        ("sh('a {more}', more=sh('scontrol -o show node {n}', n=n))", {"scontrol"}),
        ("call('prove/node.sh', 'x', 'sprio -h')", {"sprio"}),
        ("sh('srun --mpi=list 2>&1')", {"srun"}),
        ("Script('sinfo -h')", {"sinfo"}),
        ("run(('squeue', '--all', '--json'))", {"squeue"}),
        ("PING = ('timeout', BRIEF_S, 'scontrol', 'ping')", {"scontrol"}),
        ("ask([*('sacctmgr', '--parsable2'), 'show', 'user', name])", {"sacctmgr"}),
        ("hint('scontrol show config')", set()),
        ("sh('scontrol show hostnames $L; scontrol update {n}', n=n)", set()),
        ("words = ('sbatch', 'squeue')", set()),
    ],
)  # fmt: skip
def test_a_command_that_is_written_elsewhere_is_seen(text: str, matches: set[str]) -> None:
    assert commands(text) == matches


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("from corral.slurm.text import parse_nodes, SHOW_NODES", {"parse_nodes", "SHOW_NODES"}),
        ("from corral.slurm import text", {"text"}),
        ("from corral.slurm.steps import EXTERN, readable_steps", {"readable_steps"}),
        ("from corral.slurm.job_use import JobUse, parse_use", {"parse_use"}),
        ("from corral.slurm.diagnostics import cycle_exits, shares", {"shares"}),
        ("from corral.slurm.records import Node", set()),
    ],
)
def test_a_reader_that_is_used_elsewhere_is_seen(text: str, matches: set[str]) -> None:
    assert readers(text) == matches


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("call('gates/slurm.sh', 'nodes_seen')", {"nodes_seen"}),
        ("_P: Final = 'jobs/user.sh'\ncall(_P, 'array_queue', job)", {"array_queue"}),
        ("defined('slurmctld.sh', 'slurmctld_wait')", {"slurmctld_wait"}),
        ("program('wind-down.sh')", {"wind-down.sh"}),
        ("call('gates/slurm.sh', 'gpus_answer', 2)", set()),
    ],
)
def test_a_program_that_is_run_elsewhere_is_seen(text: str, matches: set[str]) -> None:
    assert sent(text) == matches
