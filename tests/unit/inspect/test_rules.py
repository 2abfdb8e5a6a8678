"""Rules over what machines report, and the table of who uses them."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import subprocess
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations, permutations
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral import agents
from corral.api.mesh.tailnet import MeshNode
from corral.api.operations import overview
from corral.api.page import job_templates
from corral.cli.main import VERBS
from corral.doctor import machine_report
from corral.doctor.catalog import catalog
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script, call
from corral.inspect import cpu, discovery, facts, gpu, rules
from corral.inspect.machine import CLOCK
from corral.inspect.nvidia import HostGpu
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
from corral.inspect.slurm import ENFORCED
from corral.inspect.storage import folder_answers
from corral.inspect.xids import Xid
from corral.prove import survey
from corral.prove.catalog import CHECKS
from corral.prove.context import ProveContext
from corral.providers.base import Observed
from corral.providers.containers.gpus import host_gpus
from corral.providers.local import gpus
from corral.roles.slurm.health import health_checks
from corral.slurm.adopt.rules import RULES as ADOPTION
from corral.slurm.states.jobs import JobState
from corral.slurm.states.nodes import NodeState
from corral.spec.load import load_or_raise
from corral.spec.sections.backup import ScheduledBackup
from corral.spec.sections.directory import Directory, DirectoryGroup
from corral.state.network.host_names import HostsBlock
from corral.state.system.enroot import UserNamespaces
from corral.web.schemas import NodeGpu
from corral.web.slurm.snapshot import NODE_COLUMNS

ROOT = Path(__file__).parents[3]
SPEC = load_or_raise(ROOT / "examples" / "laptop.yaml").model_copy(
    update={"backup": ScheduledBackup(every="1d")}
)
SOURCE = ROOT / "src/corral"
MODULES = {
    Observer.PROOF: ("prove",),
    Observer.BENCH: ("prove/measure",),
    Observer.DOCTOR: ("doctor",),
    Observer.STATUS: ("api/operations/overview.py",),
    Observer.PAGE: ("web", "api/page"),
    Observer.MESH: ("api/mesh",),
    Observer.DISCOVERY: ("api/config",),
    Observer.JOBS: ("jobs/upload",),
    Observer.THIS_MACHINE: ("providers/local",),
    Observer.CONTAINERS: ("providers/containers",),
}
PROGRAMS = {Observer.UP: ("state", "gates")}
"""Folders of ``agents`` with shell of observers that cannot import."""
HEALTH = agents.program("health.sh")
DECIDES = {
    Observer.PROOF: {c.id for c in CHECKS},
    Observer.BENCH: {path.stem for path in (SOURCE / "prove/measure").glob("*.py")},
    Observer.DOCTOR: {*catalog(), "--why-drained", "--why-pending"},
    Observer.STATUS: {"nodes", "units", "backup"},
    Observer.HEALTH: {f"health.{name}" for name in re.findall(r"(?m)^check_(\w+)\(\)", HEALTH)},
    Observer.PAGE: {*NODE_COLUMNS, *NodeGpu.__annotations__, job_templates.TEMPLATES},
    Observer.MESH: {field.name for field in dataclasses.fields(MeshNode)},
    Observer.DISCOVERY: {field.name for field in dataclasses.fields(discovery.DiscoveredMachine)},
    Observer.JOBS: set(VERBS),
    Observer.UP: {HostsBlock(()).id, UserNamespaces().id, "gates", "notes"},
    Observer.ADOPT: {rule.id for rule in ADOPTION},
    Observer.THIS_MACHINE: {field.name for field in dataclasses.fields(Observed)},
    Observer.CONTAINERS: {field.name for field in dataclasses.fields(Observed)},
}


PEOPLE = Directory(
    uris=("ldaps://ldap",), base="dc=x", groups=(DirectoryGroup(name="vision", account="vision"),)
)


def questions(observer: Observer) -> Sequence[Question[object]]:
    """What an observer asks some node."""
    context = ProveContext(SPEC, Fleet({}), "node0", "corral", {})
    ask = machine_report.Ask(
        ("node0",),
        ("slurmd",),
        mounts=("/shared",),
        controller=True,
        mesh=True,
        containers=True,
        shared="/shared",
        people=PEOPLE,
        backup=86400,
    )
    asked: dict[Observer, Sequence[Question[object]]] = {
        # Of a node's facts the proof judges its memory and processors.
        Observer.PROOF: (
            *survey.questions(("node0",), ("slurmd",), controller=True, people=PEOPLE),
            *(cpu.MEMORY, cpu.PROCESSORS),
        ),
        Observer.DOCTOR: machine_report.questions(ask),
        Observer.STATUS: overview.questions(context, "node0"),
        Observer.DISCOVERY: (CLOCK, *facts.QUESTIONS, *discovery.MORE),
        Observer.THIS_MACHINE: gpus.QUESTIONS,
        Observer.CONTAINERS: host_gpus.QUESTIONS,
    }
    return asked.get(observer, ())


def asked(observer: Observer) -> set[str]:
    """Names of the questions that an observer asks of some node."""
    return {question.name for question in questions(observer)}


NOT_RULES = frozenset({"rules_table"})
PARTS = {"Offset": "clock_offset", "on_loopback": "name_problems", "CLOCK_OFF_S": "clock_offset"}
"""What a rule is made of, where an observer uses that alone."""
OF_CLASSES = {"usable": NodeState, "takes_out": Xid}
"""Rules that are properties and methods."""
OF_XIDS = frozenset({"job_xids"})
"""Rules that only select from ``xids.yaml``."""


def uses(sources: Mapping[str, str]) -> set[str]:
    """Rules that modules import or read: each name of ``inspect.rules``, ``.usable`` and such."""
    names_used: set[str] = set()
    for name, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.ImportFrom(
                    module="corral.inspect.rules" | "corral.inspect.xids", names=names
                ):
                    names_used |= {alias.name for alias in names}
                case ast.ImportFrom(module="corral.inspect", names=names):
                    assert "rules" not in {alias.name for alias in names}, f"{name}: by its name"
                # RemapFault has a property of that name as well, which goes with its rule.
                case ast.Attribute(attr=attr, value=value) if attr in OF_CLASSES:
                    names_used |= {attr} - {"takes_out" if ast.unparse(value) == "fault" else ""}
                case _:
                    pass
    return {PARTS.get(name, name) for name in names_used} & {rule.name for rule in RULES}


def sources(where: Path) -> dict[str, str]:
    files = sorted(where.rglob("*.py")) if where.is_dir() else [where]
    return {str(file.relative_to(SOURCE)): file.read_text() for file in files}


def sources_of(observer: Observer) -> dict[str, str]:
    """Its modules; what is in a folder of another observer is that one's."""
    own = MODULES.get(observer, ())
    others = [where for each in MODULES.values() for where in each if where not in own]
    return {
        name: text
        for where in own
        for name, text in sources(SOURCE / where).items()
        if not any(name.startswith(f"{o}/") and o.startswith(f"{where}/") for o in others)
    }


