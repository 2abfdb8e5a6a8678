"""The registry of providers: each line is a folder, and what the folder declares is there."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import corral.providers
from corral.api.rental import cloud_sets
from corral.errors import CorralError
from corral.providers.cloud.errors import rows_of
from corral.providers.lookup import provider_class
from corral.roles.machine.nccl_plugin import PLUGINS, NcclPlugin
from corral.spec.models import NodeGroup
from corral.spec.providers import CLOUDS, MACHINES, PROVIDERS, REGISTRY, RENTALS, either, part_of
from corral.tables import parse_table
from corral.testing.clouds import SIMS

FOLDER = Path(corral.providers.__file__).parent
SOURCES = FOLDER.parent
REGISTERED = SOURCES / "spec" / "providers.py"
CLIENTS = {rental.client for rental in RENTALS.values()}
TITLES = {rental.title.partition(" ")[0] for rental in RENTALS.values()}
HOMES = [
    *(FOLDER / name for name in REGISTRY),
    *(SOURCES / "testing" / "clouds" / f"{name}.py" for name in REGISTRY),
]
FOREIGN = sorted(
    file
    for file in (*SOURCES.rglob("*.py"), *SOURCES.rglob("*.pyi"))
    if file != REGISTERED and not any(file.is_relative_to(home) for home in HOMES)
)
"""All but the registry, providers' folders and the simulators of clouds."""
WORDS = CLIENTS | TITLES | {word for c in CLOUDS for word in (c, PROVIDERS[c].folder)}
RENTED = re.compile(rf"\b({'|'.join(WORDS - set(keyword.kwlist))})\b")
"""Words for clouds; ``lambda`` is also Python's, so it is found as a value only."""
PARTS = {
    "gcp": re.compile(
        r"gcp|google\w*|a3|a3mega|a3-mega\S*|blueprints?|gcluster|cluster[ _-]toolkit|slurm-gcp"
        r"|compute engine|gce|gcloud|gcsfuse|cloud storage|filestore|managed lustre|os[ -]?login"
        r"|gvnic|gve|(?-i:gIB)|(nccl|gpudirect)[-/]gib|local/gib|[nc]2-standard\S*|flex-start|dws"
        r"|identity-aware proxy|iap",
        re.I,
    ),
    "lambda": re.compile(r"1-click clusters?|on-demand cloud", re.I),
    "runpod": re.compile(r"runpodctl|instant clusters?|(secure|community) cloud|podcount", re.I),
    "paperspace": re.compile(r"digitalocean", re.I),
    "embedded": re.compile(r"(?<!tests/)embedded", re.I),
    "local": re.compile(r"providers?:? local|LocalProvider|local provider", re.I),
    "ssh": re.compile(r"providers?:? ssh|ssh provider|is_ssh|ssh groups?|deepops", re.I),
}
"""Words that stand for a provider in code, or for what only one provider has: Google's machines,
services, programs, drivers, its plugin of NCCL and the blueprints of its toolkit, products and
programs of the clouds that rent, DeepOps for machines by ssh. ``ssh`` alone is the protocol, the
program or the section of a group; it stands for the provider next to that word, as a value that is
compared or passed (``values_of``), and in the path of an import."""
FABRICS = {
    fabric
    for name in REGISTRY
    if (table := FOLDER / name / "nccl_plugins.yaml").exists()
    for fabric in parse_table(table.read_text(), table.name, dict[str, NcclPlugin])
}
"""Those that machines of one provider alone are on. ``gib`` is a variable's name too, for GiB."""
VALUES = FABRICS | set(PROVIDERS)
"""Words that name a provider where something is compared with them."""
PUBLIC = frozenset({"export_gcluster", "read_deepops"})
"""Names of ``corral.api`` that stay (0100): their definitions and exports are not searched."""
NAMED = re.compile(
    rf"(?<![A-Za-z0-9])({'|'.join(PARTS[name].pattern for name in PARTS)})(?![A-Za-z0-9])", re.I
)


