"""Reservations: observed (as scontrol 24.11.5 prints them) and declared give the calls."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.agents import program
from corral.durations import clock
from corral.state.base import Change, Context, Seen
from corral.state.slurm.reservations import MARKS, Declared, SlurmReservations

SOON = Declared("soon", "2099-01-31T08:00:00", 240, ("n0", "n1"), ("root",), (), ("MAINT",))
SEEN = (
    "ReservationName=soon StartTime=2099-01-31T08:00:00 EndTime=2099-01-31T12:00:00 "
    "Duration=04:00:00 Nodes=n[0-1] NodeCnt=2 CoreCnt=4 Features=(null) PartitionName=(null) "
    "Flags=MAINT,SPEC_NODES TRES=cpu=4 AllowedPartitions=(null) QOS=(null) Users=root "
    "Groups=(null) Accounts=(null) Licenses=(null) BurstBuffer=(null) MaxStartDelay=(null)"
)
AHEAD = "@time soon ahead 2099-01-31T12:00:00\n@made soon\n@read"


def diff(*declared: Declared, seen: str) -> Change | None:
    return SlurmReservations("lab", declared).diff(Seen(0, seen), Context("node0"))


def summary(*declared: Declared, seen: str) -> str:
    change = diff(*declared, seen=seen)
    return change.summary.partition(": ")[2] if change else ""


def test_what_is_there_as_declared_is_left_alone() -> None:
    assert diff(SOON, seen=f"{AHEAD}\n{SEEN}") is None
    assert diff(seen="") is None


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"minutes": 300}, "change soon"),
        ({"nodes": ("n0",)}, "change soon"),
        ({"users": ("alice",)}, "change soon"),
        ({"start": "2099-01-31T09:00:00"}, "re-create soon"),
        ({"flags": ("MAINT", "OVERLAP")}, "re-create soon"),
        ({"flags": ()}, "re-create soon"),
        ({"users": (), "accounts": ("physics",)}, "re-create soon"),
        ({"accounts": ("physics",)}, "re-create soon"),
        ({"name": "other"}, "remove soon, create other"),
    ],
)
def test_what_differs_is_changed(changed: dict[str, object], expected: str) -> None:
    assert summary(replace(SOON, **changed), seen=f"{AHEAD}\n{SEEN}") == expected  # type: ignore[arg-type]


def test_one_that_has_begun_is_compared_by_its_end() -> None:
    late = SEEN.replace("StartTime=2099-01-31T08:00:00", "StartTime=2099-01-31T08:20:00")
    started = AHEAD.replace("ahead", "started")
    assert summary(SOON, seen=f"{started}\n{late}") == ""
    longer = started.replace("12:00:00", "13:00:00")
    assert summary(replace(SOON, minutes=300), seen=f"{longer}\n{late}") == "change soon"


def test_one_that_has_ended_is_left_alone() -> None:
    ended = AHEAD.replace("ahead", "ended")
    assert summary(SOON, seen=ended) == ""
    assert summary(replace(SOON, minutes=1), seen=f"{ended}\n{SEEN}") == ""


@pytest.mark.parametrize(
    ("flag", "day", "expected"),
    [
        ("DAILY", "2099-02-03", ""),
        ("WEEKDAY", "2099-02-03", ""),
        ("WEEKLY", "2099-02-07", ""),
        ("WEEKLY", "2099-02-08", "re-create soon"),
    ],
)
def test_one_that_repeats_moves_on(flag: str, day: str, expected: str) -> None:
    seen = SEEN.replace("2099-01-31", day).replace("Flags=MAINT", f"Flags={flag}")
    assert summary(replace(SOON, flags=(flag,)), seen=f"{AHEAD}\n{seen}") == expected
    other = seen.replace("08:00:00 End", "09:00:00 End")
    assert summary(replace(SOON, flags=(flag,)), seen=f"{AHEAD}\n{other}") == "re-create soon"


def test_only_what_corral_made_is_removed() -> None:
    assert summary(seen=f"@made soon\n@read\n{SEEN}") == "remove soon"
    assert summary(seen=SEEN) == ""
    # Its mark goes too: somebody else may make another of that name.
    assert summary(seen=f"@made gone\n@read\n{SEEN}") == "forget gone, which has ended"
    assert summary(SOON, seen=f"@time soon ahead x\n{SEEN}") == ""  # taken over, as declared


def test_where_slurmctld_did_not_answer_no_mark_is_lost() -> None:
    """The mark of one that was still there went, and nothing removed it any more."""
    assert summary(SOON, seen="@time soon ahead x\n@made old") == "remove old, set soon"


NAMES = st.lists(st.from_regex(r"[a-z][a-z0-9.-]{0,5}", fullmatch=True), min_size=1, unique=True)
RESERVATIONS = st.builds(
    Declared,
    st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,9}", fullmatch=True),
    st.datetimes().map(lambda at: at.replace(microsecond=0).isoformat()),
    st.integers(1, 60 * 24 * 999),
    st.lists(st.integers(0, 99), min_size=1, unique=True).map(lambda n: tuple(f"n{i}" for i in n)),
    NAMES.map(tuple),
    st.just(()) | NAMES.map(tuple),
    st.lists(st.sampled_from(["MAINT", "OVERLAP", "IGNORE_JOBS", "FLEX"]), unique=True).map(tuple),
)


@given(RESERVATIONS, RESERVATIONS)
def test_after_a_change_there_is_nothing_to_do(made: Declared, other: Declared) -> None:
    """Slurm prints what it was given: the plan of it is empty, that of another is not."""
    line = (
        f"@time {made.name} ahead x\nReservationName={made.name} StartTime={made.start} EndTime=x "
        f"Duration={clock(made.minutes * 60)} Nodes={','.join(made.nodes)} "
        f"Flags={','.join((*reversed(made.flags), 'SPEC_NODES'))} Users={','.join(made.users)} "
        f"Accounts={','.join(made.accounts) or '(null)'}"
    )
    assert summary(made, seen=line) == ""
    same = replace(other, name=made.name)
    alike = replace(
        same,
        nodes=tuple(sorted(same.nodes)),
        users=tuple(sorted(same.users)),
        accounts=tuple(sorted(same.accounts)),
        flags=tuple(sorted(same.flags)),
    ) == replace(
        made,
        nodes=tuple(sorted(made.nodes)),
        users=tuple(sorted(made.users)),
        accounts=tuple(sorted(made.accounts)),
        flags=tuple(sorted(made.flags)),
    )
    assert (summary(same, seen=line) == "") is alike


# scontrol as far as the program calls it: it keeps records in a folder, and refuses as Slurm does.
FAKE = """#!/bin/sh
echo "$*" >>calls
case $1 in
show) [ -e "records/$3" ] ;;
create) name=${2#*=}
  [ "$3" = StartTime=now ] || [ "$(date -d "${3#*=}" +%s)" -gt "$(date +%s)" ] || exit 1
  [ ! -e "records/$name" ] && : >"records/$name" ;;
update) [ -e "records/${2#*=}" ] ;;
delete) rm "records/${2#*=}" ;;
esac
"""


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    (tmp_path / "records").mkdir()
    (tmp_path / "scontrol").write_text(FAKE)
    (tmp_path / "scontrol").chmod(0o755)
    (tmp_path / "functions.sh").write_text(program("state/reservations.sh"))
    return tmp_path


def run(shell: Path, text: str) -> list[str]:
    """Calls of scontrol that change something."""
    sh = shutil.which("dash") or "sh"
    done = subprocess.run(
        [sh, "-c", f". ./functions.sh; {text}"],
        cwd=shell,
        env={"PATH": f"{shell}:{os.environ['PATH']}", "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    calls = (shell / "calls").read_text().splitlines() if (shell / "calls").exists() else []
    (shell / "calls").unlink(missing_ok=True)
    return [call for call in calls if not call.startswith("show")]


def test_the_program_creates_changes_and_removes(shell: Path) -> None:
    made = "reservation_set new soon 2099-01-31T08:00:00 240 0 Nodes=n0 Users=root"
    assert run(shell, made) == [
        "create ReservationName=soon StartTime=2099-01-31T08:00:00 EndTime=2099-01-31T12:00:00 "
        "Nodes=n0 Users=root"
    ]
    assert run(shell, made) == [  # again after a crash
        "update ReservationName=soon EndTime=2099-01-31T12:00:00 Nodes=n0 Users=root"
    ]
    again = run(shell, made.replace("new", "again"))
    assert [call.split()[0] for call in again] == ["delete", "create"]
    assert run(shell, "reservation_gone soon") == ["delete ReservationName=soon"]
    assert run(shell, "reservation_gone soon") == []


def test_one_that_should_have_begun_begins_now_and_ends_in_time(shell: Path) -> None:
    begun = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 600))
    end = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 600 + 3600))
    (call,) = run(shell, f"reservation_set new a {begun} 60 0 Nodes=n0")
    assert call.startswith("create ReservationName=a StartTime=now EndTime=")
    assert abs(int(call.split("EndTime=")[1][14:16]) - int(end[14:16])) <= 1
    assert run(shell, f"reservation_set new b {begun} 5 0 Nodes=n0") == []
    (call,) = run(shell, "reservation_set new c 2024-01-01T08:00:00 60 7 Nodes=n0")
    assert call.split("StartTime=")[1][10:19] == "T08:00:00"


def test_without_slurmctld_nothing_is_taken_for_absent(shell: Path) -> None:
    assert run(shell, "reservations_reached") == []
    (shell / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(AssertionError):
        run(shell, "reservations_reached && reservation_gone soon")


def test_the_marks_are_kept_on_the_controller(shell: Path) -> None:
    run(shell, "reservations_mark ./deep/marks a 'b c'")
    assert (shell / "deep/marks").read_text() == "a\nb c\n"
    run(shell, "reservations_mark ./deep/marks")
    assert (shell / "deep/marks").read_text() == ""
    assert MARKS.startswith("/var/lib/corral/")
