"""Jobs that fail for real, and what the doctor says of what they printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from corral import api
from corral.hosts.quote import Script, sh
from corral.prove.context import as_user

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

CASES: dict[str, tuple[str, Script]] = {
    "torchrun with a store that Debian's PyTorch lacks": (
        "F62",
        sh(
            "srun -Q -p main -t 2 --mem=400M -n1 --export=ALL,USE_LIBUV=1 timeout 60 python3"
            " -m torch.distributed.run --nnodes=1 --nproc-per-node=1 --rdzv-backend=c10d"
            " --rdzv-endpoint=127.0.0.1:29513 --no-python true"
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
