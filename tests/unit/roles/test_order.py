"""The order of the stages: one table, and each role in the stages that it declares."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from dataclasses import replace
from types import ModuleType

import pytest

from corral import roles
from corral.errors import Code, CorralError
from corral.roles import order
from corral.roles.order import IN_SLURM_FILES, ORDER, ROLES, configured, desired_stages
from corral.roles.role import Role, Share
from corral.roles.slurm.pods import slurm_conf_on
from corral.slurm.conf.cluster import slurm_files
from corral.slurm.conf.conf_file import ConfLine
from corral.slurm.conf.fields import pairs_of_fields, settings_of_fields, written
from corral.spec.models import ClusterSpec, Partition
from corral.spec.sections.services import Health
from corral.spec.slurm.written_keys import Key, all_keys
from corral.tables import parse_table
from tests.unit.roles.machine.test_mesh_plan import site_of
from tests.unit.roles.test_cluster import laptop, site


def modules() -> list[ModuleType]:
    """Every module of the roles."""
    infos = pkgutil.walk_packages(roles.__path__, f"{roles.__name__}.")
    return [importlib.import_module(info.name) for info in infos]


def known() -> dict[str, Role]:
    """All roles, by the name of their module; those of a module with several, by their own."""
    by_name: dict[str, Role] = {}
    for module in modules():
        for name, value in vars(module).items():
            if isinstance(value, Role):
                own = module.__name__.rpartition(".")[2]
                by_name[own if name == "ROLE" else name.lower()] = value
    return by_name


def test_each_role_is_in_the_stages_that_it_declares_and_in_no_other() -> None:
    declared = {(role.name, stage) for role in known().values() for stage in role.stages}
    assert declared == {(role.name, row.name) for row in ORDER for role in row.roles}
    assert max(Counter(row.name for row in ORDER).values()) == 1


MARK = re.compile(r"@\w+@|%\w*%|\W")
"""A place that a text has for a value, or one character of a name that another grammar takes."""


def edits(tree: ast.AST) -> list[int]:
    """Lines on which text is edited by its content: a value must have its own place in it."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"replace", "sub", "subn"}
        and node.args
        and not MARK.fullmatch(literal(node.args[0]))
    ]


def literal(node: ast.expr) -> str:
    """What is written in a text; of an f-string without its values."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(literal, values))
        case _:
            return ""


def test_no_role_edits_text_by_its_content() -> None:
    """slurm.conf, scripts and tables are values or have marked places until they are written."""
    edited = [
        f"{module.__name__}:{line}"
        for module in modules()
        for line in edits(ast.parse(inspect.getsource(module)))
    ]
    assert edited == []


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("t.replace('local=/a\\n', b)", [1]), ("t.replace(json.dumps(a), b)", [1]),
        ("re.sub('^NodeName', a, t)", [1]), ("t.replace(f'local={x}', b)", [1]),
        ("t.replace('@GPU@', b)", []), ("t.replace(f'%{name}%', b)", []),
        ("t.replace(' ', '_')", []),
        ("replace(resource, along=b)", []),
    ],
)  # fmt: skip
def test_an_edit_is_seen(code: str, lines: list[int]) -> None:
    assert edits(ast.parse(code)) == lines


CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")


def called_by_name(tree: ast.AST) -> set[str]:
    """What a module uses of single roles, apart from constants such as ``ROLE``."""
    names: set[str] = set()
    used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            parts = node.module.split(".")
            if parts[:2] == ["corral", "roles"] and parts[2:3] != [] and parts[2] in ROOMS:
                taken = {alias.asname or alias.name for alias in node.names}
                if len(parts) == 3:
                    names |= taken
                else:
                    used |= {f"{parts[-1]}.{name}" for name in taken}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in names:
                used.add(f"{module}.{name}")
            case _:
                pass
    return {name for name in used if not CONSTANT.fullmatch(name.rpartition(".")[2])}


ROOMS = ("machine", "services", "slurm")


def test_no_role_is_called_by_name() -> None:
    """Order, Slurm's files and what is lost with a machine go through the table of roles."""
    own = [module for module in modules() if module.__name__.count(".") == 2]
    assert {"order", "slurm_conf"} <= {m.__name__.rpartition(".")[2] for m in own}
    named = {
        module.__name__: matches
        for module in own
        if not hasattr(module, "__path__")
        and (matches := called_by_name(ast.parse(inspect.getsource(module))))
    }
    assert named == {}


@pytest.mark.parametrize(
    ("code", "matches"),
    [
        ("from corral.roles.machine import mesh\nmesh.outside(site)", {"mesh.outside"}),
        ("from corral.roles.machine.mesh import features", {"mesh.features"}),
        ("from corral.roles.machine import mesh\nORDER = (mesh.ROLE,)", set()),
        ("from corral.roles.slurm_conf import cluster_conf\ncluster_conf(site)", set()),
    ],
)
def test_a_role_that_is_called_by_name_is_seen(code: str, matches: set[str]) -> None:
    assert called_by_name(ast.parse(code)) == matches


def test_what_a_role_has_to_do_ahead_is_planned_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(row for row in ORDER if row.name == "homes")
    (role,) = row.roles
    first = replace(role, ahead=lambda site: (Share(title="first"),))
    rows = tuple(replace(each, roles=(first,)) if each is row else each for each in ORDER)
    monkeypatch.setattr(order, "ORDER", rows)
    assert [(s.name, s.title) for s in desired_stages(site(laptop()))] == [("homes", "first")]


