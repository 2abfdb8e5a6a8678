"""Jobs that fail for real, and what the doctor says of what they printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from corral import api
from corral.hosts.quote import Script, sh
from corral.prove.context import as_user

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

_TORCH = "import datetime as d, torch, torch.distributed as t; s = d.timedelta(seconds=4); "
_JOIN = _TORCH + "t.init_process_group('gloo', timeout=s)"
_RANKS = (
    'export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS; timeout -s KILL 60 python3 -c "$0" 2>&1'
)
_SRUN = sh("srun -Q -p main -t 2 --mem=400M")


def _python(code: str, *, ranks: int, environment: str) -> Script:
    return sh(
        "{srun} -n{n} -N{n} --export=ALL,{env} sh -c {run} {code}",
        srun=_SRUN, n=ranks, env=environment, run=_RANKS, code=code,
    )  # fmt: skip


CASES: dict[str, tuple[str, Script]] = {
    "the rendezvous is at an address that nobody has": (
        "F30",
        _python(_JOIN, ranks=1, environment="MASTER_ADDR=203.0.113.9,MASTER_PORT=29500"),
    ),
    "an interface that is not there": (
        "F26",
        _python(
            _JOIN,
            ranks=1,
            environment="MASTER_ADDR=127.0.0.1,MASTER_PORT=29511,GLOO_SOCKET_IFNAME=nosuch0",
        ),
    ),
    "a rank that does not come to a collective": (
        "F88",
        _python(
            _JOIN + "; x = torch.ones(1); r = t.get_rank(); t.all_reduce(x); "
            "r or __import__('time').sleep(9); t.all_reduce(x)",
            ranks=2,
            environment="MASTER_ADDR=node1,MASTER_PORT=29512",
        ),
    ),
    "torchrun with a store that Debian's PyTorch lacks": (
        "F62",
        sh(
            "{srun} -n1 --export=ALL,USE_LIBUV=1 timeout 60 python3 -m torch.distributed.run"
            " --nnodes=1 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:29513"
            " --no-python true",
            srun=_SRUN,
        ),
    ),
    "more memory than asked for": (
        "F90",
        sh("srun -Q -p main -t 2 --mem=60M perl -e '$x = \"a\" x (400 << 20); print length $x'"),
    ),
    "more than any node has": ("F92", sh("srun -Q -p main -t 2 -N99 true")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_job_that_fails_is_explained(name: str, cluster: Live) -> None:
    due, script = CASES[name]
    done = cluster.run(cluster.controller, as_user("corral", script), timeout=120)
    assert not done.ok
    report = api.doctor_log(f"{done.stdout}\n{done.stderr}")
    assert [f.failure.id for f in report.findings][:1] == [due], done.tail
    assert report.findings[0].failure.fix
