"""How a job is followed: one long-lived script on the controller, and what its lines mean. Pure.

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

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from corral.agents import program
from corral.errors import Code, CorralError
from corral.hosts.quote import Script, call, sh
from corral.inspect.jobs import TIME_SETTING, AboutJob, about_job, queue_places
from corral.jobs import usage
from corral.jobs.handle import JobHandle
from corral.slurm.array_tasks import task_ref
from corral.slurm.records import Job
from corral.slurm.states.jobs import ExitCode, JobState, going_on_states
from corral.spec.slurm.hostlist import expand

BATCH: Final = -1


def _positions() -> str:
    """Where state, reason, start and nodes are in squeue's line, and how many fields it has."""
    return " ".join(str(place) for place in queue_places("%T", "%r", "%S", "%N"))


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
    about = about_job(job, mark)
    start = " ".join(
        f"{'b' if log == BATCH else log}:{offset}" for log, offset in (offsets or {}).items()
    )
    settings = {
        "mark": mark,
        "at": _positions(),
        "ask": str(sh("{queue} 2>&1", queue=about.queue.shell)),
        "folder": folder,
        "steps": str(about.use.shell),
        "going": "|".join(going_on_states()),
        "offsets": start,
        "quiet": "1" if quiet else "",
        "once": "1" if once else "",
        "limit": str(limit),
    }
    return call(
        "jobs/user.sh",
        "job_follow",
        folder,
        program("jobs/follow.awk"),
        str(about.request.shell),
        str(about.history.shell),
        TIME_SETTING,
        *(f"{name}={value}" for name, value in settings.items()),
    )


def as_user(user: str, script: Script) -> Script:
    """The same script as ``user`` with a clean environment, from root; its stdin is passed on.

    Everything a job's folder holds is that user's work: root never writes or reads there, so that a
    link planted in it leads nowhere that the user could not go anyway. A process without root (the
    page's helper on the controller, a profile's login) stays who it is: only root may set groups.

    In a subshell, so that what follows in the same script still runs: an ``exec`` of the shell
    itself ended the frame of an inquiry, whose answers were then taken for empty.
    """
    return sh(
        '( [ "$(id -u)" = 0 ] || exec sh -c {script}; '
        'exec setpriv --reuid="$(id -u {user})" --regid="$(id -g {user})" --init-groups '
        "--reset-env sh -c {script} )",
        user=user,
        script=str(script),
    )


def as_user_by_stdin(user: str, script: Script) -> Script:
    """As ``as_user``, for a script with values that no other user may read.

    Arguments are in ``ps`` for all users of a machine. ``printf`` is a command of the shell's own
    and ``cat`` gets the text by a pipe. The script's own standard input is at its end.
    """
    shell = as_user(user, sh('eval "$(cat)"'))
    return sh("printf %s {script} | {shell}", script=str(script), shell=shell)


TAIL_LINES: Final = 40


@dataclass(frozen=True, slots=True)
class RankLine:
    """One line that a job printed.

    Attributes:
        rank: whose log it is in: a rank, under torchrun a node's index; None: the batch script.
        text: the line.
        echo: it came after another rank had failed: most likely only the echo of that.
    """

    rank: int | None
    text: str
    echo: bool = False


@dataclass(frozen=True, slots=True)
class Live:
    """Something of the moment, which is in no log: the next one takes its place.

    Attributes:
        kind: ``bar``, a rank's progress bar as it is now; ``use``, what the job uses.
        text: the bar, or the use in words.
        rank: whose bar it is.
    """

    kind: Literal["bar", "use"]
    text: str
    rank: int = 0