def uses_shell(observer: Observer) -> set[str]:
    """Rules that are shell functions, in what an observer sends or runs."""
    texts = [question.shell for question in questions(observer)]
    texts += [
        agents.program(str(path.relative_to(SOURCE / "agents")))
        for folder in PROGRAMS.get(observer, ())
        for path in sorted((SOURCE / "agents" / folder).rglob("*.sh"))
    ]
    texts += [HEALTH] if observer is Observer.HEALTH else []
    return {
        rule.name
        for rule in RULES
        if rule.program and any(called(rule.name, text) for text in texts)
    }


def called(function: str, text: str) -> bool:
    """Whether a shell text defines a function and calls it."""
    commands = re.sub(r"(?m)^ *#.*$", "", text)
    return (
        re.search(rf"\b{function}\b(?!\(\))", commands) is not None and f"{function}()" in commands
    )


BY_HAND = frozenset({Observer.HEALTH, Observer.UP, Observer.ADOPT})
"""They cannot import: ``test_rules_elsewhere`` compares them with the rules."""


@pytest.mark.parametrize("observer", Observer)
def test_the_table_names_who_uses_a_rule(observer: Observer) -> None:
    """All that use it and no other; some are separate programs, or in rooms below."""
    own = {rule.name: rule.used_by[observer] for rule in RULES if observer in rule.used_by}
    assert own
    in_shell = {rule.name for rule in RULES if rule.program}
    assert set(own) & in_shell == uses_shell(observer)
    if observer not in BY_HAND:
        assert set(own) - in_shell == uses(sources_of(observer))
    for name, use in own.items():
        assert set(use.decides) <= DECIDES[observer], name
        assert set(use.asks) <= asked(observer), name