def test_each_role_that_adds_to_slurms_files_is_asked() -> None:
    adding = {role.name for role in known().values() if role.slurm_conf}
    assert adding == {role.name for role in IN_SLURM_FILES}


def test_each_role_checks_and_reviews(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks of roles are matches in ``Role``: the order names none."""
    called: list[tuple[str, str]] = []

    def hooked(role: Role) -> Role:
        return replace(
            role,
            check=lambda site: called.append((role.name, "check")),
            review=lambda site, stages: called.append((role.name, "review")),
        )

    monkeypatch.setattr(order, "ROLES", tuple(map(hooked, ROLES)))
    assert desired_stages(site(laptop()))
    names = [role.name for role in ROLES]
    assert called == [(name, hook) for hook in ("check", "review") for name in names]
    assert set(names) == set(known())


def test_a_role_is_called_as_its_module() -> None:
    assert {name: role.name for name, role in known().items()} == {name: name for name in known()}
    assert len(known()) > 25


def test_a_service_on_a_node_without_systemd_is_refused() -> None:
    """An NFS server is a service that Corral knows by its unit only."""
    pod = site_of()
    data = pod.spec.model_dump(mode="json", exclude_unset=True)
    nfs = {"kind": "nfs", "mount": "/data", "server": "pod0", "path": "/srv/data"}
    spec = ClusterSpec.model_validate({**data, "storage": [nfs]})
    with pytest.raises(CorralError, match="no systemd runs there, and nfs-server") as caught:
        desired_stages(replace(pod, spec=spec))
    assert (caught.value.code, caught.value.node) == (Code.NOT_GOOD, "pod0")


def test_a_field_of_the_key_table_is_written_as_it_is_declared() -> None:
    def every(text: str) -> str | None:
        spec = laptop(health=Health(every=text))
        return configured(site(spec)).slurm_files.slurm.get("HealthCheckInterval")

    assert (every("5m"), every("1h"), every("off")) == ("300", "3600", None)
    fields = {key.name for key in all_keys() if key.field and not key.line}
    assert {"HealthCheckInterval"} <= {s.key for s in settings_of_fields(laptop())} <= fields
    assert [written(v) for v in (True, False, 0, 7, "x", ("a", "b"), (), None)] == [
        "YES",
        "NO",
        "0",
        "7",
        "x",
        "a,b",
        "",
        "",
    ]


ROW = """\
- file: slurm.conf
  line: {line}
  name: {name}
  field: {field}
  value: as declared
  reason: A test.
  impact: reload
  source: slurm.conf(5)
"""


def keys(line: str, name: str, field: str) -> tuple[Key, ...]:
    return parse_table(ROW.format(line=line, name=name, field=field), "keys.yaml", tuple[Key, ...])


def test_a_field_of_a_group_or_partition_is_on_its_line() -> None:
    spec = laptop()
    count = keys("NodeName", "Weight", "groups.gpu.count")
    assert pairs_of_fields("NodeName", spec.groups[0], count) == (("Weight", "2"),)
    bare = spec.groups[0].model_copy(update={"gpu": None})
    assert pairs_of_fields("NodeName", bare, count) == ()
    default = keys("PartitionName", "Hidden", "partitions.default")
    partition = Partition(name="main", groups=("compute",), default=True)
    assert pairs_of_fields("PartitionName", partition, default) == (("Hidden", "YES"),)
    assert pairs_of_fields("", spec, (*count, *default)) == ()
    more = (("MaxTime", "1 SlurmUser=root"),)
    conf = replace(configured(site(spec)).conf, settings=(), files=())
    broken = replace(conf, partitions=(replace(conf.partitions[0], more=more),))
    with pytest.raises(CorralError, match="is not one word"):
        slurm_files(broken)


@pytest.mark.parametrize(
    ("line", "field"),
    [("NodeName", "partitions.default"), ("PartitionName", "name"), ("NodeName", "health.every")],
)
def test_a_field_of_another_list_is_refused(line: str, field: str) -> None:
    with pytest.raises(CorralError, match="a field of groups is for NodeName"):
        keys(line, "Weight", field)


def test_a_line_keeps_its_order_when_a_value_changes() -> None:
    line = ConfLine((("NodeName", "a"), ("NodeAddr", "10.0.0.1"), ("CPUs", "2")))
    assert str(line.changed({"NodeAddr": "10.1.0.1", "Gres": "gpu"})) == (
        "NodeName=a NodeAddr=10.1.0.1 CPUs=2"
    )


def test_a_pods_slurm_conf_is_the_clusters_but_for_what_it_cannot_have() -> None:
    """Every other key, node and partition is the same."""
    configuration = configured(site_of())
    cluster = configuration.slurm_files.slurm
    pod = slurm_conf_on(configuration, "pod0")
    changed = {line.key for line in set(cluster.lines) ^ set(pod.lines)}
    assert changed == {
        "SlurmctldHost",
        "ProctrackType",
        "TaskPlugin",
        "JobAcctGatherType",
        "PrologFlags",
        "SrunPortRange",
        "AccountingStorageHost",
        "NodeName",
    }
    assert pod.text.startswith("# Written by Corral: this node has no cgroups")
