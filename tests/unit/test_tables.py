"""Tables of data: valid, and a fault in one is named by file, line and column."""

from __future__ import annotations

import ast
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
from corral.providers.paperspace.offers import prices
from corral.roles.machine.nvidia import keyrings
from corral.roles.slurm.health import health_checks
from corral.slurm.adopt.key_releases import KNOWN
from corral.slurm.adopt.rules.keys import OBSOLETE
from corral.slurm.adopt.word_releases import VALUES
from corral.slurm.conf.keys import all_keys
from corral.slurm.states.nodes import node_flags
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
        "ssh_errors.yaml": ssh_errors(),
        "keyrings.yaml": keyrings(),
        "reasons.yaml": reasons().words,
        "gcluster_hints.yaml": gcluster_hints(),
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
    assert catalog()
    assert fatal_table().fatal
    assert error_numbers()
    doctor = repo / "src/corral/doctor"
    others = [f for f in (repo / "src").rglob("*.yaml") if not f.is_relative_to(doctor)]
    assert [f.name for f in others if f.name not in read] == []


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
        if isinstance(value, ast.Call) and value.args:
            value = value.args[0]
        pairs: list[tuple[ast.expr | None, ast.expr]] = []
        match value:
            case ast.Dict(keys=keys, values=values):
                pairs = [*zip(keys, values, strict=True)]
            case ast.Tuple(elts=rows) | ast.List(elts=rows):
                pairs = [(r.elts[0], r.elts[1]) for r in rows if is_pair(r)]
            case _:
                pass
        if sum(is_datum(key, datum) for key, datum in pairs) >= FIGURES:
            yield node.lineno, name


def is_pair(row: ast.expr) -> TypeGuard[ast.Tuple]:
    return isinstance(row, ast.Tuple) and len(row.elts) == 2


def is_datum(key: ast.expr | None, value: ast.expr) -> bool:
    """A number or a measure by a written key, or a sentence by one."""
    if not isinstance(key, ast.Constant):
        return False
    parts = list(ast.walk(value))
    numbers = [p for p in parts if isinstance(p, ast.Constant) and type(p.value) is float]
    values = [p.value for p in parts if isinstance(p, ast.Constant)]
    return bool(numbers) or any(isinstance(v, str) and v.count(" ") > 2 for v in values)


ROOMS = ("inspect", "mesh", "prove", "roles", "slurm", "spec/rules", "state", "hosts", "doctor")
"""Rooms that know hardware, Slurm and failures; of ``spec`` its rules: the rest defines itself what
it has texts for."""


def test_tables_of_figures_and_advice_are_yaml(repo: Path) -> None:
    tables = [
        f"{file.relative_to(repo)}:{line}: {name}"
        for room in (*ROOMS, "providers/containers", "providers/cloud", "providers/local")
        for file in sorted((repo / "src/corral" / room).rglob("*.py"))
        for line, name in tables_in(ast.parse(file.read_text()))
    ]
    assert tables == []


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("LANE = {1: 0.25, 2: 0.5, 3: 0.985}", ["LANE"]),
        ("H: Final = {401: 'a b c d', 403: 'b c d e', 404: 'c d e f'}", ["H"]),
        ("C: Final = (('a b', 'a b c d'), ('c', 'b c d e'), ('d', 'c d e f'))", ["C"]),
        ("R = M({1: (F, 'a b c d'), 2: (W, 'b c d e'), 3: (W, 'c d e f')})", ["R"]),
        ("PAIR = {'a': 0.5, 'b': 0.25}", []), ("KEYS = {'a': 'b', 'c': 'd', 'e': 'f'}", []),
        ("CHECKS = (Check('a', 'b c d e'), Check('b', 'c d e f'), Check('c', 'd e f g'))", []),
    ],
)  # fmt: skip
def test_a_table_in_python_is_seen(code: str, names: list[str]) -> None:
    assert [name for _, name in tables_in(ast.parse(code))] == names
