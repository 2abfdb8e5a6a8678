"""One query of the cluster before anything of a job is written: what it needs and does not find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from corral.hosts.fleet import Fleet
from corral.hosts.framing import Inquiry
from corral.hosts.quote import NOTHING, Script, sh
from corral.hosts.transport import check
from corral.inspect.slurm import NODES
from corral.jobs.archive import ask_script, names_asked
from corral.jobs.follow_script import as_user
from corral.jobs.limits import Refusal, nearest, refuse, without_pyxis
from corral.jobs.model import JobSpec
from corral.jobs.parcel import Parcel
from corral.jobs.roof import JOBS, user_folder
from corral.slurm.records import Node
from corral.slurm.text import parse_nodes

_APPLY: Final = "corral apply puts it right"

_MISSING: Final = """\
there=
if ! id -u {user} >/dev/null 2>&1; then echo no-user
elif [ ! -d {mount} ]; then echo no-storage
else there=y; fi"""

_SIZE: Final = sh("scontrol show config 2>/dev/null | sed -n 's/^MaxArraySize *= *//p'")
_PYXIS: Final = sh("srun --help 2>/dev/null | grep -q -e --container-image || echo no-pyxis")

# As the job's user: what root can read proves nothing. A folder must be entered, too.
_PATHS: Final = """\
for path in {paths}; do
  [ -r "$path" ] && {{ [ ! -d "$path" ] || [ -x "$path" ]; }} && continue
  up=$path
  until [ -d "${{up:-/}}" ]; do up=${{up%/*}}; done
  printf 'unread %s\\nabove %s\\n' "$path" "${{up:-/}}"
  ls -1 "${{up:-/}}" 2>/dev/null | head -n 500 | sed 's/^/name /'
done"""


@dataclass(frozen=True, slots=True)
class Look:
    """What the cluster answered.

    Attributes:
        nodes: Slurm's nodes.
        lacking: contents that the user's store lacks, as ``sending.missing`` reads them.
        array_size: Slurm's MaxArraySize, None when it was not asked for.
    """

    nodes: tuple[Node, ...]
    lacking: tuple[str, ...] = ()
    array_size: int | None = None


async def look(
    fleet: Fleet,
    controller: str,
    job: JobSpec,
    *,
    user: str,
    mount: str,
    parcel: Parcel | None,
    script: bool = True,
) -> Look:
    """Ask for user, storage, paths the job names, the store's contents and the nodes.

    Args:
        fleet: the cluster's machines.
        controller: where it is asked.
        job: the job.
        user: whose it is.
        mount: the shared storage.
        parcel: what is uploaded; None when the script is on shared storage.
        script: look for the script there.

    Raises:
        CorralError: USAGE, something the job names is not there; COMMAND_FAILED, Slurm is silent.
    """
    needed = _needed(job, mount, sent=parcel is not None or not script)
    store = user_folder(mount, JOBS, user)
    asked = Inquiry(
        {
            "missing": sh(_MISSING, user=user, mount=mount),
            "paths": _there(user, sh(_PATHS, paths=list(needed)) if needed else NOTHING),
            "contents": _there(user, ask_script(store) if parcel is not None else NOTHING),
            "array": _SIZE if job.tasks else NOTHING,
            "pyxis": _PYXIS if job.container else NOTHING,
            NODES.name: NODES.shell,
        }
    )
    stdin = names_asked(parcel) if parcel is not None else b""
    result = check(
        await fleet.run(controller, asked.script, stdin=stdin, timeout=120), "asking the controller"
    )
    sections = asked.read(result.stdout)
    texts = sections.require(asked.names, controller, "asking the controller")
    refuse(
        [
            *_missing(texts["missing"], user, controller, mount),
            *([without_pyxis(job)] if texts["pyxis"] else []),
            *_unread(texts["paths"].splitlines(), user, needed),
        ]
    )
    what = "asking which contents of the project are there"
    lacking = sections.succeeded("contents", controller, what, stderr=result.stderr).splitlines()
    shown = sections.succeeded(
        NODES.name,
        controller,
        "asking Slurm for its nodes",
        hint="is slurmctld up? see corral status",
    )
    size = texts["array"].strip()
    return Look(parse_nodes(shown), tuple(lacking), int(size) if size.isdecimal() else None)


def _there(user: str, script: Script) -> Script:
    """The script as the user, where user and storage are there. Framed by root, from outside."""
    return (
        sh('[ -z "$there" ] || ( {script} )', script=as_user(user, script)) if script else NOTHING
    )


def _needed(job: JobSpec, mount: str, *, sent: bool) -> dict[str, str]:
    """Paths that must be there, and what each is to the job."""
    paths = {path: "data" for path in job.data}
    if job.workdir:
        paths[job.workdir] = "folder to run in"
    if not sent:
        paths[job.script] = "script"
    # Elsewhere it may be a folder of each node's own, which the controller need not have.
    if job.container and PurePosixPath(job.container).is_relative_to(mount):
        paths[job.container] = "image"
    for source in (each.partition(":")[0] for each in job.mounts):
        if PurePosixPath(source).is_relative_to(mount):
            paths[source] = "folder to mount"
    return paths


def _missing(word: str, user: str, controller: str, mount: str) -> list[Refusal]:
    reasons = {
        "no-user": Refusal(f"user {user} does not exist on {controller}", _APPLY),
        "no-storage": Refusal(f"shared storage {mount} is not mounted on {controller}", _APPLY),
    }
    return [reasons[word]] if word in reasons else []


def _unread(lines: Iterable[str], user: str, needed: Mapping[str, str]) -> list[Refusal]:
    refusals: list[Refusal] = []
    path, above, names = "", "", list[str]()

    def done() -> None:
        if not path:
            return
        what = needed.get(path, "path")
        if above == path or path.removeprefix(f"{above.rstrip('/')}/") in names:
            refusals.append(Refusal(f"{what} {path} cannot be read by {user}", "chmod or chown it"))
        else:
            reason = f"no {what} {path} that {user} can read on the cluster"
            refusals.append(Refusal(reason, nearest(path, above, names)))

    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "unread":
            done()
            path, above, names = rest, "", []
        elif word == "above":
            above = rest
        elif word == "name":
            names.append(rest)
    done()
    return refusals
