"""A job's way to Slurm: looked at first, its files to shared storage, then sbatch."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script, join, sh
from corral.hosts.transport import check
from corral.jobs.limits import (
    Refusal,
    against_nodes,
    against_spec,
    cpus_per_rank,
    memory_share,
    nodes_for,
    partition_of,
    refuse,
    user_of,
)
from corral.jobs.model import JobHandle, JobSpec
from corral.jobs.script import Place, batch_script
from corral.jobs.watching import as_user
from corral.slurm.states.nodes import SHOW_NODES, NodeInfo, parse_nodes
from corral.spec.models import ClusterSpec
from corral.spec.nodes import partitions_of

JOBS: Final = "corral/jobs"
MAX_SCRIPT: Final = 32 * 1024 * 1024
_MARK: Final = "@@corral"

# The folders above the user's own are root's and no link, else a user could have root make a
# folder anywhere. In the user's own folder only the user works.
_ROOF: Final = """\
roof={mount}
for part in corral jobs; do
  roof=$roof/$part
  [ -d "$roof" ] || mkdir -m 0755 "$roof" || exit 1
  if [ -L "$roof" ] || [ "$(stat -c %u "$roof")" != 0 ]; then
    echo "$roof must be a folder of root" >&2
    exit 1
  fi
done
if [ ! -e "$roof/{user}" ]; then
  mkdir -m 0700 "$roof/{user}" && chown -h "{user}:$(id -g {user})" "$roof/{user}" || exit 1
fi
"""

# The link leads from Slurm's number to the folder, whose name had to be there before the number.
_SEND: Final = """\
umask 077
mkdir {folder} && cd {folder} || exit 1
{files}
id=$(sbatch --parsable job.sh) || exit 3
id=${{id%%;*}}
ln -sfn {folder} "../$id"
echo "{mark} $id\""""

_LOOK: Final = """\
id -u {user} >/dev/null 2>&1 || echo "{mark} no-user"
[ -d {mount} ] || echo "{mark} no-storage"
{script}
{nodes}"""


@dataclass(frozen=True, slots=True)
class _Source:
    """The script: bytes to send, or None for one that lies on shared storage already."""

    path: str
    content: bytes | None


def dry_run(job: JobSpec, spec: ClusterSpec) -> Script:
    """The batch script as it would be sent, as far as the cluster file alone tells it.

    Raises:
        CorralError: USAGE, the job cannot run as asked.
    """
    refuse(against_spec(job, spec))
    mount = spec.storage[0].mount
    folder = f"{mount}/{JOBS}/{user_of(job, spec)}/JOB"
    local = not any(PurePosixPath(job.script).is_relative_to(s.mount) for s in spec.storage)
    program = f"{folder}/{PurePosixPath(job.script).name}" if local else job.script
    return batch_script(job, _place(job, spec, folder, program, ()))


async def submit(fleet: Fleet, controller: str, spec: ClusterSpec, job: JobSpec) -> JobHandle:
    """Hand a job to Slurm, with its files in a folder of its own on shared storage.

    Raises:
        CorralError: USAGE or NOT_FOUND, the job cannot run as asked (nothing was submitted);
            SLURM_REFUSED, sbatch refused it; COMMAND_FAILED, its files could not be written.
    """
    refuse(against_spec(job, spec))
    source = await _source(job, spec)
    user, mount = user_of(job, spec), spec.storage[0].mount
    partition = _partition(job, spec)
    nodes = nodes_for(job, partition, await _look(fleet, controller, user, mount, source))
    refuse(against_nodes(job, partition, nodes))
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    folder = f"{mount}/{JOBS}/{user}/{stamp}-{job.title}-{secrets.token_hex(3)}"
    name = PurePosixPath(source.path).name
    program = source.path if source.content is None else f"{folder}/code/{name}"
    place = _place(job, spec, folder, program, nodes)
    files = {
        "job.sh": batch_script(job, place).encode(),
        "job.json": json.dumps({"logs": job.logs, "job": job.model_dump()}, indent=1).encode(),
    }
    if source.content is not None:
        files[f"code/{name}"] = source.content
    job_id = await _send(fleet, controller, user, mount=mount, folder=folder, files=files)
    return JobHandle(job_id, job.title, user, folder, job.logs, controller)


