"""Tables of data: valid, and a fault in one is named by file, line and column."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeGuard

import pytest

from corral.cli.rest_verbs import rest_verbs
from corral.cli.terminal.slurm_options import words_of_others
from corral.doctor.catalog import catalog
from corral.doctor.logs import counter_evidence
from corral.doctor.logs.fatal_lines import fatal_table
from corral.doctor.logs.message_reader import error_numbers, readings
from corral.doctor.logs.narrower_causes import causes
from corral.doctor.model import system_errors
from corral.errors import Code, CorralError
from corral.hosts.ssh_errors import ssh_errors
from corral.inspect.gpu import gpu_types
from corral.inspect.xids import xids
from corral.mesh.control import control_hints
from corral.prove.checks.nccl import virtual_nics
from corral.prove.fabric.hardware import known_hardware
from corral.prove.measure.gpu import gpu_models, gpu_states
from corral.prove.rounds import round_hints
from corral.providers.cloud.errors import rows_of
from corral.providers.containers.podman import podman_errors
from corral.providers.containers.recipe import recipe_table
from corral.providers.gcp.blueprint.releases import Module, known_releases, modules
from corral.providers.gcp.figures import Figures, figures
from corral.providers.gcp.gcluster import gcluster_hints
from corral.providers.gcp.machines import gpu_machines
from corral.providers.paperspace.offers import prices
from corral.providers.ssh.deepops.adoption import variables
from corral.roles.machine.containers import known_files
from corral.roles.machine.nccl_plugin import PLUGINS
from corral.roles.machine.nvidia import keyrings
from corral.roles.slurm.health import health_checks
from corral.slurm.adopt.carried import carried
from corral.slurm.adopt.queues import DEFAULTS
from corral.slurm.adopt.rules.gres import AUTODETECT
from corral.slurm.adopt.rules.values import NEEDS, REPLACEMENTS
from corral.slurm.advisories import shipped
from corral.slurm.conf.sizes import sizes
from corral.slurm.diagnostics import cycle_exits
from corral.slurm.directives import sbatch_options
from corral.slurm.policy import known_limits
from corral.slurm.states.jobs import exit_codes, job_states
from corral.slurm.states.nodes import NodeBase, node_bases, node_flags
from corral.slurm.states.reasons import Reasons, reasons
from corral.slurm.topology import link_speeds
from corral.spec.format.deprecations import deprecations
from corral.spec.providers import CLOUDS, PROVIDERS, Capabilities
from corral.spec.rules.drivers import driver_table
from corral.spec.rules.shared_resources import system
from corral.spec.slurm.keys import key_table, obsolete_table, slurm_keys, word_table
from corral.spec.slurm.releases import features, releases
from corral.spec.slurm.tarballs import tarballs
from corral.spec.slurm.written_keys import all_keys
from corral.spec.systems import distributions
from corral.tables import Hint, Row, parse_table
from corral.web.login.oidc import open_issuers

TEXT = """\
# Two animals.
- name: cow
  legs: 4
- name: hen
  legs: 2
