"""Jobs of plain sbatch that source the file of ``corral env``, on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.api import group_environment
from corral.hosts.quote import sh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

FOLDER = "/shared/test-env-file"
JOB = """\
#!/bin/bash
#SBATCH --nodes=3 --ntasks-per-node=1 --cpus-per-task=1 --output=%s/out
set -euo pipefail
. %s/env.sh
srun sh -c 'echo "$MASTER_ADDR $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME $NCCL_DEBUG"'
"""


def test_ranks_of_plain_sbatch_get_the_groups_environment(cluster: Live) -> None:
    group = cluster.spec.groups[0].model_copy(update={"nccl": ("NCCL_DEBUG=WARN",)})
    text = group_environment(cluster.spec.model_copy(update={"groups": (group,)}), group.name)
    write = sh("mkdir -p {folder} && cat > {folder}/env.sh", folder=FOLDER)
    submit = sh("cat > {f}/job.sh && sbatch --wait {f}/job.sh >/dev/null && cat {f}/out", f=FOLDER)
    try:
        assert cluster.run(cluster.controller, write, stdin=text.encode()).ok
        job = (JOB % (FOLDER, FOLDER)).encode()
        ran = cluster.run(cluster.controller, submit, stdin=job, timeout=120)
    finally:
        cluster.run(cluster.controller, sh("rm -rf {folder}", folder=FOLDER))
    assert ran.ok, (ran.stdout, ran.stderr)
    lines = ran.stdout.splitlines()
    assert len(lines) == 3
    assert len(set(lines)) == 1, lines
    address, nccl, gloo, debug = lines[0].split()
    assert (nccl, debug) == (f"={gloo}", "WARN")
    assert address.count(".") == 3
    assert not address.startswith("127.")