@dataclass(frozen=True, slots=True)
class RankFailure:
    """The rank that failed first, and so ended the job.

    Attributes:
        rank: its number (its node's index under torchrun).
        node: where it ran.
        how: what Slurm reports: ``Exited with exit code 1``, ``Killed``, ``Out Of Memory``.
        tail: the last lines it printed.
    """

    rank: int
    node: str
    how: str
    tail: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job stands, and at its end how it went.

    Attributes:
        id: Slurm's number.
        state: its state.
        exit_code: how it ended; None while it lives.
        reason: Slurm's word for why it waits or ended so, "" for none.
        nodes: where it ran, as a hostlist.
        seconds: how long it ran; None where Slurm has no time.
        failed: the rank that failed first, None when none did or it is not known.
        task: which part of an array it is, None for an entire job.
        use: what it used of what it was given; None where that is not known or was not asked.
    """

    id: int
    state: JobState
    exit_code: ExitCode | None = None
    reason: str = ""
    nodes: str = ""
    seconds: int | None = None
    failed: RankFailure | None = None
    task: int | None = None
    use: usage.EndedUse | None = None

    @property
    def ref(self) -> str:
        """What Slurm calls it: ``12``, ``12_3``."""
        return task_ref(self.id, self.task)

    @property
    def good(self) -> bool:
        """It ended as it should."""
        return self.state.good

    def as_dict(self) -> dict[str, object]:
        failed = self.failed
        return {
            "id": self.id,
            **({} if self.task is None else {"task": self.task}),
            "state": self.state.value,
            "exit_status": None if self.exit_code is None else self.exit_code.status,
            "signal": None if self.exit_code is None else self.exit_code.signal,
            "reason": self.reason,
            "nodes": self.nodes,
            "seconds": self.seconds,
            "failed": failed
            and {"rank": failed.rank, "node": failed.node, "how": failed.how, "tail": failed.tail},
            **({"use": self.use.as_dict()} if self.use else {}),
        }


@dataclass(slots=True)
class Reader:
    """Takes the script's lines one by one; may be fed by several runs of it (a broken connection).

    Args:
        job: the job.
        mark: what separates the fields of Slurm's answers.
        on_line: called with each line the job printed.
        on_state: called with the job whenever its state changed.
        on_note: called when slurmctld does not answer.
        on_live: called with what is in no log.
    """

    job: JobHandle
    mark: str
    on_line: Callable[[RankLine], None]
    on_state: Callable[[Job], None]
    on_note: Callable[[str], None]
    on_live: Callable[[Live], None] = lambda _: None
    offsets: dict[int, int] = field(default_factory=dict[int, int])
    _info: Job | None = None
    _past: Job | None = None
    _used: str = ""
    _reported: str = ""
    _gpus: dict[str, str] = field(default_factory=dict[str, str])
    _shown: Job | None = None
    _failed: tuple[int, str, str] | None = None
    _tails: dict[int, deque[str]] = field(default_factory=dict[int, deque[str]])

    @property
    def _about(self) -> AboutJob:
        return about_job(self.job.ref, self.mark)

    def feed(self, line: str) -> None:
        """Take one line."""
        kind, _, rest = line.partition(" ")
        match kind:
            case "o":
                log, _, text = rest.partition(" ")
                self._line(int(log), text)
            case "b":
                self._line(BATCH, rest)
            case "p":
                log, _, offset = rest.partition(" ")
                self.offsets[BATCH if log == "b" else int(log)] = int(offset)
            case "f":
                self._failure(rest)
            case "s":
                self._state(rest)
            case "w":
                self.on_note(f"slurmctld does not answer: {rest}" if rest else "no answer")
            case "r" | "u" | "g":
                self._live(kind, rest)
            case "c":
                self._shown = self._about.request.parse(rest)
            case "a":
                self._past = (self._about.history.parse(rest) or (None,))[-1]
            case _:
                pass  # h: still here

    def outcome(self) -> Outcome:
        """What is known now.

        The controller's own record comes first: accounting is notified of a job's end a moment
        later, and is asked when the controller has forgotten the job (MinJobAge, 300 s).

        Raises:
            CorralError: NOT_FOUND, neither Slurm nor accounting knows the job.
        """
        known = self._shown or self._past or self._info
        if known is None:
            raise CorralError(
                Code.NOT_FOUND,
                f"no job {self.job.ref}",
                hint="corral jobs --all lists those of the last days",
            )
        state = JobState.read(known.state)
        return Outcome(
            self.job.id,
            state,
            known.exit_code,
            known.reason,
            known.nodes,
            known.elapsed,
            self._rank_failure(state),
            self.job.task,
        )

    def _live(self, kind: str, rest: str) -> None:
        log, _, text = rest.partition(" ")
        if kind == "r":
            self.on_live(Live("bar", text, int(log)))
            return
        if kind == "g":
            self._gpus[log] = text
        elif rest == usage.NO_USE:
            self._used = usage.UNKNOWN
        elif (use := self._about.use.parse(rest)) and (words := usage.in_words(use)):
            self._used = words
        words = ", ".join(w for w in (self._used, usage.gpus_in_words(self._gpus)) if w)
        if words != self._reported:
            self._reported = words
            self.on_live(Live("use", words))

    def _line(self, log: int, text: str) -> None:
        self._tails.setdefault(log, deque(maxlen=TAIL_LINES)).append(text)
        echo = self._failed is not None and log != self._failed[0]
        self.on_line(RankLine(None if log == BATCH else log, text, echo))

    def _failure(self, rest: str) -> None:
        ranks, nodes, how = rest.split(" ", 2)
        rank, node = int(expand(f"[{ranks}]")[0]), expand(nodes)[0]
        if self._failed is None:
            self._failed = (rank, node, how)

    def _rank_failure(self, state: JobState) -> RankFailure | None:
        # A cancelled or timed out job was ended from outside: none of its ranks is to blame.
        if self._failed is None or state.good or state.stopped:
            return None
        rank, node, how = self._failed
        return RankFailure(rank, node, how, "\n".join(self._tails.get(rank, ())))

    def _state(self, rest: str) -> None:
        jobs = self._about.queue.parse(rest)
        if jobs:
            self._info = jobs[0]
            if jobs[0].waiting:
                self._failed = None  # it starts again: what failed before is past
            self.on_state(jobs[0])
