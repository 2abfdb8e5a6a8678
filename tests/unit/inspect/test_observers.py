"""What a question of the table observes is observed by no other room's shell.

Slurm's own commands are in ``test_slurm_commands``. Programs that run on nodes without Corral, and
probes and changes of resources, are left out: they decide on the node what they do.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from corral import agents
from corral.hosts.quote import Script
from corral.inspect import (
    cpu,
    gpu,
    machine,
    mesh,
    network,
    nvidia,
    services,
    storage,
    system,
)
from tests.unit.agents.senders import kept, taken
from tests.unit.inspect.test_slurm_commands import called, constants, modules, shells

ROOMS = ("state/", "roles/", "testing/", "jobs/batch/")
"""Who makes text that a node keeps, or probes and changes of a resource."""
OBSERVED = {
    "sockets": r"/proc/(?:self/)?net/tcp|\bss -",
    "routes": r"/proc/(?:self/)?net/(?:route|fib_trie)|\bip -o",
    "mounts": r"/proc/(?:self/)?mount(?:s|info)\b|\bfindmnt\b|\bmountpoint\b",
    "folders": r"\bstat -f\b",
    "room": r"\bdf -",
    "names": r"\bgetent a?hosts",
    "units": r"\bis-active\b",
    "limits": r"\bLimitMEMLOCK\b",
    "system": r"/etc/os-release|/proc/1/comm",
    "cpus": r"\blscpu\b|\bslurmd -C\b|/proc/meminfo|/proc/cpuinfo",
    "gpus": r"\bnvidia-smi\b|/proc/driver/nvidia|/dev/nvidia\[",
    "driver": r"\bldconfig -p\b",
    "tailnet": r"\btailscale status\b",
    "load": r"/proc/loadavg",
    "firewall": r"/etc/ufw/ufw\.conf|\bfirewall-cmd\b|\bnft list\b|\biptables -S\b",
}
"""What the table asks for, by how a shell reads it."""
OTHERS = {
    ("api/mesh/tailnet.py", "tailnet_is_online"): "a gate waits until a new key is taken",
    (
        "api/evidence/collective_bench.py",
        "benchmarks/collectives.py",
    ): "a rank of the benchmark sizes buffers",
    ("api/operations/restore.py", "slurm_copy_once"): "copies the database, and starts slurmdbd "
    "only where it ran",
    (
        "jobs/usage.py",
        "jobs/batch/use-sample.sh",
    ): "a job's own script samples it as long as it runs",
    ("prove/checks/access.py", "proof-devices.pl"): "what a session within a job can open",
    ("prove/checks/nccl.py", "benchmarks/collectives.py"): "a rank of the benchmark sizes buffers",
    ("prove/launch.py", "proof-devices.pl"): "what a job can open",
    ("prove/probe.py", "proof-devices.pl"): "what a job can open",
    (
        "providers/containers/container.py",
        "containers/stand-ins.sh",
    ): "a container's start makes it",
    ("providers/containers/gpus/host_gpus.py", "containers/host-gpus.sh"): "a container's start: "
    "the files of its host's driver",
    ("providers/containers/image.py", "containers/image-own.sh"): "the build of an image",
}
"""Where another room has a program or a function run that reads the same, with the reason."""
SENT = ("program", "shipped", "filled", "piece")


def facts(text: str) -> set[str]:
    """What shell text observes that the table asks for."""
    lines = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    return {name for name, pattern in OBSERVED.items() if re.search(pattern, lines)}


def written(text: str) -> set[str]:
    """Facts that shell text of a module observes."""
    return {fact for shell in shells(ast.parse(text)) for fact in facts(shell)}


def texts_of_others(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Programs that a module takes from another one's function or constant, Questions left out."""
    for place, name in taken(tree):
        if place.startswith("inspect/"):
            continue
        for program in kept().get(place, {}).get(name, set[str]()):
            yield program, agents.program(program)


def texts_sent(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Programs, and functions of programs, that a module has run, each with its text."""
    yield from texts_of_others(tree)
    named = constants(tree)
    files = {str(file.relative_to(agents.FOLDER)) for file in agents.FOLDER.rglob("*.*")}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        given = [
            named.get(each.id, each) if isinstance(each, ast.Name) else each for each in node.args
        ]
        program, *rest = [each.value if isinstance(each, ast.Constant) else None for each in given]
        if program not in files or not isinstance(program, str):
            continue
        if called(node) in SENT:
            yield program, agents.program(program)
        elif called(node) in ("call", "defined"):
            for name in rest[:1] if called(node) == "call" else rest:
                assert isinstance(name, str), f"{program}: the function is named by a literal"
                yield name, agents.functions(program, name)


def sent(text: str) -> set[str]:
    """Programs and functions with such facts that a module has run."""
    return {name for name, program in texts_sent(ast.parse(text)) if facts(program)}


def observers() -> dict[str, str]:
    """Modules that observe machines; the page's reference makes programs for its own examples."""
    rooms = (*ROOMS, "web/reference/")
    return {name: text for name, text in modules().items() if not name.startswith(rooms)}


def test_the_table_asks_for_each_fact() -> None:
    """A pattern that no question has finds nothing elsewhere either."""
    rooms = (cpu, gpu, machine, mesh, network, nvidia, services, storage, system)
    own = [
        value.shell for room in rooms for value in vars(room).values() if hasattr(value, "shell")
    ]
    own += [
        storage.mounts(("/a",)).shell,
        services.units(("a",)).shell,
        machine.names(("a",)).shell,
    ]
    table = "\n".join(text for text in own if isinstance(text, Script))
    assert facts(table) == set(OBSERVED)


def test_no_other_room_writes_shell_that_reads_the_same() -> None:
    assert {name: seen for name, text in observers().items() if (seen := written(text))} == {}


def test_who_has_a_program_run_that_reads_the_same_is_listed() -> None:
    run = {(name, each) for name, text in observers().items() for each in sent(text)}
    assert run == set(OTHERS), "what a machine is, is a Question of corral.inspect"


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("sh('cat /proc/net/tcp6')", "sockets"),
        ("_A: Final = 'x; df -P /tmp'\nsh(_A)", "room"),
        ("sh('{more}', more=sh('systemctl is-active {u}', u=u))", "units"),
        ("call('prove/node.sh', 'x', 'stat -f -c %T /a')", "folders"),
    ],
)
def test_shell_that_reads_the_same_is_seen(text: str, fact: str) -> None:
    assert written(text) == {fact}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("call('folder-answer.sh', 'folder_answer', '/a', 1)", "folder_answer"),
        ("_P: Final = 'state/mounts.sh'\ndefined(_P, 'mounted_from')", "mounted_from"),
        ("program('health.sh')", "health.sh"),
        ("from corral.roles.slurm.health import program\nsh('{p}', p=program())", "health.sh"),
        ("from corral.roles.slurm import health\nsh('{p}', p=health.program())", "health.sh"),
        ("from corral.prove.probe import DEVICES\nprogram(DEVICES)", "proof-devices.pl"),
    ],
)
def test_a_program_that_reads_the_same_is_seen(text: str, name: str) -> None:
    assert sent(text) == {name}