"""


class Animal(Row):
    name: str
    legs: int
    young: tuple[str, ...] = ()


def refused(text: str) -> str:
    with pytest.raises(CorralError) as caught:
        parse_table(text, "animals.yaml", tuple[Animal, ...])
    assert caught.value.code is Code.PARSE_FAILED
    return caught.value.message


def test_rows_are_read() -> None:
    rows = parse_table(TEXT, "animals.yaml", tuple[Animal, ...])
    assert [(row.name, row.legs) for row in rows] == [("cow", 4), ("hen", 2)]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (TEXT.replace("legs: 2", "legs: two"), "animals.yaml:5:3: 1.legs: Input should be"),
        (TEXT.replace("legs: 2", "wings: 2"), "animals.yaml:4:3: 1.legs: Field required"),
        (TEXT.replace("legs: 2", "wings: 2"), "animals.yaml:5:3: 1.wings: Extra inputs"),
        (TEXT + "  young: [chick, 7]\n", "animals.yaml:6:18: 1.young.1: Input should be"),
        (TEXT + "- cat\n", "animals.yaml:6:3: 2: Input should be"),
        (TEXT + "- name: [\n", "line 7, column 1"),
        ("", "animals.yaml:1:1: "),
    ],
)
def test_a_fault_is_named_with_its_place(text: str, place: str) -> None:
    assert place in refused(text)


@pytest.mark.parametrize(
    ("file", "kind", "line", "broken", "place"),
    [
        ("slurm/states/reasons.yaml", Reasons, "- word: Priority", "- word: [Priority]",
         ":8:3: words.0.word: Input should be"),
        ("slurm/states/reasons.yaml", Reasons, "families:", "family:", ": families: Field"),
        ("providers/gcp/gcluster_hints.yaml", tuple[Hint, ...],
         "- pattern: '(?i)reservation'", "- pattern: '(?i)(reservation'",
         ":16:3: 6.pattern: Value error, not a regular expression: missing )"),
    ],
)  # fmt: skip
def test_a_fault_in_a_table_of_messages_is_named_with_its_place(
    *, repo: Path, file: str, kind: type[object], line: str, broken: str, place: str
) -> None:
    path = repo / "src/corral" / file
    text = path.read_text()
    assert text.count(f"{line}\n") == 1
    with pytest.raises(CorralError) as caught:
        parse_table(text.replace(line, broken), path.name, kind)
    assert path.name in caught.value.message
    assert place in caught.value.message


def test_all_faults_are_named_at_once() -> None:
    assert refused(TEXT.replace("legs:", "legs: x")).count("animals.yaml:") == 2


def about_systems() -> tuple[object, ...]:
    """Tables about other systems: Linux, and those that people log in with."""
    return system_errors(), system(), open_issuers()


def test_tables_that_come_with_corral_are_valid() -> None:
    assert all(
        [
            *(rest_verbs(), known_hardware()),
            PLUGINS,
            virtual_nics(),
            gpu_models(),
            gpu_types(),
            health_checks(),
            xids(),
            all_keys(),
            key_table().groups,
            word_table().groups,
            obsolete_table(),
            AUTODETECT,
            REPLACEMENTS,
            NEEDS,
            carried(),
            cycle_exits(),
            DEFAULTS,
            releases(),
            features(),
            ssh_errors(),
            keyrings(),
            known_files(),
            tarballs(),
            reasons().words,
            gcluster_hints(),
            prices(),
            round_hints(),
            node_flags(),
            job_states(),
            exit_codes(),
            *(known_limits(), slurm_keys(), sizes()),
            sbatch_options(),
            driver_table().toolkits,
            gpu_states().slowed,
            podman_errors(),
            recipe_table(),
            distributions(),
            control_hints(),
            link_speeds(),
            catalog(),
            fatal_table().fatal,
            error_numbers(),
            readings(),
            counter_evidence.table(),
            causes(),
            words_of_others(),
            *about_systems(),
            shipped(),
            variables(),
            figures(),
            gpu_machines(),
            PROVIDERS,
            known_releases().releases,
            *map(rows_of, (*(PROVIDERS[c].folder for c in CLOUDS), "cloud", "gcp")),
            *map(modules, known_releases().releases),
        ]
    )


def test_each_base_of_nodes_has_a_row() -> None:
    assert set(node_bases()) == set(NodeBase)


NOT_TABLES = {
    "roles/data/dashboard.json": "of Grafana, which reads it",
    "roles/data/alerts.yml": "of Prometheus, which reads it",
}
"""Data files that programs of others read."""
DATA = {".yaml", ".yml", ".toml", ".json", ".csv", ".tsv", ".ini", ".cfg", ".xml"}

BREAK = """\
import corral.tables as tables
from corral.errors import CorralError