def test_a_use_that_the_table_lacks_is_seen() -> None:
    imported = "from corral.inspect.rules import key_ends, UnitState"
    assert uses({"a": imported, "b": "x = node.usable"}) == {"key_ends", "usable"}
    assert called("ping_is_up", 'ping_is_up() { x; }\nping_is_up "$p"')
    assert not called("ping_is_up", "ping_is_up() { x; }\n# ping_is_up")


def test_nobody_else_uses_a_rule() -> None:
    """Who imports ``inspect.rules`` is an observer of the table."""
    users = {
        name
        for name, text in sources(SOURCE).items()
        if "corral.inspect.rules" in text and not name.startswith("inspect/")
    }
    observed = {name for observer in MODULES for name in sources_of(observer)}
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


SOURCES = (
    r"/(?:proc|sys|dev|etc)/[\w./-]*\w",
    r"\b(?:ecc\.errors|remapped_rows|pcie\.link|pci|mig|power|clocks|temperature)\.\w+",
    r"\bMemTotal\b|\bue_count\b|query-remapped-rows",
    r"(?<=\[ )(?:! )?-[cw](?= )",
    r"\b(?:scontrol show|scontrol|sacctmgr|systemctl|nvidia-smi|ip -o(?: -4)?|stat -f|getent)"
    r" -?\w[\w-]*",
    r"\b(?:squeue|sinfo|df|dmesg|journalctl -k|unshare|chronyc|mktemp|date|findmnt|lsmod|sysctl)\b",
    r"\b(?:ulimit|swapon|ethtool|ibstat|timedatectl|lscpu|ldconfig|sha256sum|own_name_lines)\b",
)
"""Where facts of a machine come from, in shell: files, fields of nvidia-smi, tests, commands."""
SAME = {
    **{"journalctl -k": "dmesg", "folder_read_only": "mktemp", "! -c": "-c", "! -w": "-w"},
    "own_name_lines": "getent ahostsv4",
    **{'"$proc"': "/proc", '"$sys"': "/sys", "$proc/": "/proc/", "$sys/": "/sys/"},
    '"$smi"': "nvidia-smi",
}
"""Two ways to one fact, and health's names of paths."""


def reads(text: str) -> set[str]:
    """Which facts of a machine a program reads."""
    commands = re.sub(r"(?m)^ *#.*$", "", text).replace("/dev/null", "")
    for spelling, common in SAME.items():
        commands = commands.replace(spelling, common)
    return {read for source in SOURCES for read in re.findall(source, commands)}


def health_check(name: str) -> str:
    """A check of the health program, with the commands that were begun for it."""
    (body,) = re.findall(rf"(?ms)^check_{name}\(\) \{{\n.*?^\}}$", HEALTH)
    lines = [
        line
        for line in HEALTH.splitlines()
        for begun in re.findall(r'\bbegin "?(\w+)', line)
        if re.search(rf'(?:status|readable) "?{begun}|work/{begun}\b', body)
    ]
    return "\n".join([body, *(queried(line, body) for line in lines)])


