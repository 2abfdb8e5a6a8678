"""Use cases that are more than a call: known clusters, status, nodes, ``import corral``."""

from __future__ import annotations

import ast
import asyncio
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import corral
from corral import api
from corral.api.cluster import sync
from corral.api.config import known_clusters
from corral.api.operations import nodes, overview
from corral.apply.journal import Journal
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.target import SshTarget
from corral.inspect.question import MachineState, inquiry
from corral.prove.context import ProveContext
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir

LAPTOP = Path(__file__).parents[3] / "examples" / "laptop.yaml"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def spec() -> ClusterSpec:
    return load_or_raise(LAPTOP)


DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def record(spec: ClusterSpec) -> None:
    journal = Journal(cluster_dir(spec.name) / "journal.jsonl", "test")
    journal.write("spec", {"spec": spec.model_dump(mode="json")})


# known clusters


def test_the_last_applied_file_is_the_cluster(spec: ClusterSpec) -> None:
    cluster_dir("only-planned")
    assert api.known_clusters() == ()
    record(spec)
    changed = spec.model_copy(update={"controller": "node2"})
    record(changed)
    assert api.known_clusters() == ("laptop",)
    assert api.spec_of("laptop") == changed


def test_an_unknown_name_is_not_found(spec: ClusterSpec) -> None:
    record(spec)
    with pytest.raises(CorralError) as caught:
        api.spec_of("other")
    assert (caught.value.code, caught.value.hint) == (Code.NOT_FOUND, "known here: laptop")


def test_a_record_of_another_corral_is_refused(spec: ClusterSpec) -> None:
    journal = Journal(cluster_dir("old") / "journal.jsonl", "test")
    journal.write("spec", {"spec": {"corral": "v0"}})
    with pytest.raises(CorralError) as caught:
        api.spec_of("old")
    assert caught.value.code is Code.PARSE_FAILED


def test_what_has_the_form_of_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_text("")
    assert all(map(known_clusters.is_path, ("a/b", "x.yaml", "x.yml", "plain")))
    assert not any(map(known_clusters.is_path, ("lab", "", "lab-2")))


# import corral


def test_every_name_of_the_packages_can_be_had() -> None:
    for package in (api, corral):
        for name in dir(package):
            value = getattr(package, name)
            assert not isinstance(value, type(sys)), f"{name} is a module, not a use case"
        with pytest.raises(AttributeError):
            package.nonsense  # noqa: B018


def test_each_name_is_written_once() -> None:
    """The stub alone lists names: for loading, for type checkers and for ``dir``."""
    for package in (api, corral):
        source = Path(package.__file__)
        lines = source.with_suffix(".pyi").read_text().splitlines()
        rows = [line.split() for line in lines if line.startswith("from ")]
        names = [row[-1] for row in rows]
        assert rows
        assert sorted(names) == dir(package)
        for _, module, _, name, _, again in rows:
            assert name == again
            assert getattr(package, name) is getattr(import_module(module), name)
        assert not [name for name in names if name in source.read_text().split('"""')[2]]


def test_the_stub_names_the_module_that_defines() -> None:
    """A module of use cases that re-exported a name listed it again, in ``__all__``."""
    for package in (api, corral):
        stub = Path(package.__file__).with_suffix(".pyi").read_text()
        for module, name in re.findall(r"^from (\S+) import (\w+) as", stub, re.MULTILINE):
            tree = ast.parse(Path(import_module(module).__file__ or "").read_text())
            targets = [t for x in tree.body if isinstance(x, ast.Assign) for t in x.targets]
            targets += [x.target for x in tree.body if isinstance(x, ast.AnnAssign)]
            names = {t.id for t in targets if isinstance(t, ast.Name)}
            names |= {x.name for x in tree.body if isinstance(x, DEFINITIONS)}
            assert name in names, (module, name)


