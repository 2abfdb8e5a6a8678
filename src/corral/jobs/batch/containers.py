"""A job in a container: the image as Enroot names it, what is mounted, and srun's words. Pure.

The image is unpacked and entered by Pyxis, an srun plugin. The batch script itself runs on the
machine, and so does what reads the fabric: an image need not have ``ip``, and a node's own files
(GPUDirect-TCPXO's profile) are not in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from corral.hosts.quote import NOTHING, Script, join, piece, sh
from corral.spec import values

if TYPE_CHECKING:
    from corral.jobs.model import JobSpec

_PATH: Final = re.compile(values.ABSOLUTE_PATH.pattern)
_NAMED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@#+-]{0,511}")
_FLAGS: Final = ("ro", "rw")
_GPU: Final = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")


def image_of(text: str) -> str:
    """An image as Enroot names it: a squashfs file's path, or ``REGISTRY#NAME:TAG``.

    Docker's way to write it (``nvcr.io/nvidia/pytorch:26.04-py3``, ``docker://ubuntu``) is taken
    too: Enroot would look for the registry's name as a folder of Docker Hub.

    Raises:
        ValueError: it is neither.
    """
    if text.startswith("/"):
        if not _PATH.fullmatch(text):
            raise ValueError(f"an image's path is {values.ABSOLUTE_PATH.words}")
        return text
    name = text.removeprefix("docker://")
    if name.startswith(".") or name.endswith((".sqsh", ".squashfs")):
        raise ValueError(
            "an image file is on shared storage, where all nodes see it: "
            "give its absolute path there"
        )
    if not _NAMED.fullmatch(name):
        raise ValueError("an image is a path on shared storage, or [REGISTRY/]NAME[:TAG]")
    first, slash, rest = name.partition("/")
    if "#" not in name and slash and ("." in first or ":" in first or first == "localhost"):
        return f"{first}#{rest}"
    return name


def mount_of(text: str) -> str:
    """A mount as Pyxis takes it, ``SRC:DST`` or ``SRC:DST:ro``; ``SRC`` alone keeps its place.

    Raises:
        ValueError: it is none.
    """
    source, _, rest = text.partition(":")
    target, _, flag = rest.partition(":")
    for path in (source, target or source):
        if not _PATH.fullmatch(path):
            raise ValueError(
                f"{path!r}: a mount is SRC:DST or SRC:DST:ro, both absolute paths of plain names; "
                "SRC is a folder of the nodes, not of this machine"
            )
    if flag and flag not in _FLAGS:
        raise ValueError(f"{flag!r}: a mount's flag is ro or rw")
    return ":".join(part for part in (source, target or source, flag) if part)


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


def words(job: JobSpec, mounts: tuple[str, ...]) -> Script:
    """Srun's options that put a rank into its container; nothing for a job without one."""
    if job.container is None:
        return NOTHING
    parts = [
        sh("--container-image={image}", image=job.container),
        sh('--container-workdir="$PWD"'),
        *([sh("--container-mounts={mounts}", mounts=",".join(mounts))] if mounts else []),
        *([sh("--container-env={names}", names=",".join(_GPU))] if job.gpus_per_node else []),
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
    driver = piece("jobs/batch/container-driver.sh") if job.gpus_per_node else NOTHING
    nodes = piece("jobs/batch/container-nodes.sh", settings=settings, nodes=job.nodes)
    return join([driver, nodes], "")


def rank_setup(env: Mapping[str, str], folder: str) -> Script:
    """Shell of each rank in its container: what its node wrote, then the user's own values.

    Args:
        env: the user's own values.
        folder: the job's folder.
    """
    exports = [sh("export {name}={value}", name=k, value=v) for k, v in sorted(env.items())]
    return piece("jobs/batch/container-rank.sh", env=join(exports), lib=f"{folder}/lib")
