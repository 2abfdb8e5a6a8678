"""What a profiled job recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from corral.api.output import write_folder
from corral.api.workload.queue import JobRef, handle_of, own_job
from corral.apply.connection import Connection
from corral.errors import Code, CorralError
from corral.events import Emit, ignore
from corral.jobs.profile.recordings import Recordings, recordings
from corral.spec.models import ClusterSpec

TIMELINE: Final = "timeline.json.gz"
"""The name of the merged trace: Perfetto unpacks what ends in .gz."""


async def job_profile(spec: ClusterSpec, job: JobRef, emit: Emit = ignore) -> Recordings:
    """Fetch and read the recordings of a job that ran with ``profile``.

    Args:
        spec: the cluster.
        job: its number, or ``12_3`` for a part of an array.
        emit: receives nothing yet.

    Raises:
        CorralError: NOT_FOUND, no such job, or it recorded nothing; PARSE_FAILED; FORBIDDEN,
            it is not the job of a profile's user.
    """
    async with await Connection.open(spec, root=False) as session:
        session.require_running()
        return await recordings(session.fleet, own_job(session, await handle_of(session, job)))


def keep_profile(recorded: Recordings, folder: Path) -> tuple[Path, ...]:
    """Write recordings, summary and timeline into a folder of this machine; returns the files.

    Raises:
        CorralError: COMMAND_FAILED, it cannot be written; USAGE, it or a file in it is a link.
    """
    files = {name: data for name, data in recorded.files.items()}
    files["summary.json"] = (json.dumps(recorded.as_dict(), indent=1) + "\n").encode()
    merged = recorded.timeline()
    if merged:
        files[TIMELINE] = merged
    try:
        written = write_folder(folder, files)
    except OSError as error:
        raise CorralError(
            Code.COMMAND_FAILED,
            f"{folder} cannot be written: {error.strerror}",
            hint="name another folder with --output",
        ) from error
    return tuple(sorted(written))