def queried(line: str, body: str) -> str:
    """A command of nvidia-smi with those fields only whose columns a check's awk reads."""
    match = re.search(r"--query-gpu=(\S+)", line)
    if match is None:
        return line
    used = {int(number) for number in re.findall(r"\$(\d+)", body)} - {1, 2} or {1, 2}
    fields = [field for n, field in enumerate(match[1].split(","), 1) if n in used]
    return line.replace(match[1], ",".join(fields))


def units() -> dict[Observer, dict[str, set[str]]]:
    """What each observer reads, by question, check or measurement."""
    by_observer = {
        observer: {question.name: reads(question.shell) for question in questions(observer)}
        for observer in Observer
    }
    checks = re.findall(r"(?m)^check_(\w+)\(\)", HEALTH)
    by_observer[Observer.HEALTH] = {f"health.{name}": reads(health_check(name)) for name in checks}
    by_observer[Observer.BENCH] = {
        path.stem: reads(path.read_text())
        for path in sorted((SOURCE / "agents/benchmarks").glob("*.py"))
    }
    for name in WRITTEN:
        del by_observer[Observer.DISCOVERY][name]
    return by_observer


# Discovery writes their answers into the cluster file, and judges none of them.
WRITTEN = ("memory", "processors", "devices", "minors", "addresses", "disks", "model", "nics",
           "mesh", "container", "slurmd", "lscpu", "topology")  # fmt: skip
# Read by two observers, and no common rule: by whom, and why these are two facts.
NO_RULE: dict[str, tuple[set[str], str]] = {
    "-c": (
        {"containers and doctor", "containers and health"},
        "containers: the driver's control files, which no GPU has for itself",
    ),
    "/dev/nvidia": ({"containers and doctor"}, "as -c"),
    "/proc/meminfo": (
        {"bench and proof", "bench and health"},
        "bench: how much of it its buffers may take",
    ),
    "/sys/class/net": (
        {"bench and discover"},
        "discover: what is Wi-Fi; bench: MTU and speed of the interface that carries data",
    ),
    "date": (
        {"proof and status", "discover and status", "health and status"},
        "status: the age of the last backup by the controller's own clock",
    ),
    "df": ({"doctor and health"}, "F67 and health.disk: see inspect.rules"),
    "dmesg": (
        {"bench and doctor", "doctor and health"},
        "the doctor names the failure of a message and judges no node by it (test_xids)",
    ),
    "ip -o -4 addr": (
        {"discover and doctor"},
        "discover: what came by DHCP; the doctor: whose interface it is",
    ),
    "mig.mode": (
        {"bench and containers", "bench and this machine"},
        "bench: a figure of the record, not judged",
    ),
    "pci.bus_id": (
        {
            *("bench and containers", "bench and this machine"),
            *("bench and discover", "bench and health"),
        },
        "bench: the name of a GPU in its record, not judged",
    ),
    "scontrol show config": (
        {"health and proof"},
        "health: the controller's time, which is printed above the settings",
    ),
    "squeue": (
        {"doctor and health", "doctor and status", "health and status"},
        "health: processes a minute after their job ended; the doctor: slurmstepd of a job that "
        "Slurm does not know (F201); the status counts jobs",
    ),
}


def covered(read: str, first: Observer, second: Observer, by: Mapping[Observer, Units]) -> bool:
    """Whether a rule is of both, and each judges this fact by it."""
    for rule in RULES:
        if first in rule.used_by and second in rule.used_by:
            names = [
                [*rule.used_by[each].asks, *rule.used_by[each].decides] for each in (first, second)
            ]
            both = zip((first, second), names, strict=True)
            if all(any(read in by[o].get(name, ()) for name in own) for o, own in both):
                return True
    return False


