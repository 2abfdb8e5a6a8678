"""Uploads a manifest's files to shared storage: those not there yet, and the job's folder.

Each user has a store of file contents, named by their digests, next to the jobs. A job's files are
hard links into it: what did not change is not sent again and takes no room again.
"""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call
from corral.jobs.upload.manifest import Manifest, Packed

STORE: Final = ".store"
_NEW: Final = "new"
_ALL: Final = "all"

_PROGRAM: Final = "jobs/user.sh"


@dataclass(frozen=True, slots=True)
class Archive:
    """What travels: a gzipped tar, and how many contents of how many bytes are new."""

    data: bytes
    contents: int
    size: int


def ask_script(user_folder: str) -> Script:
    """Which contents the store lacks; it reads their names from its stdin, one in a line."""
    return call(_PROGRAM, "contents_lacking", f"{user_folder}/{STORE}", _ALL)


def names_asked(manifest: Manifest) -> bytes:
    """The names that ``ask_script`` reads."""
    return "".join(f"{name}\n" for name in sorted(_blobs(manifest.files))).encode()


def missing(manifest: Manifest, lacking: Iterable[str]) -> frozenset[str]:
    """Names of contents to send, from the lines that ``ask_script`` prints."""
    names = set(lacking)
    every = frozenset(_blobs(manifest.files))
    return every if _ALL in names else every & names


def unpack_script(user_folder: str, name: str, token: str) -> Script:
    """Take an archive from stdin: contents to the store, files to the job's folder ``name``.

    Nothing of the job's folder stays when it fails.
    """
    store = f"{user_folder}/{STORE}"
    return call(_PROGRAM, "archive_unpack", store, user_folder, name, f"{_NEW}.{token}")


def submit_script(
    user_folder: str, name: str, token: str, tasks: Sequence[str], *, refused: int
) -> Script:
    """``unpack_script``, then sbatch in the job's folder; prints the job's number.

    Args:
        user_folder: the user's folder of jobs.
        name: the job's folder in it.
        token: makes the folder of new contents this job's own.
        tasks: folders of an array's parts.
        refused: the exit status where Slurm refuses the job.
    """
    store = f"{user_folder}/{STORE}"
    names = (store, user_folder, name, f"{_NEW}.{token}")
    return call(_PROGRAM, "job_submit", *names, refused, *tasks)


def archive(
    manifest: Manifest, lacking: frozenset[str], name: str, token: str, own: Mapping[str, bytes]
) -> Archive:
    """Pack what is missing, the links to all contents, and the job's own small files.

    Args:
        manifest: what is uploaded.
        lacking: names of contents the store lacks.
        name: the job's folder in the user's.
        token: makes the folder of new contents this job's own.
        own: the job's own files, by their path in its folder.

    Raises:
        CorralError: NOT_GOOD, a file changed while it was read.
    """
    new = f"{STORE}/{_NEW}.{token}"
    blobs = _blobs(manifest.files)
    out = io.BytesIO()
    sent = [blobs[blob] for blob in sorted(lacking)]
    # Level 1: most of it is text, and the link to a cluster is rarely slower than this.
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.GNU_FORMAT, compresslevel=1) as tar:
        for packed in sent:
            _add(tar, f"{new}/blobs/{packed.blob}", packed.read(), executable=packed.executable)
        if sent:
            lines = "".join(f"{packed.digest}  {packed.blob}\n" for packed in sent)
            _add(tar, f"{new}/digests", lines.encode())
        for packed in manifest.files:
            home = f"{new}/blobs" if packed.blob in lacking else f"{STORE}/blobs"
            _link(tar, f"{name}/code/{packed.path}", packed, home)
        for path, data in own.items():
            _add(tar, f"{name}/{path}", data, writable=True)
    return Archive(out.getvalue(), len(sent), sum(packed.size for packed in sent))


def _blobs(files: Iterable[Packed]) -> dict[str, Packed]:
    return {packed.blob: packed for packed in files if not packed.link}


def _add(
    tar: tarfile.TarFile,
    name: str,
    data: bytes,
    *,
    executable: bool = False,
    writable: bool = False,
) -> None:
    about = tarfile.TarInfo(name)
    about.size, about.mtime = len(data), int(time.time())
    about.mode = (0o444, 0o555, 0o644, 0o755)[executable + 2 * writable]
    tar.addfile(about, io.BytesIO(data))


def _link(tar: tarfile.TarFile, name: str, packed: Packed, home: str) -> None:
    about = tarfile.TarInfo(name)
    about.type = tarfile.SYMTYPE if packed.link else tarfile.LNKTYPE
    about.linkname = packed.link or f"{home}/{packed.blob}"
    about.mode, about.mtime = 0o777, int(time.time())
    tar.addfile(about)
