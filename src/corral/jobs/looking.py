"""One look at the cluster before anything of a job is written: what it needs and does not find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from corral.hosts.fleet import Fleet
from corral.hosts.quote import NOTHING, Script, join, sh
from corral.hosts.transport import check
from corral.jobs.limits import Refusal, nearest, refuse, without_pyxis
from corral.jobs.model import JobSpec
from corral.jobs.packing import Parcel
from corral.jobs.roof import JOBS, user_folder
from corral.jobs.sending import ask_script, asked
from corral.jobs.watching import as_user
from corral.slurm.records import Node
from corral.slurm.text import SHOW_NODES, parse_nodes

MARK: Final = "@@corral"
_APPLY: Final = "corral apply puts it right"

_LOOK: Final = """\
id -u {user} >/dev/null 2>&1 || {{ echo "{mark} no-user"; exit 0; }}
[ -d {mount} ] || {{ echo "{mark} no-storage"; exit 0; }}
({asked})
{array}
{container}
{nodes}"""

_SIZE: Final = """\
scontrol show config 2>/dev/null | sed -n 's/^MaxArraySize *= */{mark} array-size /p'"""

_PYXIS: Final = """\
srun --help 2>/dev/null | grep -q -e --container-image || echo {mark} no-pyxis"""

# As the job's user: what root can read says nothing. A folder must be entered, too.
_PATHS: Final = """\
for path in {paths}; do
  [ -r "$path" ] && {{ [ ! -d "$path" ] || [ -x "$path" ]; }} && continue
  up=$path
  until [ -d "${{up:-/}}" ]; do up=${{up%/*}}; done
  printf '{mark} unread %s\\n{mark} above %s\\n' "$path" "${{up:-/}}"
  ls -1 "${{up:-/}}" 2>/dev/null | head -n 500 | sed 's/^/{mark} name /'
done"""


@dataclass(frozen=True, slots=True)
class Look:
    """What the look gave.

    Attributes:
        nodes: Slurm's nodes.
        marks: what else was said, a line each.
    """

    nodes: tuple[Node, ...]
    marks: tuple[str, ...]

    @property
    def array_size(self) -> int | None:
        """Slurm's MaxArraySize, None when it was not asked for."""
        found = [m.split(" ")[1] for m in self.marks if m.startswith("array-size ")]
        return int(found[0]) if found and found[0].isdecimal() else None


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
        parcel: what goes along; None when the script lies on shared storage.
        script: look for the script there.

    Raises:
        CorralError: USAGE, something the job names is not there; COMMAND_FAILED, Slurm is silent.
    """
    needed = _needed(job, mount, sent=parcel is not None or not script)
    mark = sh(MARK)
    inner = [sh(_PATHS, paths=list(needed), mark=mark)] if needed else []
    if parcel is not None:
        inner.append(ask_script(user_folder(mount, JOBS, user), mark))
    asking = sh(
        _LOOK,
        user=user,
        mount=mount,
        mark=mark,
        asked=as_user(user, join(inner)) if inner else sh(":"),
        array=_array(job, mark),
        container=sh(_PYXIS, mark=mark) if job.container else NOTHING,
        nodes=sh("{words}", words=SHOW_NODES),
    )
    stdin = asked(parcel) if parcel is not None else b""
    result = await fleet.run(controller, asking, stdin=stdin, timeout=120)
    lines = result.stdout.splitlines()
    marks = tuple(line.removeprefix(f"{MARK} ") for line in lines if line.startswith(f"{MARK} "))
    refuse(
        [
            *_missing(marks, user, controller, mount),
            *([without_pyxis(job)] if "no-pyxis" in marks else []),
            *_unread(marks, user, needed),
        ]
    )
    check(result, "asking Slurm for its nodes", hint="is slurmctld up? corral status says so")
    rest = "\n".join(line for line in lines if not line.startswith(f"{MARK} "))
    return Look(parse_nodes(rest), marks)


def _array(job: JobSpec, mark: Script) -> Script:
    return sh(_SIZE, mark=mark) if job.tasks else NOTHING


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


def _missing(marks: Iterable[str], user: str, controller: str, mount: str) -> list[Refusal]:
    reasons = {
        "no-user": Refusal(f"user {user} does not exist on {controller}", _APPLY),
        "no-storage": Refusal(f"shared storage {mount} is not mounted on {controller}", _APPLY),
    }
    return [reasons[mark] for mark in marks if mark in reasons]


def _unread(marks: Iterable[str], user: str, needed: Mapping[str, str]) -> list[Refusal]:
    found: list[Refusal] = []
    path, above, names = "", "", list[str]()

    def done() -> None:
        if not path:
            return
        what = needed.get(path, "path")
        if above == path or path.removeprefix(f"{above.rstrip('/')}/") in names:
            found.append(Refusal(f"{what} {path} cannot be read by {user}", "chmod or chown it"))
        else:
            reason = f"no {what} {path} that {user} can read on the cluster"
            found.append(Refusal(reason, nearest(path, above, names)))

    for mark in marks:
        word, _, rest = mark.partition(" ")
        if word == "unread":
            done()
            path, above, names = rest, "", []
        elif word == "above":
            above = rest
        elif word == "name":
            names.append(rest)
    done()
    return found
