"""The proof's MPI hello over real nodes, by Slurm's PMI-2 and by Open MPI over its PMIx."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.embedded.conftest import Live

from corral import api
from corral.hosts.quote import sh
from corral.jobs.follow import as_user
from corral.prove.model import CheckResult, Verdict

WORLD = """\
import ctypes, os
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
size = ctypes.c_int()
world = ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")
mpi.MPI_Comm_size(ctypes.byref(world), ctypes.byref(size))
print("ranks", size.value, flush=True)
mpi.MPI_Finalize()
"""
PLUGINS = "/usr/lib/x86_64-linux-gnu/slurm-wlm"


def hello(cluster: Live) -> CheckResult:
    proof = asyncio.run(api.prove(cluster.spec, only=("multinode.mpi",)))
    return next(r for r in proof.results if r.check == "multinode.mpi")


@pytest.fixture
def restored(cluster: Live) -> Iterator[None]:
    yield
    back = sh(
        'for f in {folder}/*.away; do [ ! -e "$f" ] || mv "$f" "${{f%.away}}"; done; '
        "for f in /usr/lib/*-linux-gnu/libmpi.so.*.away; do "
        '[ ! -e "$f" ] || mv "$f" "${{f%.away}}"; done',
        folder=PLUGINS,
    )
    assert cluster.run("node1", back).ok


def test_all_ranks_find_each_other(cluster: Live) -> None:
    result = hello(cluster)
    assert result.verdict is Verdict.PASS, result.summary
    assert result.summary == "pmi2 over 3 nodes; pmix (openmpi) over 3 nodes"


@pytest.mark.parametrize(("kind", "ranks"), [("", "3"), ("none", "1")])
def test_srun_without_an_option_starts_one_world(cluster: Live, kind: str, ranks: str) -> None:
    """MpiDefault=pmix: with none the same ranks are three worlds of one."""
    run = sh(
        "cd /tmp && {kind} srun --nodes=3 --ntasks-per-node=1 --gres=none python3 -c {program}",
        kind=sh("SLURM_MPI_TYPE={k}", k=kind) if kind else sh("env"),
        program=WORLD,
    )
    done = cluster.run(cluster.controller, as_user("corral", run), timeout=120)
    assert done.ok, done.tail
    assert done.stdout.split("\n")[:-1] == [f"ranks {ranks}"] * 3


def test_without_slurms_plugin_on_a_node_it_fails(cluster: Live, restored: None) -> None:
    away = sh("cd {folder} && mv mpi_pmi2.so mpi_pmi2.so.away", folder=PLUGINS)
    assert cluster.run("node1", away).ok
    result = hello(cluster)
    assert result.verdict is Verdict.FAIL, result.summary
    assert "--mpi=pmi2: node1 did not run its rank" in result.summary
