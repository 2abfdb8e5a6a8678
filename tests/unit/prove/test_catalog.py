"""The table of checks, its page, and the scripts that checks run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from corral.agents import program
from corral.hosts.fleet import Fleet
from corral.inspect.question import inquiry
from corral.prove import launch, probe, survey
from corral.prove.catalog import CHECKS, GROUPS, checks_page
from corral.prove.checks import isolation
from corral.prove.context import ProveContext
from corral.spec.models import ClusterSpec
from tests.embedded.prove_breaks import BREAKS, ELSEWHERE
from tests.embedded.prove_groups import TOGETHER, doing, groups, undoing
from tests.embedded.prove_record import file_name

PAGE = "docs/reference/checks.md"
REPO = Path(__file__).parents[3]
BARE = {
    "corral": "v1",
    "name": "lab",
    "slurm": {"accounting": False, "rest": False},
    "groups": [{"name": "g", "provider": "ssh", "nodes": "node0"}],
}


def test_the_page_is_current(repo: Path) -> None:
    path = repo / PAGE
    assert path.read_text() == checks_page(), (
        "write it again: .venv/bin/python -c 'from corral.prove.catalog import checks_page;"
        f' print(checks_page(), end="")\' > {PAGE}'
    )


def test_ids_and_needs() -> None:
    ids = [check.id for check in CHECKS]
    assert len(set(ids)) == len(ids)
    for check in CHECKS:
        assert check.group in GROUPS
        assert check.id.startswith(f"{check.group}.")
        assert set(check.needs) <= set(ids)
        assert all([check.title, check.proves, check.how, check.breaks])


def test_hints_name_what_the_catalogue_of_failures_knows() -> None:
    without = {"rest.answers", "rest.refuses", "rest.loopback", "concurrency.slots"}
    for check in CHECKS:
        assert check.id in without or re.search(r"\bF\d{2,4}\b", check.hint), check.id
        assert not check.hint.endswith(".")


def test_options_that_hints_name_exist(repo: Path) -> None:
    page = (repo / "docs/reference/cli.md").read_text()
    sections = dict(
        re.findall(r"^#{2,3} (corral [a-z ]+)\n(.*?)(?=^#{2,3} |\Z)", page, re.M | re.S)
    )
    for check in CHECKS:
        for command, option in re.findall(r"(corral [a-z ]+?) (--[a-z-]+)", check.hint):
            assert option in sections[command], (check.id, command, option)


def test_every_check_can_fail() -> None:
    assert {fault.check for fault in BREAKS} | set(ELSEWHERE) == {check.id for check in CHECKS}
    for path in ELSEWHERE.values():
        assert Path(path).name in {p.name for p in (REPO / path).parent.iterdir()}
    assert len({file_name(fault.check, fault.name) for fault in BREAKS}) == len(BREAKS)


def test_breaks_made_together_are_distinguished() -> None:
    made = groups()
    assert sorted(fault.name for group in made for fault in group) == sorted(b.name for b in BREAKS)
    assert {len(group) for group in made} > {1}
    assert sum(len(names) for names in TOGETHER) == len(BREAKS) - sum(len(g) == 1 for g in made)
    for group in made:
        assert len({fault.check for fault in group}) == len(group)
    assert all(len(group) == 1 for group in groups(alone=True))


def test_edits_of_one_file_are_made_at_once(tmp_path: Path) -> None:
    """One after the other would keep the file with the first edit as the one to restore."""
    names = {"isolation.devices", "isolation.memory", "isolation.cores"}
    (group,) = (g for g in groups() if {fault.check for fault in g} == names)
    file = tmp_path / "cgroup.conf"
    was = "".join(f"Constrain{n}=yes\n" for n in ("Devices", "RAMSpace", "SwapSpace", "Cores"))
    file.write_text(was)
    for scripts, expected in ((doing(group), was.replace("yes", "no")), (undoing(group), was)):
        ((node, script),) = scripts
        assert node == "node0"
        text = script.replace("/etc/slurm/cgroup.conf", str(file))
        fake = "scontrol() { [ $1 = reconfigure ] || echo State=IDLE; }\n"
        subprocess.run(["sh", "-c", fake + text], check=True, timeout=20)
        assert file.read_text() == expected


def test_what_a_bare_cluster_cannot_prove_is_skipped_with_a_reason() -> None:
    spec = ClusterSpec.model_validate(BARE)
    ctx = ProveContext(spec, Fleet({}), "node0", "corral", {})
    reasons = {check.id: check.applies(ctx) for check in CHECKS if check.applies(ctx)}
    assert reasons == {
        "smoke.directory": "no directory is declared",
        "isolation.devices": "no node declares a GPU",
        "multinode.ranks": "the cluster has one compute node",
        "multinode.tcp": "the cluster has one compute node",
        "multinode.mpi": "the cluster has one compute node",
        "multinode.nccl": "no node declares a GPU",
        "multinode.tcpxo": "no group is of machine type a3-megagpu-8g",
        "multinode.tcpxo-speed": "no group is of machine type a3-megagpu-8g",
        "accounting.records": "slurm.accounting is false",
        "rest.answers": "slurm.rest is false",
        "rest.refuses": "slurm.rest is false",
        "rest.loopback": "slurm.rest is false",
        "storage.shared": "no shared folder is declared",
        "storage.mounts": "no folder is mounted by NFS or by you",
        "access.adopt": "users may log in without a job",
    }


def test_a_controller_outside_of_all_partitions_is_no_compute_node() -> None:
    groups = [
        {"name": "head", "provider": "ssh", "nodes": "head"},
        {"name": "gpu", "provider": "ssh", "nodes": "node[0-1]", "gpu": {"type": "a", "count": 1}},
    ]
    parts = [{"name": "main", "groups": ["gpu"]}]
    spec = ClusterSpec.model_validate(BARE | {"groups": groups, "partitions": parts, "slurm": {}})
    ctx = ProveContext(spec, Fleet({}), "head", "corral", {})
    assert ctx.compute == ("node0", "node1")
    lead = ("slurmctld", "mariadb", "slurmdbd", "slurmrestd")
    assert survey.units_of(ctx, "head") == lead
    assert survey.units_of(ctx, "node0") == ("slurmd",)


SHELL = {
    "survey": str(
        inquiry(survey.questions(("node0", "node1"), ("slurmd",), controller=False)).script
    ),
    "controller": str(inquiry(survey.questions(("node0",), ("slurmd",), controller=True)).script),
    "probe": probe.PROBE,
    "task": launch._TASK,
    "neighbour": isolation._NEIGHBOUR,
}


@pytest.mark.parametrize("name", SHELL)
def test_shell_is_posix(name: str) -> None:
    done = subprocess.run(["sh", "-n", "-c", SHELL[name]], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.skipif(not shutil.which("perl"), reason="perl is not installed")
def test_perl_compiles() -> None:
    argv = ["perl", "-wc", "-e", probe.DEVICES]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_no_token_in_an_argument_list() -> None:
    ask = program("proof-rest.pl")
    assert "<STDIN>" in ask
    assert "SLURM_JWT" not in ask.split("while", 1)[0]
