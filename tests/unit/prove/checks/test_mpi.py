"""The MPI hello judged, and which hello runs where."""

from __future__ import annotations

import re

import pytest

from corral.agents import program
from corral.inspect.slurm import mpi_kinds
from corral.prove.checks.ranks import (
    judge,
    parse,
    plan,
)
from corral.prove.launch import WAIT

NODES = ("node0", "node1", "node2")
# srun --mpi=list of Slurm 24.11.5 on Debian 13.
LISTED = """\
MPI plugin types are...
\tnone
\tpmix
\tcray_shasta
\tpmi2
specific pmix plugin versions available: pmix_v5
"""
GOOD = "@ mpi 0 node0 3 3 openmpi\n@ mpi 2 node2 3 3 openmpi\n@ mpi 1 node1 3 3 openmpi\n"


def test_what_slurm_supports_and_what_is_run_by_it() -> None:
    kinds = mpi_kinds(LISTED)
    assert kinds == ("pmix", "pmi2", "pmix_v5")
    assert plan(kinds, frozenset({"openmpi"})) == [("pmi2", "pmi2"), ("pmix", "openmpi")]
    assert plan(kinds, frozenset({"mpich"})) == [("pmi2", "pmi2"), ("pmi2", "mpich")]
    assert plan(kinds, frozenset({"openmpi", "none"})) == [("pmi2", "pmi2")]
    assert plan((), frozenset({"openmpi"})) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD, []),
        ("@ pmi2 0 node0 3 node1\n@ pmi2 1 node1 3 node2\n@ pmi2 2 node2 3 node0\n", []),
        ("@ pmi2 0 node0 3 node2\n@ pmi2 1 node1 3 node2\n@ pmi2 2 node2 3 node0\n",
         ["rank 0 on node0 reads from its neighbour node2"]),
        (GOOD.replace("3 3 openmpi", "1 0 openmpi"), ["each rank sees only itself"]),
        (GOOD.replace("0 node0 3 3", "0 node0 3 2"), ["rank 0 on node0 adds the ranks up to 2"]),
        (GOOD.replace("0 node0 3 3", "0 node0 2 3"), ["rank 0 on node0 knows of 2 ranks"]),
        ("@ mpi 0 node0 3 3 openmpi\n", ["node1 did not run", "node2 did not run"]),
    ],
)  # fmt: skip
def test_verdicts(text: str, words: list[str]) -> None:
    problems = judge(NODES, "pmix", parse(text), done=True)
    assert len(problems) == len(words)
    assert all(word in problem for word, problem in zip(words, problems, strict=True))


def test_an_srun_that_fails_is_no_pass() -> None:
    assert judge(NODES, "pmix", parse(GOOD), done=False) == [
        "--mpi=pmix: srun failed after its ranks had reported"
    ]


def test_ranks_that_never_meet_give_up_before_srun_is_ended() -> None:
    """Two nodes that do not reach each other took the check all of srun's 60 s."""
    seconds = re.search(r"^alarm (\d+);", program("proof-pmi2.pl"), re.MULTILINE)
    assert seconds
    assert 5 <= int(seconds[1]) <= WAIT + 10