def test_open_takes_a_file_or_a_name(spec: ClusterSpec) -> None:
    assert corral.open(LAPTOP).spec == spec
    record(spec)
    cluster = corral.open("laptop")
    assert (cluster.spec, cluster.name, repr(cluster)) == (
        spec,
        "laptop",
        "<corral.Cluster laptop>",
    )
    assert cluster.rehearsal().name == "laptop-rehearsal"
    with pytest.raises(corral.CorralError):
        corral.open("nobody")
    assert corral.lint(LAPTOP) == ()


def test_sync_works_inside_a_running_loop() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    async def fail() -> None:
        raise CorralError(Code.BUSY, "x")

    async def notebook() -> int:
        with pytest.raises(CorralError):
            sync(fail())
        return sync(answer())

    assert asyncio.run(notebook()) == 42
    assert sync(answer()) == 42


# what is loaded when


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import corral", ("pydantic", "rich", "typer", "asyncio", "corral.api")),
        (
            "import corral.cli.main",
            ("pydantic", "rich", "corral.api", "corral.spec", "asyncio", "importlib.metadata"),
        ),
        (
            "from corral.cli.main import load_verb; load_verb('plan'); from corral.api import plan",
            ("corral.prove", "corral.jobs", "rich.markdown"),
        ),
    ],
)
def test_nothing_is_loaded_before_it_is_needed(code: str, absent: tuple[str, ...]) -> None:
    """The start of the command line must not pay for verbs that were not asked for."""
    script = f"import sys\n{code}\nprint(*[m for m in {absent!r} if m in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.split() == []


def test_no_use_case_is_named_as_a_module_is() -> None:
    """Importing corral.api.x sets x in corral.api: a use case x would be there only once."""
    assert not {module.name for module in pkgutil.iter_modules(api.__path__)} & set(dir(api))


# choosing nodes


def test_chosen_nodes(spec: ClusterSpec) -> None:
    assert nodes.chosen(spec, "") == ["node0", "node1", "node2"]
    assert nodes.chosen(spec, "node[2,0],node2") == ["node2", "node0"]
    for hostlist, code in (
        ("node[0-", Code.USAGE),
        ("node[1-3]", Code.NOT_FOUND),
        (",", Code.USAGE),
    ):
        with pytest.raises(CorralError) as caught:
            nodes.chosen(spec, hostlist)
        assert caught.value.code is code
        assert caught.value.hint


@pytest.mark.parametrize("reason", ["", " ", "a\nb", "a\x1b[2J"])
def test_draining_wants_a_reason_of_one_line(reason: str, spec: ClusterSpec) -> None:
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.drain(spec, "node0", reason))
    assert caught.value.code is Code.USAGE


def test_login_pins_the_host_key_under_the_nodes_name(tmp_path: Path) -> None:
    target = SshTarget("10.0.0.1", key=tmp_path / "key", known_hosts=tmp_path / "known hosts")
    argv = nodes.login(target, "node0", ("ls", "$HOME"))
    assert argv[:3] == ["ssh", "-F", "none"]
    assert "HostKeyAlias=node0" in argv
    assert "StrictHostKeyChecking=yes" in argv
    assert f'UserKnownHostsFile="{tmp_path}/known hosts"' in argv
    assert argv[-6:] == ["-l", "root", "--", "10.0.0.1", "ls", "$HOME"]


def test_login_to_a_users_own_machine_reads_their_config() -> None:
    argv = nodes.login(SshTarget("rtx", user="ada"), "node0", ())
    assert argv == ["ssh", "-l", "ada", "--", "rtx"]
    assert nodes.login(SshTarget("rtx", port=2222), "n", ())[1:3] == ["-p", "2222"]


# status

SHOWN = """\
NodeName=node0 Arch=x86_64 CPUAlloc=1 CPUEfctv=2 CPUTot=2 CPULoad=0.5 Gres=gpu:slot:2 \
GresUsed=gpu:slot:1(IDX:0) NodeAddr=10.0.0.10 Version=24.11.5 OS=Linux 6.1 RealMemory=5845 \
AllocMem=1024 FreeMem=14974 State=MIXED ThreadsPerCore=1 Partitions=main
NodeName=node1 Arch=x86_64 CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=0.5 Gres=gpu:slot:2 \
GresUsed=gpu:slot:0(IDX:N/A) NodeAddr=10.0.0.11 Version=24.11.5 OS=Linux 6.1 RealMemory=5845 \
AllocMem=0 FreeMem=14974 State=IDLE+DRAIN ThreadsPerCore=1 Partitions=main \
Reason=State=IDLE new memory [root@2026-11-21T03:00:00]
"""
MAIN = {
    "load": "0.42",
    "units": "slurmd active\nslurmctld active\n",
    "nodes": SHOWN,
    "queue": "RUNNING\nRUNNING\nPENDING\n",
}
OTHER = {"load": "0.1", "units": "slurmd failed\n"}


