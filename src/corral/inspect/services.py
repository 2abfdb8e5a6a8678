"""Questions about daemons: the state of their units, their logs, their limits, their network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import call, sh
from corral.inspect.question import Answer, Question, pairs, text

LOG_LINES: Final = 400
RECENT_MIN: Final = 5
"""Minutes of the log of a daemon that runs: slurmd tries to register every few seconds."""


def locked_memory(answer: str) -> int | None:
    """Bytes, from a line ``LimitMEMLOCK BYTES``; None where there is no limit, or no line."""
    limit = re.search(r"^LimitMEMLOCK (\d+)$", answer, re.MULTILINE)
    return int(limit[1]) if limit else None


LIMITS: Final = Question(
    "limits", sh("systemctl show -p LimitMEMLOCK slurmd 2>/dev/null | tr = ' '"), locked_memory
)
"""How much memory slurmd's jobs may lock."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a systemd unit does.

    Attributes:
        state: systemd's word: ``active``, ``failed`` ...; "" where it printed none.
        shown: the same for people, with the command that unmasks it.
    """

    state: str
    shown: str


def unit_states(answer: str) -> dict[str, Unit]:
    """Units by name."""
    return {name: Unit((shown.split() or [""])[0], shown) for name, shown in pairs(answer).items()}


UNITS: Final = Answer("units", unit_states)


def units(names: Sequence[str]) -> Question[dict[str, Unit]]:
    """The state of each unit: ``active``, ``failed``, ``inactive (masked: ...)`` ..."""
    return UNITS.by(call("state/services.sh", "unit_states", list(names)))


@dataclass(frozen=True, slots=True)
class Backup:
    """The backup that the controller makes on a timer.

    Attributes:
        every: seconds between two, as declared.
        timer: systemd's word of its timer: ``active``.
        failed: its last run did.
        age: seconds since the last good archive was finished, negative where the clock was or is
            wrong; None where there has been none.
        since: seconds since the controller was set up for it.
        size: bytes of that archive.
        path: where that archive is.
        absent: why it cannot be read there; "" where it is there.
    """

    every: int
    timer: str
    failed: bool
    age: int | None
    since: int
    size: int = 0
    path: str = ""
    absent: str = ""


_ABSENT: Final = {"no": "is gone", "silent": "is on a disk that does not answer"}


def backup_state(answer: str) -> Backup | None:
    """What ``backup_state`` of state/services.sh prints; None for anything else."""
    answers = pairs(answer)
    try:
        every, now = int(answers["every"]), int(answers["now"])
        since = now - int(answers.get("since") or now)
        finished, size, path = (*(answers.get("last") or "").split(maxsplit=2), "", "", "")[:3]
        age = now - int(finished) if finished else None
        failed = answers.get("result", "success") not in ("success", "")
        absent = _ABSENT.get(answers.get("archive", ""), "") if path else ""
        timer = answers.get("timer", "")
        return Backup(every, timer, failed, age, since, int(size or 0), path, absent)
    except (KeyError, ValueError):
        return None


BACKUP: Final = Answer("backup", backup_state)


def backup(every: int) -> Question[Backup | None]:
    """How old the last good archive of the scheduled backup is.

    Args:
        every: seconds between two, as declared.
    """
    return BACKUP.by(call("state/services.sh", "backup_state", str(every)))


ALONE: Final = Answer("alone", str.split)


def alone(names: Sequence[str]) -> Question[list[str]]:
    """Units whose main process has no network but loopback."""
    # /proc/PID/net is the network of that process, which may be another than the machine's.
    return ALONE.by(
        sh(
            "set -- {units}; for p in $(systemctl show -p MainPID --value {units} 2>/dev/null); do"
            ' if [ "$p" -gt 0 ] && [ -r /proc/$p/net/fib_trie ] &&'
            " ! awk '/host LOCAL/ && a !~ /^127\\./ {{ f = 1 }} {{ a = $2 }} END {{ exit !f }}'"
            ' /proc/$p/net/fib_trie; then echo "$1"; fi; shift; done',
            units=list(names),
        ),
    )


def log(unit: str) -> Answer[str]:
    """A unit's journal."""
    return Answer(f"log{unit}", text)


def log_file(unit: str) -> Answer[str]:
    """A unit's own file."""
    return Answer(f"file{unit}", text)


def trusted_log(unit: str) -> Answer[str]:
    """What users cannot make a unit print."""
    return Answer(f"trusted{unit}", text)


def logs(unit: str) -> tuple[Question[str], ...]:
    """The unit's journal, its file, and what may be trusted; the last minutes of one that runs.

    Slurm's daemons begin each line of their file with ``[2026-11-21T07:00:46.289]``. What may be
    trusted is taken by fields that journald sets itself: the unit's last start, its standard error
    (logger(1) writes by another path), and root for slurmd, whose unit may hold processes of jobs.
    """
    journal = sh(
        "s=$(date -d -{minutes}min +%FT%T); w=--since=-{minutes}min;"
        " systemctl -q is-active {unit} || {{ s=; w=; }}\n"
        "journalctl -u {unit} $w --no-pager -o cat -n {lines} 2>/dev/null",
        unit=unit,
        lines=LOG_LINES,
        minutes=RECENT_MIN,
    )
    file = sh(
        "f=/var/log/slurm/{unit}.log;"
        ' if [ -f "$f" ]; then tail -n {lines} "$f" | awk -v t="[$s" \'$1 >= t\'; fi',
        unit=unit,
        lines=LOG_LINES,
    )
    own = sh(
        "a= p= i= r=; while IFS='=' read -r k v; do case $k in"
        " ActiveState) a=$v;; MainPID) p=$v;; InvocationID) i=$v;; Result) r=$v;; esac;"
        " done <<END\n"
        "$(systemctl show -p ActiveState -p MainPID -p InvocationID -p Result {unit} 2>/dev/null)\n"
        "END\n"
        'set -- -q "_SYSTEMD_INVOCATION_ID=$i" _TRANSPORT=stdout {root} --no-pager -n {lines};'
        ' if [ -n "$i" ]; then case "$a:$r" in'
        " active:*|reloading:*)"
        # What failed before the process that runs now began is over.
        ' a=$(($(ps -o etimes= -p "$p" 2>/dev/null || echo 0)));'
        ' [ "$a" -lt $(({minutes} * 60)) ] || a=$(({minutes} * 60));'
        ' journalctl "$@" --since="-${{a}}s" -o short 2>/dev/null |'
        ' awk -v p="[$p]:" \'!index($5, p) {{ q = $5; sub(/^[^]]*\\]: /, ""); print q, $0 }}\';;'
        # It was ended from outside: nothing that it printed shows why.
        ' activating:*) journalctl "$@" -o cat 2>/dev/null;;'
        " *:success|*:signal|*:core-dump|*:oom-kill|*:watchdog) ;;"
        ' *) journalctl "$@" -o cat 2>/dev/null;; esac; fi',
        unit=unit,
        lines=LOG_LINES,
        minutes=RECENT_MIN,
        root=["_UID=0"] if unit == "slurmd" else [],
    )
    return (
        log(unit).by(journal),
        log_file(unit).by(file),
        trusted_log(unit).by(own),
    )