def broken(text, name):
    if name.endswith(".toml"):
        return f"no_such_field = 1\\n{text}", 1
    begins = next(line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    mark = "- " if begins.startswith("- ") else ""
    return f"{text}{mark}no_such_field: [[1]]\\n", text.count("\\n") + 1

original, kinds = tables.parse_table, set()

def parsed(text, name, kind):
    if str(kind) in kinds:
        print(name, "read")
        return original(text, name, kind)
    kinds.add(str(kind))
    wrong, line = broken(text, name)
    try:
        original(wrong, name, kind)
        print(name, "taken")
    except CorralError as error:
        column = 3 if "- no_such_field" in wrong else 1
        print(name, "refused" if f"{name}:{line}:{column}: " in error.message else error.message)
    return original(text, name, kind)

tables.parse_table = parsed
from tests.unit import test_tables
test_tables.test_tables_that_come_with_corral_are_valid()
test_tables.test_each_base_of_nodes_has_a_row()
test_tables.test_fields_that_go_are_a_table()
"""
"""Reads every table, and the first one of each model with a fault at a known place too."""


def test_fields_that_go_are_a_table() -> None:
    """``test_deprecations.py`` judges the rows."""
    assert all(row.since for row in deprecations())


def test_every_data_file_is_read_through_a_model_that_names_faults_by_place(repo: Path) -> None:
    source = repo / "src/corral"
    files = {
        str(file.relative_to(source))
        for file in source.rglob("*")
        if file.suffix in DATA and not file.is_relative_to(source / "web/static")
    }
    report = subprocess.run(
        [sys.executable, "-c", BREAK], cwd=repo, capture_output=True, text=True, check=True
    ).stdout
    read = {line.partition(" ")[0] for line in report.splitlines()}
    assert files - read == set(NOT_TABLES), "read it by corral.tables, and add it to the test above"
    wrong = [line for line in report.splitlines() if not line.endswith((" refused", " read"))]
    assert not wrong, wrong
    assert report.count(" refused") > 30


@pytest.mark.parametrize(
    ("file", "kind", "right", "wrong", "place"),
    [
        ("providers/gcp/blueprint/toolkit.yaml", dict[str, dict[str, Module]],
         "      allowed_ssh_ip_ranges: list\n", "      allowed_ssh_ip_ranges: lists\n",
         "toolkit.yaml:11:7: v1.39.0.modules/network/vpc.settings.allowed_ssh_ip_ranges: String"),
        ("providers/gcp/provider.toml", Capabilities, 'fabric = "tcpxo"', "fabric = 7",
         "provider.toml:17:1: machines.a3-megagpu-8g.fabric: Input should be a valid string"),
        ("providers/gcp/provider.toml", Capabilities, 'vendor = "Google"\nfabric', "fabric",
         "provider.toml:14:1: machines.a3-megagpu-8g.vendor: Field required"),
        ("providers/ssh/provider.toml", Capabilities, '"static"', "3",
         "provider.toml:7:1: aliases.2: Input should be a valid string"),
        ("providers/runpod/provider.toml", Capabilities, 'clusters = 2', 'clusters = "two"',
         "provider.toml:15:1: rental.clusters: Input should be a valid integer"),
        ("providers/runpod/provider.toml", Capabilities, "pods = true", "pods true",
         "provider.toml: Expected '=' after a key in a key/value pair (at line 16, column 6)"),
        ("providers/gcp/figures.yaml", Figures, "cpu_quota: N2_CPUS", "cpu_quota: [N2_CPUS]",
         "figures.yaml:7:1: cpu_quota: Input should be a valid string"),
    ],
)  # fmt: skip
def test_a_fault_in_a_providers_data_is_named_with_its_place(
    *, repo: Path, file: str, kind: type[object], right: str, wrong: str, place: str
) -> None:
    path = repo / "src/corral" / file
    text = path.read_text()
    with pytest.raises(CorralError) as caught:
        parse_table(text.replace(right, wrong, 1), path.name, kind)
    assert place in caught.value.message


RELEASE = re.compile(r"\d{1,2}\.\d{1,2}")
"""A release of Slurm, Ubuntu, Python or CUDA."""
FIGURES = 3
"""Rows from which on constants are a table."""


NAMES = 8
"""Words, rows of names or classes with plain values from which on constants are a table."""


def tables_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Constants of a module that are tables: of figures or advice by a key, or of many names."""
    divided = {of.id for of in map(divided_text, ast.walk(tree)) if isinstance(of, ast.Name)}
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case _:
                continue
        texts = [divided_text(part) for part in ast.walk(value)]
        texts += [value] if name in divided else []
        while isinstance(value, ast.Call) and value.args:
            value = value.args[0]
        rows = list(rows_of_value(value))
        if (
            any(is_text(text) and len(str(text.value).split()) >= NAMES for text in texts)
            or sum(is_datum(key, *rest) for key, *rest in rows if rest) >= FIGURES
            or sum(all(map(is_plain, row)) for row in rows) >= NAMES
        ) and name != "__all__":
            yield node.lineno, name


def divided_text(node: ast.AST) -> ast.expr | None:
    """What a call divides into words or lines."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="split" | "splitlines")):
            return value
        case _:
            return None


def rows_of_value(value: ast.expr) -> Iterator[list[ast.expr]]:
    """The parts of each row of a collection; of a call its arguments.

    A row that names a function is code, as a rule or a role is.
    """
    match value:
        case ast.Dict(keys=keys, values=values):
            yield from ([k, v] for k, v in zip(keys, values, strict=True) if k is not None)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                match part:
                    case ast.Starred(value=ast.Tuple() as more):
                        yield from rows_of_value(more)
                    case ast.Tuple(elts=[_, _, *_] as cells):
                        yield cells
                    case ast.Call() if is_plain(part) and len(given_to(part)) > 1:
                        yield given_to(part)
                    case ast.Constant(value=str()):
                        yield [part]
                    case _:
                        pass
        case _:
            pass


def is_plain(part: ast.expr) -> bool:
    """A text, a number, a constant, a member of an enumeration, or a class or tuple of these."""
    match part:
        case ast.Tuple(elts=parts):
            return all(map(is_plain, parts))
        case ast.Call(func=ast.Name(id=kind)) if kind.strip("_")[:1].isupper():
            return all(map(is_plain, given_to(part)))
        case ast.Name(id=name):
            return name.isupper()
        case _:
            return isinstance(part, ast.Constant | ast.Attribute)


def given_to(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call."""
    return [*call.args, *(named.value for named in call.keywords)]


SIZE = 100
"""Whole numbers from which on one is a size or a limit; smaller ones are orders and counts."""
LONG = 3
"""Texts next to its key from which on a row is one of a table."""


def is_datum(key: ast.expr, *rest: ast.expr) -> bool:
    """A number, a measure, a release or a list of texts by a written key, or a sentence by one.

    A member of an enumeration is a written key too, and so is a tuple of these: what has a key
    of several parts is a datum, whatever it is.
    """
    if not is_written(key):
        return False
    if isinstance(key, ast.Tuple) and any(map(is_written, rest)):
        return True
    value = rest[0] if len(rest) == 1 else ast.Tuple([*rest])
    values = [part.value for part in ast.walk(value) if isinstance(part, ast.Constant)]
    if isinstance(value, ast.Tuple) and len(value.elts) >= LONG and all(map(is_text, value.elts)):
        return True
    return any(
        type(v) is float
        or (type(v) is int and v >= SIZE)
        or (isinstance(v, str) and (v.count(" ") > 2 or RELEASE.fullmatch(v)))
        for v in values
    )


def is_written(key: ast.expr) -> bool:
    """A literal, a member of an enumeration, or a tuple of these."""
    if isinstance(key, ast.Tuple):
        return all(map(is_written, key.elts))
    return isinstance(key, ast.Constant | ast.Attribute)


def is_text(part: ast.expr | None) -> TypeGuard[ast.Constant]:
    return isinstance(part, ast.Constant) and isinstance(part.value, str)


JS_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)
JS_CONSTANT = re.compile(
    r"^(?:export )?const (\w+) = (?:Object\.freeze\(|new (?:Map|Set)\()?(?=[\[{])", re.M
)
JS_LITERAL = r"(?:\"\"|-?[\d.][\w.]*|true|false|null)"
JS_ROW = re.compile(
    rf"(?:(?:\w+|\"\"):)?(?:{JS_LITERAL}|\[{JS_LITERAL}(?:,{JS_LITERAL})*\]"
    rf"|\{{\w+:{JS_LITERAL}(?:,\w+:{JS_LITERAL})*\}})"
)