async def _source(job: JobSpec, spec: ClusterSpec) -> _Source:
    path = Path(job.script)
    content = await asyncio.to_thread(_read, path)
    if content is not None:
        return _Source(str(path), content)
    if any(PurePosixPath(job.script).is_relative_to(s.mount) for s in spec.storage):
        return _Source(job.script, None)
    shared = ", ".join(s.mount for s in spec.storage)
    raise CorralError(
        Code.NOT_FOUND,
        f"no script {job.script}",
        hint=f"name a file of this machine, or one under {shared} on the cluster",
    )


def _read(path: Path) -> bytes | None:
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > MAX_SCRIPT:
            raise CorralError(
                Code.USAGE,
                f"{path} is larger than {MAX_SCRIPT >> 20} MiB: that is data, not a script",
                hint="put it on the cluster's shared storage and name it there",
            )
        return path.read_bytes()
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND, f"{path} cannot be read: {error.strerror}", hint="check its permissions"
        ) from error


async def _look(
    fleet: Fleet, controller: str, user: str, mount: str, source: _Source
) -> tuple[NodeInfo, ...]:
    """One look at the cluster before anything is written: user, storage, script, nodes."""
    seen = sh("")
    if source.content is None:
        inner = sh("[ -f {p} ] && [ -r {p} ] || echo {m}", p=source.path, m=f"{_MARK} no-script")
        seen = sh("({script})", script=as_user(user, inner))
    script = sh(
        _LOOK,
        user=user,
        mount=mount,
        mark=sh(_MARK),
        script=seen,
        nodes=sh("{words}", words=SHOW_NODES),
    )
    result = await fleet.run(controller, script, timeout=60)
    lines = result.stdout.splitlines()
    marks = {line.removeprefix(f"{_MARK} ") for line in lines if line.startswith(_MARK)}
    apply = "corral apply puts it right"
    reasons = {
        "no-user": Refusal(f"user {user} does not exist on {controller}", apply),
        "no-storage": Refusal(f"shared storage {mount} is not mounted on {controller}", apply),
        "no-script": Refusal(
            f"no script {source.path} that {user} can read on the cluster",
            "copy it there, or name a file of this machine",
        ),
    }
    refuse([reasons[mark] for mark in sorted(marks & reasons.keys())])
    check(result, "asking Slurm for its nodes", hint="is slurmctld up? corral status says so")
    return parse_nodes("\n".join(line for line in lines if not line.startswith(_MARK)))


async def _send(
    fleet: Fleet, controller: str, user: str, *, mount: str, folder: str, files: dict[str, bytes]
) -> int:
    folders = sorted({str(PurePosixPath(name).parent) for name in files} - {"."})
    writes = [
        *(sh("mkdir -p {path}", path=path) for path in folders),
        *(
            sh("head -c {size} > {name} && chmod 0700 {name} || exit 1", size=len(data), name=name)
            for name, data in files.items()
        ),
    ]
    inner = sh(_SEND, folder=folder, files=join(writes), mark=sh(_MARK))
    script = join([sh(_ROOF, mount=mount, user=user), as_user(user, inner)])
    result = await fleet.run(controller, script, stdin=b"".join(files.values()), timeout=120)
    if result.status == 3:  # noqa: PLR2004  # sbatch's own refusal, see _SEND
        raise CorralError(
            Code.SLURM_REFUSED,
            "Slurm refused the job",
            node=controller,
            command="sbatch job.sh",
            status=result.status,
            tail=result.tail,
            hint=f"the script that was refused lies in {folder}/job.sh",
        )
    check(result, f"writing the job's files to {folder}", hint="is the shared storage writable?")
    number = result.stdout.rpartition(f"{_MARK} ")[2].strip()
    if not number.isdecimal():
        raise CorralError(
            Code.PARSE_FAILED, "sbatch gave no job id", node=controller, tail=result.tail
        )
    return int(number)


def _partition(job: JobSpec, spec: ClusterSpec) -> str:
    found = partition_of(job, spec)
    return found.name if found else partitions_of(spec)[0].name


def _place(
    job: JobSpec, spec: ClusterSpec, folder: str, program: str, nodes: tuple[NodeInfo, ...]
) -> Place:
    data = spec.network.data
    return Place(
        folder=folder,
        program=program,
        partition=_partition(job, spec),
        cpus_per_rank=cpus_per_rank(job, nodes),
        mem=memory_share(job, nodes),
        interface=(data.interface or "") if data else "",
    )
