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

# POSIX awk: runs with mawk (Debian, Ubuntu), gawk and busybox. LC_ALL=C makes length() count bytes.
_AWK: Final = r"""
function squeue(   line, got, part, key) {
  got = ""
  while ((ask | getline line) > 0) if (got == "") got = line
  close(ask)
  asked = 0
  if (got ~ /Invalid job id/) { state = "GONE"; return }
  if (split(got, part, mark) < fields) {
    if (got != shown) print "w " got
    shown = got
    return
  }
  state = part[at[1]]
  if (state == "PENDING") first = ""  # starts again: who failed before is past
  key = state "|" part[at[2]] "|" part[at[3]] "|" part[at[4]]
  if (key != shown) print "s " got
  shown = key
}
function name(log_) { return log_ == "b" ? "batch.log" : "rank-" log_ ".log" }
function drain(log_, last,   want, got, line, cmd) {
  want = size[log_] - off[log_]
  if (want <= 0) return
  cmd = "tail -c +" (off[log_] + 1) " " name(log_) " | head -c " want
  got = 0
  while ((cmd | getline line) > 0) {
    got += length(line) + 1
    if (got > want && !last) { got += bar(log_, line) - length(line) - 1; break }
    if (skip[log_]) { skip[log_] = 0; continue }
    if (log_ == "b") batch(line)
    else print "o " log_ " " line
  }
  close(cmd)
  off[log_] += got
  print "p " log_ " " off[log_]
}
# A bar writes no line feed for hours: its pieces are printed as they come, and the last one is read
# again until it ends. Gives how many bytes are done with.
function bar(log_, line,   part, n) {
  n = split(line, part, "\r")
  if (n < 2 || log_ == "b") return 0
  print "r " log_ " " (part[n] == "" ? part[n - 1] : part[n])
  return length(line) - length(part[n])
}
function use(   line, cmd, rows) {
  while ((sstat | getline line) > 0) { print "u " line; rows++ }
  close(sstat)
  if (!rows) print "u -"
  if (folder == "") return
  # Fresh ones alone: a job that was requeued has those of its last run (seen).
  cmd = "find . -maxdepth 1 -name 'gpus-[0-9]*' ! -name '*.new' -newermt '-60 seconds'"
  cmd = cmd " -exec cat {} + 2>/dev/null; : > followed"
  while ((cmd | getline line) > 0) print "g " line
  close(cmd)
}
function look(nap,   cmd, line, part, log_) {
  cmd = "sleep " nap
  if (folder != "") cmd = cmd "; wc -c batch.log rank-*.log ended 2>/dev/null"
  while ((cmd | getline line) > 0) {
    split(line, part, " ")
    log_ = part[2]
    if (log_ == "ended") ended = 1
    else if (log_ == "batch.log") size["b"] = part[1] + 0
    else if (log_ ~ /^rank-[0-9]+[.]log$/) {
      gsub(/[^0-9]/, "", log_)
      if (!(log_ in size)) { seen++; order[seen] = log_ }
      size[log_] = part[1] + 0
    }
  }
  close(cmd)
}
# srun: error: node[1-2]: tasks 1-2: Exited with exit code 1
function batch(line,   part) {
  held[++holding] = line
  if (first != "" || line !~ /^srun: error: [^ ]+: tasks? [0-9]/) return
  split(line, part, /: |: tasks? /)
  first = part[4]; nodes = part[3]; how = line
  sub(/.*: tasks? [^:]*: */, "", how)
  print "f " first " " nodes " " how
  sub(/[^0-9].*/, "", first)
}
function drain_all(last,   i, log_) {
  if (quiet) return
  if (once) for (log_ in size) if (size[log_] - off[log_] > limit) {
    off[log_] = size[log_] - limit; skip[log_] = 1
  }
  holding = 0
  drain("b", last)
  if (first != "") drain(first, last)
  for (i = 1; i <= seen; i++) if (order[i] != first) drain(order[i], last)
  for (i = 1; i <= holding; i++) print "b " held[i]
}
BEGIN {
  ask = ENVIRON["ask"]; mark = ENVIRON["mark"]
  fields = split(ENVIRON["at"], at, " ") ? at[5] : 0
  folder = ENVIRON["folder"]; sstat = ENVIRON["sstat"]
  going = "^(" ENVIRON["going"] ")$"; quiet = ENVIRON["quiet"]; once = ENVIRON["once"]
  limit = ENVIRON["limit"]; n = split(ENVIRON["offsets"], from, " ")
  for (i = 1; i <= n; i++) { split(from[i], part, ":"); off[part[1]] = part[2] + 0 }
  squeue()
  alive = 0
  while (!once && (state ~ going || state == "")) {
    nap = seen ? 0.25 : 0.1
    look(nap)
    asked += nap; alive += nap
    drain_all(0)
    if (alive >= 5) {
      print "h"; alive = 0; beat++
      if (beat % 2 && ran && state == "RUNNING" && !quiet) use()
    }
    fflush()
    # After the batch script's end only slurmctld's word is missing: it comes within a moment.
    # The first log says that the job runs: asked once then, and not before the usual time again.
    if (seen && !ran) { ran = 1; squeue(); if (!quiet) system(": > followed") }
    else if (asked >= (ended ? 0.2 : state == "PENDING" ? 1 : 2)) squeue()
    if (state == "PENDING") ended = 0
  }
  look(0)
  drain_all(1)
  fflush()
}
"""


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
        awk=_AWK,
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