def js_rows(text: str) -> Iterator[str]:
    """The entries of the collection at the start of a text, without blanks."""
    depth, row = 0, ""
    for character in text:
        depth += (character in "[{(") - (character in "]})")
        if depth == 0 or (depth == 1 and character == ","):
            yield row
            row = ""
        elif (depth > 1 or row or character not in "[{(") and not character.isspace():
            row += character
        if depth == 0:
            return


def tables_in_js(text: str) -> Iterator[str]:
    """Constants of a module whose entries are literals, from ``NAMES`` of them on."""
    plain = JS_TEXT.sub(lambda m: '""' if m[0].startswith('"') else "", text)
    for constant in JS_CONSTANT.finditer(plain):
        rows = [row for row in js_rows(plain[constant.end() :]) if row]
        if sum(JS_ROW.fullmatch(row.rstrip(",")) is not None for row in rows) >= NAMES:
            yield constant[1]


NO_TABLES = {
    "what Corral itself has and does, in its own words": {
        "api/operations/restore.py: _STEPS", "api/page/job_logs.py: _FORMS", "cli/main.py: VERBS",
        "doctor/reference.py: _LAYERS",
        "errors.py: CODES", "jobs/directives.py: _EXPORTED", "jobs/upload/ignore.py: ALWAYS_OUT",
        "prove/catalog.py: CHECKS", "prove/catalog.py: GROUPS", "report/page.py: _MEASURED",
        "providers/embedded/provider.py: _SUMMARY", "roles/order.py: ORDER",
        "spec/load.py: READ_RULES", "spec/reference.py: _IMPACTS", "state/ledger.py: KEPT_AS",
    },
    "names of Corral's own figures and metrics, and how they are asked for": {
        "prove/advice/run_file.py: SOURCES",
        "prove/compare.py: LESS", "prove/compare.py: MORE", "web/figures.py: OF_A_JOB",
        "web/figures.py: OF_NODES", "web/history.py: QUESTIONS", "web/history.py: SPANS",
        "web/scheduler_metrics.py: VALUES", "web/slurm/node_gpus.py: _VALUES",
    },
    "addresses, columns and colours of Corral's own page": {
        "web/static/js/cluster/gantt.js: STEPS", "web/static/js/nodes/heat.js: SCALES",
        "web/static/js/nodes/racks.js: SIZES",
        "web/static/js/jobs/my_work.js: HEADS", "web/static/js/jobs/submit.js: FIRST",
        "web/static/js/operations/work.js: WORDS",
        "spec/rules/services.py: _TAKEN",
        "web/openapi.py: SCHEMES", "web/slurm/search.py: KEYS",
        "web/slurm/search.py: ORDERS", "web/slurm/snapshot.py: JOB_COLUMNS",
        "web/slurm/snapshot.py: NODE_COLUMNS",
        "web/users/scopes.py: SESSION_ONLY", "web/users/scopes.py: _ADMINISTER",
        "web/users/scopes.py: _READ",
    },
    "fields of the cluster file that an export has, and sentences about the others": {
        "providers/gcp/blueprint/cluster.py: _EXPRESSED",
        "providers/gcp/blueprint/cluster.py: _NOTES",
        "providers/ssh/deepops/export.py: _EXPRESSED", "providers/ssh/deepops/export.py: _NOTES",
    },
    "words that a reader of another program's text looks for, with what each becomes": {
        "cli/terminal/usage.py: _BOUND_WORDS", "doctor/pending_reason.py: _KINDS",
        "slurm/directives.py: _OPTION_OF",
        "prove/fabric/consistency.py: _NAMES",
        "prove/fabric/transport.py: NETWORKS", "providers/paperspace/calls.py: STATES",
        "slurm/adopt/rules/setup.py: _COPIES",
        "slurm/adopt/source.py: _SUFFIXES", "slurm/diagnostics.py: _SECTIONS",
        "web/static/js/logs/logtext.js: INKS", "web/users/private_data.py: EVERYTHING",
        "web/static/js/logs/logtext.js: STYLES",
    },
    "names that code imports, each with its sentence for the reference": {
        "variables.py: VARIABLES", "variables.py: IN_JOBS",
    },
    "fields of a job that slurmrestd's form has": {"jobs/rest/submission.py: CARRIED"},
    "fields next to a script on the page, by sbatch's option": {"web/routes/scripts.py: OPTIONS"},
    "algorithms that the page takes of a login provider": {"web/login/oidc.py: ALGORITHMS"},
    "commands and options that are run, and columns that are asked for": {
        "agents/notify/mail_prog.py: NAMES", "agents/notify/send.py: FORMAT",
        "hosts/target.py: _COMMON", "inspect/storage.py: CHECKED",
        "providers/containers/image_build.py: _BOX", "slurm/rest/commands.py: COMMANDS",
        "slurm/text.py: FREE_TEXT", "slurm/text.py: _COUNTED_WIDTHS", "slurm/text.py: _TRES_WIDTHS",
    },
    "a program for nodes is one file": {
        "agents/benchmarks/gpu.py: SIDE", "agents/benchmarks/gpu.py: STATE",
        "agents/benchmarks/mpi.py: MPICH",
    },
    "offers of a simulated cloud": {
        "testing/clouds/lambda_cloud.py: TYPES", "testing/clouds/paperspace.py: TYPES",
        "testing/clouds/runpod.py: TYPES",
    },
}  # fmt: skip
"""Constants that look like a table, by the reason why they stay with the code that uses them."""