def states(**answers: dict[str, str]) -> dict[str, MachineState]:
    return {node: MachineState(node, sections) for node, sections in answers.items()}


def test_status_of_a_cluster_with_a_drained_and_an_absent_node(spec: ClusterSpec) -> None:
    seen = overview.judge(spec, "node0", states(node0=MAIN, node1=OTHER), {"node2": "is stopped"})
    first, second, third = seen.nodes
    assert (first.state, first.usable, first.load) == ("mixed", True, 0.42)
    shown = first.as_dict()
    assert (shown["cpus_used"], shown["cpus"]) == (1, 2)
    assert (shown["gpus_used"], shown["gpus"], shown["memory_used_mib"]) == (1, 2, 1024)
    assert (second.state, second.reason) == ("idle+drain", "State=IDLE new memory")
    assert not second.usable
    assert (third.state, third.reason) == ("absent", "is stopped")
    assert seen.jobs == {"pending": 1, "running": 2}
    assert [trouble.subject for trouble in seen.troubles] == ["slurmd on node1", "node1", "node2"]
    assert seen.slurm == "24.11.5"
    assert seen.as_dict()["good"] is False


def test_status_that_is_good(spec: ClusterSpec) -> None:
    text = "\n".join(SHOWN.splitlines()[0].replace("node0", f"node{i}") for i in range(3))
    good = OTHER | {"units": "slurmd active"}
    machines = states(node0=MAIN | {"nodes": text}, node1=good, node2=good)
    assert overview.judge(spec, "node0", machines, {}).good


@pytest.mark.parametrize(
    "answer",
    [
        "slurm_load_node error: Unable to contact slurm controller (connect failure)",
        "Slurmctld(primary) at node0 is DOWN",
        "",
    ],
)
def test_status_while_slurmctld_is_silent(answer: str, spec: ClusterSpec) -> None:
    gone = CorralError(Code.UNREACHABLE, "no route to host", node="node2")
    machines = states(node0=MAIN | {"nodes": answer}, node1=OTHER)
    machines["node2"] = MachineState("node2", error=gone)
    seen = overview.judge(spec, "node0", machines, {})
    assert not seen.good
    assert seen.troubles[0].subject == "slurmctld"
    assert answer in seen.troubles[0].message
    assert [node.state for node in seen.nodes] == ["unknown", "unknown", "unreachable"]
    assert [t.subject for t in seen.troubles[1:]] == ["slurmd on node1", "node2"]


@pytest.mark.parametrize(("word", "asked"), [("UP", 3), ("DOWN", 1)])
def test_status_asks_a_dead_slurmctld_once(
    spec: ClusterSpec, tmp_path: Path, word: str, asked: int
) -> None:
    """Two commands asked again for 15 s each, and the status then reported "it knows no node"."""
    fake = (
        f"#!/bin/sh\necho >>${{0%/*}}/asked\n"
        f"[ $1 != ping ] || echo 'Slurmctld(primary) at node0 is {word}'\n"
    )
    for name in ("scontrol", "squeue"):
        (tmp_path / name).write_text(fake)
        (tmp_path / name).chmod(0o755)
    context = ProveContext(spec, Fleet({}), "node0", "corral", {})
    questions = inquiry(overview.questions(context, "node0"))
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", "-c", questions.script], env=env, capture_output=True, check=True, text=True
    )
    assert (tmp_path / "asked").read_text().count("\n") == asked
    assert f"is {word}" in questions.answers(done.stdout, "node0", "asking")["ping"]