def unruled(by: Mapping[Observer, Units]) -> dict[str, set[str]]:
    """Facts that two observers read without a common rule: pairs of observers by fact."""
    pairs: dict[str, set[str]] = {}
    for first, second in combinations(by, 2):
        every = [set[str]().union(*by[each].values()) for each in (first, second)]
        for read in every[0] & every[1]:
            if not covered(read, first, second, by):
                pairs.setdefault(read, set()).add(" and ".join(sorted((first, second))))
    return pairs


Units = Mapping[str, AbstractSet[str]]


def test_what_two_observers_read_has_a_rule() -> None:
    """A fact that a second observer reads, under whatever name, is judged by a rule of both."""
    assert unruled(units()) == {read: by for read, (by, _) in NO_RULE.items()}


def test_what_two_observers_read_is_seen() -> None:
    """Under two names, and where the rule is of one of them only."""
    own = {
        Observer.DOCTOR: {"devices": reads(gpu.DEVICES.shell)},
        Observer.HEALTH: {"health.pcie": reads('for f in $files; do [ -c "/dev/nvidia$f" ]; done')},
    }
    both = {"doctor and health"}
    assert unruled(own) == {"/dev/nvidia": both, "-c": both}
    own[Observer.HEALTH] = {"health.gpus": own[Observer.HEALTH]["health.pcie"]}
    assert unruled(own) == {}
    assert "remapped_rows.pending" in reads(health_check("remap"))
    assert "dmesg" in reads("journalctl -k --since -1h") & reads(health_check("xid"))


def test_a_question_of_two_observers_is_one_question() -> None:
    """With one parser; its shell too, but for the names in it."""
    by_name: dict[str, set[object]] = {}
    for observer in Observer:
        for question in questions(observer):
            by_name.setdefault(question.name, set()).add(question.parse)
    assert not {name: parsers for name, parsers in by_name.items() if len(parsers) > 1}


def repeated(by_place: Mapping[str, object]) -> list[list[str]]:
    """Places of questions whose shell is the same, and is written twice."""
    places: dict[str, dict[int, str]] = {}
    for place, value in by_place.items():
        if isinstance(value, Question) and value.shell:
            places.setdefault(value.shell, {}).setdefault(id(value.shell), place)
    return [list(several.values()) for several in places.values() if len(several) > 1]


def test_no_question_is_written_twice() -> None:
    """Nor made twice by one function, with the same words."""
    values: dict[str, object] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        if "inspect.question" in (text := path.read_text()) or "inspect.slurm" in text:
            values |= {f"{name}.{k}": v for k, v in vars(importlib.import_module(name)).items()}
    assert any(isinstance(value, Question) for value in values.values())
    assert repeated(values) == []


def test_a_question_written_twice_is_seen() -> None:
    copied = dataclasses.replace(ENFORCED, shell=Script("".join(list(ENFORCED.shell))))
    assert repeated({"a.X": ENFORCED, "b.X": ENFORCED, "c.Y": copied}) == [["a.X", "c.Y"]]


def failures() -> dict[str, dict[Observer, set[str]]]:
    """Failures of the doctor's catalogue by the observers that find them, and what in them does."""
    by_failure: dict[str, dict[Observer, set[str]]] = {}

    def add(failure: str, observer: Observer, decides: str) -> None:
        by_failure.setdefault(failure, {}).setdefault(observer, set()).add(decides)

    for check in health_checks().values():
        add(check.failure, Observer.HEALTH, check.id)
    for name, text in sources_of(Observer.DOCTOR).items():
        if not name.startswith("doctor/logs/"):
            for failure in re.findall(r'finding\(\s*"(F\d+)"', text):
                add(failure, Observer.DOCTOR, failure)
    for name, text in sources_of(Observer.BENCH).items():
        for failure in re.findall(r'"(F\d+)"', text):
            add(failure, Observer.BENCH, Path(name).stem)
    return by_failure