def values_of(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions that something is compared with or decided by, or that name a provider."""
    match node:
        case ast.Compare():
            yield from (node.left, *node.comparators)
        case ast.MatchValue():
            yield node.value
        case ast.keyword(arg="provider"):
            yield node.value
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "provider":
                    yield value
        case _:
            pass


def imported(node: ast.AST) -> Iterator[str]:
    """Modules that a statement imports."""
    match node:
        case ast.ImportFrom(module=str(module), names=names):
            yield from (f"{module}.{alias.name}" for alias in names)
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case _:
            pass


def words_of(node: ast.AST, docstrings: set[int]) -> str:
    """The text or identifier of a node."""
    match node:
        case ast.Constant(value=str(text)) if id(node) not in docstrings:
            return text
        case ast.Name(id=word) | ast.Attribute(attr=word):
            return word
        case _:
            return ""


def identifiers_of(node: ast.AST) -> Iterator[str]:
    """Names that a node uses, defines or imports."""
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word):
            yield word
        case ast.keyword(arg=str(word)) | ast.MatchAs(name=str(word)):
            yield word
        case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) | ast.ClassDef(name=word):
            yield word
        case ast.ImportFrom(names=names) | ast.Import(names=names):
            yield from (alias.asname for alias in names if alias.asname)
            yield from imported(node)
        case _:
            pass


def apart(identifier: str) -> str:
    """``GcpStorage`` and ``_gcp_storage`` in single words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", identifier)


def is_providers(identifier: str) -> bool:
    """Whether an identifier, or the path of an import, has a provider's name in it."""
    folder = re.match(r"corral\.providers\.(\w+)", identifier)
    return (
        (folder is not None and folder[1] in REGISTRY)
        or any(NAMED.search(text) for text in (identifier, apart(identifier)))
        or RENTED.search(apart(identifier)) is not None
    )


def names_in(tree: ast.Module, *, is_help: bool = False) -> Iterator[tuple[int, str]]:
    """Where code names a provider, by the rule of CONTRIBUTING.md.

    Args:
        tree: of a module.
        is_help: its docstrings are the help of verbs.
    """
    docstrings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    words = RENTED
    if is_help:
        words = re.compile(rf"\b({'|'.join(WORDS)})\b")
        docstrings -= {
            id(n.body[0].value)
            for n in ast.walk(tree)
            if isinstance(n, ast.FunctionDef) and isinstance(n.body[0], ast.Expr)
        }
    public = {
        id(part)
        for node in ast.walk(tree)
        if (isinstance(node, ast.FunctionDef) and node.name in PUBLIC)
        or (isinstance(node, ast.ImportFrom) and {a.name for a in node.names} <= PUBLIC)
        for part in ast.walk(node)
        if not is_providers(getattr(node, "module", None) or "")
    }
    for node in ast.walk(tree):
        if id(node) in public:
            continue
        line = getattr(node, "lineno", 0)
        for value in values_of(node):
            for part in ast.walk(value):
                if isinstance(part, ast.Constant) and part.value in VALUES:
                    yield line, f"{part.value!r} as a value"
        text = words_of(node, docstrings)
        if words.search(text):
            yield line, text
        if isinstance(node, ast.Constant):
            yield from ((line, match[0]) for match in NAMED.finditer(text))
        yield from ((line, word) for word in identifiers_of(node) if is_providers(word))


def test_no_provider_is_named_outside_its_folder_and_the_registry() -> None:
    assert len(FOREIGN) > 400
    uses = [
        f"{file.relative_to(SOURCES)}:{line}: {what}"
        for file in FOREIGN
        for line, what in names_in(
            ast.parse(file.read_text()), is_help=file.is_relative_to(SOURCES / "cli")
        )
    ]
    uses += [
        f"{file.relative_to(SOURCES)}: its name"
        for file in FOREIGN
        if NAMED.search(apart(file.relative_to(SOURCES).with_suffix("").as_posix()))
    ]
    assert not uses, "\n".join(uses)


@pytest.mark.parametrize(
    "text",
    [
        'x = group.provider == "ssh"', 'x = name in ("lambda", "b")', 'f(provider="embedded")',
        "from corral.providers.gcp.google import Google", "from corral.providers import runpod",
        "import corral.providers.ssh.provider", 'x = {"provider": "gcp"}', 'x = "at Paperspace"',
        "x = RunPod()", 'match x:\n    case "gcp":\n        pass', "x = spec.gcp", "GcpZone = str",
        "def from_deepops(): pass", "def f(gcp): pass", "f(embedded_nodes=2)", "x = group.is_ssh",
        'x = "write provider: ssh"', 'x = "no group of provider ssh"', 'x = f"{n} embedded nodes"',
        'x = "a3-megagpu-8g"', 'x = "two A3 Mega nodes"', 'e = "--hardware a3-mega"',
        "from corral.spec.models import Gcp", "import a.blueprint", "class SshProvider: pass",
        'x = group.fabric == "gib"', 'x = "/usr/local/gib"', 'x = "Network gIB"', 'x = {"gve"}',
        "def runpod_volumes(): pass", 'x = "Google\'s own run"', 'x = TOOLS["gcluster"]',
        "from corral.providers.ssh.deepops.folder import read_deepops as read_deepops",
    ],
)  # fmt: skip
def test_names_of_providers_are_found(text: str) -> None:
    assert list(names_in(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    ["def f(gib: int): pass", "GIB = 1 << 30", 'x = f"{n} GiB"', 'run(["ssh", host])',
     'x = access["ssh"]', "y = lambda: 0", '"""RunPod\'s document."""',
     'x = "passwordless ssh"', 'x = spec.access.ssh == "jobs_only"', "x = group.ssh.user",
     "from corral.hosts import sshkeys", 'x = "tests/embedded/prove_breaks.py"', "x = f.embed"],
)  # fmt: skip
def test_words_that_also_mean_something_else_are_not(text: str) -> None:
    assert not list(names_in(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    ['def f():\n    """Show Lambda\'s rules."""', 'e = "corral offers -p lambda"',
     'def f():\n    """Its id at runpod."""'],
)  # fmt: skip
def test_names_of_providers_in_help_are_found(text: str) -> None:
    assert list(names_in(ast.parse(text), is_help=True))


def test_each_provider_has_words_that_are_searched_for() -> None:
    assert set(PARTS) == set(PROVIDERS)


def test_a_fabric_with_a_plugin_is_one_that_machines_are_on() -> None:
    assert FABRICS and PLUGINS.keys() == {kind.fabric for kind in MACHINES.values()} - {""}


def test_each_folder_of_a_provider_is_registered() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/provider.toml")} == set(REGISTRY)


@pytest.mark.parametrize("name", PROVIDERS)
def test_what_is_declared_is_there(name: str) -> None:
    declared = PROVIDERS[name]
    assert set(declared.unused) <= set(NodeGroup.model_fields)
    group = NodeGroup(name="gpu", provider=name, nodes="gpu0")
    assert group.capabilities is declared
    kind: Any = provider_class(name)
    assert kind.owned is declared.owned
    for part in (declared.provider, declared.section, declared.completes, declared.rules):
        assert not part or part.startswith(f"corral.providers.{declared.folder}.")
        assert not part or part_of(part)
    assert all(callable(part_of(tool.writes)) for tool in declared.exports.values())
    assert declared.reader is None or callable(part_of(declared.reader.reads))
    assert declared.rents or kind.name == name
    assert bool(declared.provider) is not declared.rents


@pytest.mark.parametrize("name", CLOUDS)
def test_a_cloud_has_a_client_its_calls_and_a_simulator(name: str) -> None:
    home, rental = f"corral.providers.{PROVIDERS[name].folder}", RENTALS[name]
    client = getattr(import_module(f"{home}.client"), rental.client)
    calls = import_module(f"{home}.calls")
    assert client.name == calls.NAME == SIMS[name].name == name
    assert calls.GAPS["calls"] > 0 and callable(calls.instances) and callable(calls.terminate)
    assert rows_of(PROVIDERS[name].folder)
    assert bool(client.traits.no_dead_man) is not rental.ends_itself
    assert rental.image
    assert rental.clusters != 1
    assert bool(rental.clusters) is hasattr(client, "launch_cluster")
    assert bool(rental.volumes) is hasattr(client, "make_volume")
    assert rental.firewall is hasattr(client, "set_firewall_rules")
    assert rental.account_keys is hasattr(client, "set_ssh_keys")


@pytest.mark.parametrize(
    ("clouds", "provider", "expected"),
    [
        (("a",), "", "a"),
        (("a", "b"), "b", "b"),
        (("a", "b"), "", "no provider given"),
        (("a", "b"), "c", "the account of c has no such set"),
    ],
)
def test_which_clouds_account_has_the_set(
    monkeypatch: pytest.MonkeyPatch, clouds: tuple[str, ...], provider: str, expected: str
) -> None:
    """A second cloud with such a set needs its own folder alone."""
    monkeypatch.setattr(cloud_sets, "clouds_with", lambda _: clouds)
    try:
        assert cloud_sets._having("account_keys", provider) == expected
    except CorralError as error:
        assert (error.message, error.hint) == (expected, "-p a or b")


def test_names_in_a_sentence() -> None:
    assert [either(n) for n in ((), ("a",), ("a", "b"), ("a", "b", "c"))] == [
        "",
        "a",
        "a or b",
        "a, b or c",
    ]
