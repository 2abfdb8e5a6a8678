"""Tables of data: valid, and a fault in one is named by file, line and column."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from corral.doctor.catalog import catalog
from corral.doctor.logs.fatal_lines import fatal_table
from corral.doctor.logs.message_reader import error_numbers
from corral.errors import Code, CorralError
from corral.hosts.ssh_errors import ssh_errors
from corral.inspect.gpu import gpu_types
from corral.inspect.xids import xids
from corral.mesh.control import control_hints
from corral.prove.fabric.hardware import known_hardware
from corral.prove.measure.gpu import gpu_models, gpu_states
from corral.prove.rounds import round_hints
from corral.providers.cloud.errors import rows_of
from corral.providers.containers.podman import podman_errors
from corral.providers.gcp.gcluster import gcluster_hints
from corral.providers.gcp.machines import gpu_machines
from corral.providers.paperspace.offers import prices
from corral.roles.machine.nvidia import keyrings
from corral.roles.slurm.health import health_checks
from corral.slurm.adopt.conversion import DEFAULTS
from corral.slurm.adopt.key_releases import KNOWN
from corral.slurm.adopt.rules.gres import AUTODETECT
from corral.slurm.adopt.rules.keys import OBSOLETE
from corral.slurm.adopt.rules.values import NEEDS, REPLACEMENTS
from corral.slurm.adopt.word_releases import VALUES
from corral.slurm.conf.keys import all_keys
from corral.slurm.diagnostics import cycle_exits
from corral.slurm.packages import compatible
from corral.slurm.states.nodes import NodeBase, node_bases, node_flags
from corral.slurm.states.reasons import Reasons, reasons
from corral.slurm.topology import link_speeds
from corral.spec.providers import CLOUDS, PROVIDERS
from corral.spec.rules.drivers import driver_table
from corral.spec.slurm_keys import slurm_keys
from corral.tables import Hint, Row, parse_table

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
         ":3:3: words.0.word: Input should be"),
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


def test_tables_that_come_with_corral_are_valid(repo: Path) -> None:
    read = {
        "hardware.yaml": known_hardware(),
        "gpu_models.yaml": gpu_models(),
        "gpu_types.yaml": gpu_types(),
        "health_checks.yaml": health_checks(),
        "xids.yaml": xids(),
        "errors.yaml": all(map(rows_of, (*(PROVIDERS[c].folder for c in CLOUDS), "cloud", "gcp"))),
        "keys.yaml": all_keys(),
        "key_releases.yaml": KNOWN.groups,
        "word_releases.yaml": VALUES.groups,
        "obsolete.yaml": OBSOLETE,
        "autodetect.yaml": AUTODETECT,
        "replacements.yaml": REPLACEMENTS,
        "needs.yaml": NEEDS,
        "cycle_exits.yaml": cycle_exits(),
        "defaults.yaml": DEFAULTS,
        "compatibility.yaml": compatible(),
        "node_bases.yaml": node_bases(),
        "ssh_errors.yaml": ssh_errors(),
        "keyrings.yaml": keyrings(),
        "reasons.yaml": reasons().words,
        "gcluster_hints.yaml": gcluster_hints(),
        "machines.yaml": gpu_machines(),
        "prices.yaml": prices(),
        "round_hints.yaml": round_hints(),
        "node_flags.yaml": node_flags(),
        "settings.yaml": slurm_keys(),
        "drivers.yaml": driver_table().toolkits,
        "gpu_states.yaml": gpu_states().slowed,
        "podman_errors.yaml": podman_errors(),
        "control_hints.yaml": control_hints(),
        "link_speeds.yaml": link_speeds(),
        "failures.yaml": [f for f in catalog() if f == "F45"],
    }
    assert all(read.values())
    assert set(node_bases()) == set(NodeBase)
    assert catalog()
    assert fatal_table().fatal
    assert error_numbers()
    doctor = repo / "src/corral/doctor"
    others = [f for f in (repo / "src").rglob("*.yaml") if not f.is_relative_to(doctor)]
    assert [f.name for f in others if f.name not in read] == []


RELEASE = re.compile(r"\d\d\.\d\d")
"""A release of Slurm or Ubuntu."""
FIGURES = 3
"""Rows from which on constants are a table."""


def tables_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Constants of a module that are tables of figures or of advice, by word, number or id."""
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case _:
                continue
        while isinstance(value, ast.Call) and value.args:
            value = value.args[0]
        pairs: list[tuple[ast.expr | None, ast.expr]] = []
        match value:
            case ast.Dict(keys=keys, values=values):
                pairs = [*zip(keys, values, strict=True)]
            case ast.Tuple(elts=rows) | ast.List(elts=rows) | ast.Set(elts=rows):
                pairs = [(r.elts[0], ast.Tuple(r.elts[1:])) for r in rows if is_row(r)]
            case _:
                pass
        if sum(is_datum(key, datum) for key, datum in pairs) >= FIGURES:
            yield node.lineno, name