def test_tables_of_figures_and_advice_are_yaml(repo: Path) -> None:
    source = repo / "src/corral"
    tables = {
        f"{file.relative_to(source)}: {name}"
        for file in source.rglob("*.py")
        for _, name in tables_in(ast.parse(file.read_text()))
    } | {
        f"{file.relative_to(source)}: {name}"
        for file in source.rglob("*.js")
        if "vendor" not in file.parts
        for name in tables_in_js(file.read_text())
    }
    kept = {name for names in NO_TABLES.values() for name in names}
    assert tables - kept == set(), "YAML read by corral.tables, or a reason above"
    assert kept - tables == set(), "no longer there"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("LANE = {1: 0.25, 2: 0.5, 3: 0.985}", ["LANE"]),
        ("LUSTRE = M({1000: 9000, 500: 18000, 250: 36000})", ["LUSTRE"]),
        ("RANK = {'a': 0, 'b': 1, 'c': 2}", []),
        ("H: Final = {401: 'a b c d', 403: 'b c d e', 404: 'c d e f'}", ["H"]),
        ("C: Final = (('a b', 'a b c d'), ('c', 'b c d e'), ('d', 'c d e f'))", ["C"]),
        ("R = M({1: (F, 'a b c d'), 2: (W, 'b c d e'), 3: (W, 'c d e f')})", ["R"]),
        ("D = {'nvml': '19.05', 'rsmi': '20.11', 'off': '20.11'}", ["D"]),
        ("W = M({'a': ('22.05',), 'b': ('23.02', '22.05'), 'c': ('23.11',)})", ["W"]),
        ("B = M({S.UP: 'a b c d', S.DOWN: 'b c d e', S.IDLE: 'c d e f'})", ["B"]),
        ("N = (('k', 'a', 'b', 'c'), ('l', 'b', 'c', 'd'), ('m', 'c', 'd', 'e'))", ["N"]),
        ("S = {'a': ('X', 'Y', 'Z'), 'b': ('X', 'Y', 'Z'), 'c': ('X', 'Y', 'Z')}", ["S"]),
        ("P = {('a', '1'): 'x', ('b', '2'): 'y', ('b', '3'): 'z'}", ["P"]),
        ("P = ((('a', '1'), 'x'), (('b', '2'), 'y'), (('b', '3'), 'z'))", ["P"]),
        ("P = {('a', K): f(1), ('b', L): f(2), ('b', M): f(3)}", []),
        ("PAIR = {'a': 0.5, 'b': 0.25}", []), ("KEYS = {'a': 'b', 'c': 'd', 'e': 'f'}", []),
        ("C = (Check('a', 'b c d e'), Check('b', 'c d e f'), Check('c', 'd e f g'))", ["C"]),
        ("RULES = (Rule('a', 'b', f), Rule('b', 'c', g), Rule('c', 'd', h))", []),
        ("_SAFE = 'a b c d e f g h'\nfor low in _SAFE.split(): pass", ["_SAFE"]),
        ("TEXT = 'a b c d e f g h'", []), ("T = frozenset('a b c d e f g h'.split())", ["T"]),
        ("K = frozenset({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})", ["K"]),
        ("K = (*('a', 'b', 'c', 'd'), *('e', 'f', 'g', 'h'))", ["K"]),
        (f"S = {{{', '.join(f'{n!r}: State.UP' for n in 'abcdefgh')}}}", ["S"]),
        (f"R = ({', '.join(f'Row({n!r}, State.UP)' for n in 'abcdefgh')})", ["R"]),
        (f"F = {{{', '.join(f'{n!r}: read' for n in 'abcdefgh')}}}", []),
    ],
)  # fmt: skip
def test_a_table_in_python_is_seen(code: str, names: list[str]) -> None:
    assert [name for _, name in tables_in(ast.parse(code))] == names