# Found by two observers, and no common rule: why these are two facts.
OTHER_FACTS = {
    "F18": "the doctor: a port is closed; bench network: a packet of UDP does not arrive",
    "F37": "the doctor: addresses in one subnet; bench network: which interface carried the bytes",
    "F67": "see inspect.rules",
    "F79": "bench gpu: rates of copies between GPUs; health.nvlink: links that are up",
}


CAUSES_IN_FILES = {
    "what files declare of who logs on to whom; the doctor: keys and daemons of the cluster in use":
        "auth-slurm-possible authentication setup-munge-key",
    "a setting or a script that lets files differ later; the doctor: files that differ now":
        "fault-hidden setup-one-copy",
    "one file of hosts, without DNS; the doctor: what the resolver of each node answers":
        "host-differs hosts-entry hosts-incomplete node-addr-missing",
    "two files that do not agree; health.gpus: what a GPU of the node answers":
        "gres-conf-missing gres-mismatch gres-record",
    "a node's line of slurm.conf compared with gres.conf; the doctor: GresTypes and any Gres":
        "gres-not-on-node",
    "what AutoDetect will find by its library; the doctor: what slurmd found": "gres-autodetect",
    "other settings of isolation than those of file_faults": "cores-memory-open process-tracking",
    "an owner that files and scripts declare; the doctor: slurmctld refuses a folder":
        "setup-uid slurm-uid-differs slurm-user-root",
    "which ports are declared; the doctor and bench network: whether one answers": "ports",
    "versions of recorded machines among themselves; the doctor: slurmd's and slurmctld's now":
        "slurm-version-mix",
    "a declared limit that jobs inherit; the doctor: the limit that slurmd has": "memlock",
    "settings of accounting that need each other; the doctor: slurmdbd's own state":
        "accounting accounting-enforced partition-qos slurmdbd-differs slurmdbd-needed",
}  # fmt: skip
"""Rules of adoption that find the cause of a failure in files, where others find its effect."""


def test_a_failure_that_two_observers_find_has_a_rule() -> None:
    """Each check or measurement that finds a failure, with each other observer that finds it."""
    several = {name: by for name, by in failures().items() if len(by) > 1}
    assert {"F71", "F68", "F78"} <= several.keys()

    def ruled(first: Observer, decides: str, second: Observer, others: set[str]) -> bool:
        return any(
            decides in rule.used_by[first].decides and others & {*rule.used_by[second].decides}
            for rule in RULES
            if first in rule.used_by and second in rule.used_by
        )

    unruled_failures = {
        name
        for name, by in several.items()
        for first, second in permutations(by, 2)
        for decides in by[first]
        if not ruled(first, decides, second, by[second])
    }
    assert unruled_failures == set(OTHER_FACTS)
    judged = {
        rule.id
        for rule in ADOPTION
        for failure in re.findall(r"F\d+", rule.failure)
        for second, others in failures().get(failure, {}).items()
        if not ruled(Observer.ADOPT, rule.id, second, others)
    }
    assert judged == set(" ".join(CAUSES_IN_FILES.values()).split())


def test_every_rule_is_in_the_table() -> None:
    functions = {
        name
        for name, value in vars(rules).items()
        if inspect.isfunction(value) and value.__module__ == rules.__name__ and name[0] != "_"
    }
    shell = {rule.name for rule in RULES if rule.program}
    assert (functions - NOT_RULES - {*PARTS}) | {*OF_CLASSES} | OF_XIDS | shell == {
        r.name for r in RULES
    }
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(hasattr(owner, name) for name, owner in OF_CLASSES.items())
    for rule in RULES:
        assert not rule.program or agents.functions(rule.program, rule.name)


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
    problem = driver_problem(loaded, (), tuple(map(PurePosixPath, programs)))
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
