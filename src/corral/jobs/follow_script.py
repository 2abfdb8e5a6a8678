"""The one long-lived script that follows a job on the controller, and what its lines mean. Pure.

It looks at the job's own folder several times a second and asks slurmctld for the job's state every
one to two seconds. It prints everything in lines:

    s ...                              the job's line of squeue, when it changed
    o LOG TEXT                         a line of a rank's log
    r LOG TEXT                         a piece between carriage returns: a progress bar
    u TEXT                             what sstat prints about the job's use, every ten seconds;
                                       - for nothing at all
    g NODE TEXT                        what nvidia-smi reports there, as often
    b TEXT                             a line of the batch script's own log
    p LOG OFFSET                       how far that log was read (b: the batch log)
    f LOGS NODES HOW                   who failed first (as srun reports it: 1-2), before the lines
                                       of others that came at the same time
    w TEXT                             slurmctld does not answer
    h                                  still here: a reader that went away is noticed by writing
    c ..., a ...                       at the end: the job's line of scontrol and of sacct

Files are opened again each time and not held open: an NFS client looks at a file's real size only
when it is opened (close-to-open consistency), so that ``tail -F`` lags by seconds there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from corral.agents import program
from corral.hosts.quote import Script, sh
from corral.jobs.usage import FIELDS
from corral.slurm.states.jobs import JobState
from corral.slurm.text import QUEUE, TIME_FORMAT, show_history, show_queue

BATCH: Final = -1
USE: Final = (
    *("sstat", "--noheader", "--parsable2", "--allsteps"),
    f"--format={','.join(FIELDS)}",
)
"""What a running job uses, asked of slurmd on its nodes and not of slurmctld."""


def _positions() -> str:
    """Where state, reason, start and nodes are in squeue's line, and how many fields it has."""
    places = [QUEUE.index(name) + 1 for name in ("%T", "%r", "%S", "%N")]
    return " ".join(str(place) for place in [*places, len(QUEUE)])


_WATCH: Final = """\
{cd}
export LC_ALL=C {time_format} mark={mark} at={at} ask={ask} folder={folder} \\
  sstat={sstat} going={going} offsets={offsets} quiet={quiet} once={once} limit={limit}
awk {awk} || exit $?
scontrol --oneliner show job {job} 2>/dev/null | head -n 1 | sed 's/^/c /'
{sacct} 2>/dev/null | tail -n 1 | sed 's/^/a /'
exit 0"""


def watch_script(
    job: str,
    folder: str,
    *,
    mark: str,
    offsets: Mapping[int, int] | None = None,
    quiet: bool = False,
    once: bool = False,
    limit: int = 1 << 20,
) -> Script:
    """The script; it runs as the job's user.

    Args:
        job: what Slurm calls it: 12, or 12_3 for a part of an array.
        folder: the job's folder, "" for a job without one.
        mark: separates the fields of Slurm's answers; made up for each call.
        offsets: bytes of each log that the reader has already (``BATCH``: the batch log).
        quiet: no log lines, only states.
        once: what there is now, and end.
        limit: with ``once``, bytes of each log at most: its end.
    """
    option = f"--jobs={job}"
    start = " ".join(
        f"{'b' if log == BATCH else log}:{offset}" for log, offset in (offsets or {}).items()
    )
    return sh(
        _WATCH,
        folder=folder,
        cd=sh("cd {folder} || exit 4", folder=folder) if folder else sh(":"),
        time_format="=".join(TIME_FORMAT),
        ask=str(sh("{words} 2>&1", words=[*show_queue(mark), "--states=all", option])),
        mark=mark,
        at=_positions(),
        going="|".join(state for state in JobState if not state.ended),
        offsets=start,
        quiet="1" if quiet else "",
        once="1" if once else "",
        limit=limit,
        awk=program("jobs/follow.awk"),
        job=job,
        sstat=str(sh("{words} 2>/dev/null", words=[*USE, option])),
        sacct=[*show_history(mark), option],
    )


def as_user(user: str, script: Script) -> Script:
    """The same script as ``user`` with a clean environment, from root; its stdin is passed on.

    Everything a job's folder holds is that user's work: root never writes or reads there, so that a
    link planted in it leads nowhere that the user could not go anyway. A process that is that user
    already (the page's helper on the controller) stays it: only root may set groups.
    """
    return sh(
        '[ "$(id -u)" != "$(id -u {user})" ] || exec sh -c {script}; '
        'exec setpriv --reuid="$(id -u {user})" --regid="$(id -g {user})" --init-groups '
        "--reset-env sh -c {script}",
        user=user,
        script=str(script),
    )