def rooms(repo: Path) -> dict[str, int]:
    """Each room with its height, as the contract of import-linter has them."""
    with (repo / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    rows = [[room.strip() for room in layer.split("|")] for layer in reversed(layers)]
    return {room: height for height, row in enumerate(rows) for room in row}


PACKAGE = re.compile(r"corral(\.\w+)+\.?")


def tables_above(source: Path, heights: Mapping[str, int]) -> set[tuple[str, str]]:
    """Modules with the name, or its beginning, of a package with tables in a room above."""
    above: set[tuple[str, str]] = set()
    for file in source.rglob("*.py"):
        name = str(file.relative_to(source))
        own = heights.get(name.partition("/")[0].removesuffix(".py"), len(heights))
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and PACKAGE.fullmatch(str(node.value)):
                room, *more = str(node.value).rstrip(".").split(".")[1:]
                folder = source.joinpath(room, *more)
                inside = "*/*" if str(node.value).endswith(".") else "*"
                data = any(path.suffix in DATA for path in folder.glob(inside))
                if data and heights[room] > own:
                    above.add((name, ".".join(("corral", room, *more))))
    return above


REGISTRY = ("spec/providers.py", "corral.providers")
"""Its folders are data to all rooms (docs/architecture.md): the law is that nothing else is."""


def test_no_room_reads_a_table_of_a_room_above(repo: Path) -> None:
    """lint-imports sees no package that is named in a text."""
    heights = rooms(repo)
    assert heights["cli"] > heights["slurm"] > heights["spec"] > heights["tables"]
    assert tables_above(repo / "src/corral", heights) == {REGISTRY}


def test_each_data_file_is_read_in_one_place(repo: Path) -> None:
    """So there is one model of its rows, which every other reader imports."""
    places: dict[tuple[str, ...], list[str]] = {}
    for file in (repo / "src/corral").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="read_table") | ast.Attribute(attr="read_table")):
                    table = tuple(ast.unparse(part) for part in node.args[:2])
                    places.setdefault(table, []).append(f"{file}:{node.lineno}")
                case _:
                    continue
    assert len(places) > 50
    assert not {table: lines for table, lines in places.items() if len(lines) > 1}


EIGHT = ["a", "b", "c", "d", "e", "f", "g", "h"]
PAIRS = [f'{name}: "x {name}, y"' for name in EIGHT]
ROWS = [f'["{name}", {at}]' for at, name in enumerate(EIGHT)]
CALLS = [f"{name}: read({name})" for name in EIGHT]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("const B = {\n  // what\n  " + ",\n  ".join(PAIRS) + ",\n};\n", ["B"]),
        ("/** @type {X} */\nexport const B = [" + ", ".join(ROWS) + "];\n", ["B"]),
        ("const B = new Map([" + ", ".join(ROWS) + "]);\n", ["B"]),
        ("const B = [" + ", ".join(f'{{ a: "{n}", b: 1 }}' for n in EIGHT) + "];\n", ["B"]),
        ("const B = {" + ", ".join(PAIRS[1:]) + "};\n", []),
        ("const B = {" + ", ".join(CALLS) + "};\n", []),
        ("function f() {\n  const B = {" + ", ".join(PAIRS) + "};\n}\n", []),
    ],
)
def test_a_table_in_javascript_is_seen(code: str, names: list[str]) -> None:
    assert list(tables_in_js(code)) == names
