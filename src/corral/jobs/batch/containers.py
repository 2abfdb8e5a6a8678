"""A job in a container: what is mounted, and srun's words. Pure.

The image is unpacked and entered by Pyxis, an srun plugin. The batch script itself runs on the
machine, and so does what reads the fabric: an image need not have ``ip``, and a node's own files
(GPUDirect-TCPXO's profile) are not in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from corral.hosts.quote import NOTHING, Script, join, piece, sh
from corral.jobs.model import JobSpec

_GPU: Final = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")


def mounts_of(job: JobSpec, shared: Iterable[str], extra: Iterable[str] = ()) -> tuple[str, ...]:
    """All that is mounted: shared storage in its place, the job's data, then the user's own.

    Args:
        job: the job.
        shared: where shared storage is mounted; code, logs and checkpoints are there.
        extra: what the fabric needs of the machine.
    """
    own = {mount.split(":")[1] for mount in job.mounts}
    roots = [path for path in shared if path not in own]
    data = [path for path in job.data if not any(_under(path, root) for root in roots)]
    read = [f"{path}:{path}:ro" for path in data if path not in own]
    return tuple(dict.fromkeys([*(f"{r}:{r}" for r in roots), *extra, *read, *job.mounts]))


def _under(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _on_gpu(job: JobSpec) -> bool:
    return job.gpus_per_node > 0 or job.shares_gpu


def words(job: JobSpec, mounts: tuple[str, ...]) -> Script:
    """Srun's options that put a rank into its container; nothing for a job without one."""
    if job.container is None:
        return NOTHING
    parts = [
        sh("--container-image={image}", image=job.container),
        sh('--container-workdir="$PWD"'),
        *([sh("--container-mounts={mounts}", mounts=",".join(mounts))] if mounts else []),
        *([sh("--container-env={names}", names=",".join(_GPU))] if _on_gpu(job) else []),
    ]
    return join([NOTHING, *parts], " \\\n  ")


def before(job: JobSpec, settings: Script) -> Script:
    """Shell before the ranks: each node writes its fabric's environment into the job's folder.

    Args:
        job: the job.
        settings: what writes it, run once on each node (``fabric.settings`` with ``write``).
    """
    if job.container is None:
        return NOTHING
    driver = piece("jobs/batch/container-driver.sh") if _on_gpu(job) else NOTHING
    env = join(sh("export {name}={value}", name=k, value=v) for k, v in sorted(job.env.items()))
    nodes = piece("jobs/batch/container-nodes.sh", settings=settings, nodes=job.nodes, env=str(env))
    return join([driver, nodes], "")


def rank_setup(folder: str) -> Script:
    """Shell of each rank in its container: what its node wrote, then the user's own values.

    Args:
        folder: the job's folder.
    """
    return piece("jobs/batch/container-rank.sh", lib=f"{folder}/lib")