def is_row(row: ast.expr) -> TypeGuard[ast.Tuple]:
    return isinstance(row, ast.Tuple) and len(row.elts) > 1


LONG = 3
"""Texts next to its key from which on a row is one of a table."""


def is_datum(key: ast.expr | None, value: ast.expr) -> bool:
    """A number, a measure, a release or a list of texts by a written key, or a sentence by one.

    A member of an enumeration is a written key too.
    """
    if not isinstance(key, ast.Constant | ast.Attribute):
        return False
    values = [part.value for part in ast.walk(value) if isinstance(part, ast.Constant)]
    if isinstance(value, ast.Tuple) and len(value.elts) >= LONG and all(map(is_text, value.elts)):
        return True
    return any(
        type(v) is float or (isinstance(v, str) and (v.count(" ") > 2 or RELEASE.fullmatch(v)))
        for v in values
    )


def is_text(part: ast.expr | None) -> bool:
    return isinstance(part, ast.Constant) and isinstance(part.value, str)


ROOMS = ("inspect", "mesh", "prove", "roles", "slurm", "spec/rules", "state", "hosts", "doctor")
"""Rooms that know hardware, Slurm and failures; of ``spec`` its rules: the rest defines itself what
it has texts for."""


NO_TABLES = {
    "prove/fabric/transport.py: NETWORKS": "names that a log's reader looks for",
    "slurm/rest/commands.py: COMMANDS": "commands that are run",
    "doctor/pending_reason.py: _KINDS": "resources, and the field of a node that has them",
}
"""Constants that look like a table, and what they are."""


def test_tables_of_figures_and_advice_are_yaml(repo: Path) -> None:
    source = repo / "src/corral"
    tables = {
        f"{file.relative_to(source)}: {name}"
        for room in (*ROOMS, "providers/containers", "providers/cloud", "providers/local")
        for file in (source / room).rglob("*.py")
        for _, name in tables_in(ast.parse(file.read_text()))
    }
    assert tables == set(NO_TABLES)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("LANE = {1: 0.25, 2: 0.5, 3: 0.985}", ["LANE"]),
        ("H: Final = {401: 'a b c d', 403: 'b c d e', 404: 'c d e f'}", ["H"]),
        ("C: Final = (('a b', 'a b c d'), ('c', 'b c d e'), ('d', 'c d e f'))", ["C"]),
        ("R = M({1: (F, 'a b c d'), 2: (W, 'b c d e'), 3: (W, 'c d e f')})", ["R"]),
        ("D = {'nvml': '19.05', 'rsmi': '20.11', 'off': '20.11'}", ["D"]),
        ("W = M({'a': ('22.05',), 'b': ('23.02', '22.05'), 'c': ('23.11',)})", ["W"]),
        ("B = M({S.UP: 'a b c d', S.DOWN: 'b c d e', S.IDLE: 'c d e f'})", ["B"]),
        ("N = (('k', 'a', 'b', 'c'), ('l', 'b', 'c', 'd'), ('m', 'c', 'd', 'e'))", ["N"]),
        ("S = {'a': ('X', 'Y', 'Z'), 'b': ('X', 'Y', 'Z'), 'c': ('X', 'Y', 'Z')}", ["S"]),
        ("PAIR = {'a': 0.5, 'b': 0.25}", []), ("KEYS = {'a': 'b', 'c': 'd', 'e': 'f'}", []),
        ("CHECKS = (Check('a', 'b c d e'), Check('b', 'c d e f'), Check('c', 'd e f g'))", []),
    ],
)  # fmt: skip
def test_a_table_in_python_is_seen(code: str, names: list[str]) -> None:
    assert [name for _, name in tables_in(ast.parse(code))] == names
