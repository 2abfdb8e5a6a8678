"""The program of a scheduled backup, with real zstd and age and an invented cluster."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corral import agents

pytestmark = pytest.mark.skipif(not shutil.which("age"), reason="age is not installed")
DAY = 86400
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to other users")
CONTENT = b"an archive\n" * 100_000
LINES = "\n".join(
    base64.b64encode(CONTENT[at : at + 32768]).decode() for at in range(0, len(CONTENT), 32768)
)
GOOD = f"{LINES}\n@ {len(CONTENT)} {hashlib.sha256(CONTENT).hexdigest()}\n"


class Controller:
    """Files of a controller, below a folder."""

    def __init__(self, place: Path) -> None:
        self.archives = place / "archives"
        self.archives.mkdir(mode=0o700)
        self.key = place / "key"
        subprocess.run(["age-keygen", "-o", self.key], capture_output=True, check=True)
        public = subprocess.run(["age-keygen", "-y", self.key], capture_output=True, check=True)
        (place / "recipients").write_bytes(public.stdout)
        self.last = place / "state/last"
        self.metrics = place / "corral-backup.prom"
        self.program = place / "corral-backup"
        self.program.write_text(agents.program("backup/scheduled.py"))
        self.conf = place / "backup.json"
        self._write = place / "write.py"
        self.environment = {
            **os.environ,
            "CORRAL_BACKUP_CONF": str(self.conf),
            "CORRAL_BACKUP_RECIPIENTS": str(place / "recipients"),
            "CORRAL_BACKUP_WRITE": str(self._write),
            "CORRAL_BACKUP_LAST": str(self.last),
            "PATH": f"{place}/bin:{os.environ['PATH']}",
        }
        self._started = place / "started"
        systemctl = place / "bin/systemctl"
        systemctl.parent.mkdir()
        systemctl.write_text(f'#!/bin/sh\necho "$*" >>{self._started}\n')
        systemctl.chmod(0o755)
        self.keeps(2)
        self.reads(f"sys.stdout.write({GOOD!r})")

    def keeps(self, count: int) -> None:
        conf = {"folder": str(self.archives), "keep": count, "every": DAY}
        conf |= {"metrics": str(self.metrics), "asked": 3600}
        self.conf.write_text(json.dumps({**conf, "request": {"cluster": "lab"}}))

    def has(self, days: float, stamp: str = "") -> str:
        """An archive of so many days ago, with a name of that time or of the stamp; gives it."""
        written = time.time() - days * DAY
        stamp = stamp or time.strftime("%Y%m%d-%H%M%S", time.gmtime(written))
        path = self.archives / f"lab-{stamp}.tar.zst.age"
        path.write_text("old")
        path.chmod(0o600)
        os.utime(path, (written, written))
        return path.name

    def reads(self, code: str) -> None:
        text = "import json, sys, time\nassert json.load(sys.stdin) == {'cluster': 'lab'}\n"
        self._write.write_text(text + code + "\n")

    def starts_one(self) -> bool:
        """Whether the timer's question starts the backup."""
        self._started.unlink(missing_ok=True)
        process = self.start("--due")
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0
        if not self._started.exists():
            return False
        assert self._started.read_text() == "start --no-block corral-backup.service\n"
        return True

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, self.program, *words],
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self) -> tuple[int, str, str]:
        process = self.start()
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def measured(self) -> dict[str, int]:
        """The metrics that the node exporter reads, as another user."""
        assert self.metrics.stat().st_mode & 0o777 == 0o644
        lines = self.metrics.read_text().splitlines()
        samples = [line.split() for line in lines if not line.startswith("#")]
        return {name.removeprefix("corral_backup_"): int(value) for name, value in samples}

    def names(self) -> list[str]:
        return sorted(path.name for path in self.archives.iterdir())


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    return Controller(tmp_path)


def test_an_archive_that_its_key_opens(controller: Controller) -> None:
    status, output, errors = controller.run()
    assert (status, errors) == (0, "")
    (name,) = controller.names()
    path = controller.archives / name
    assert path.stat().st_mode & 0o777 == 0o600
    assert output == f"{path}: {path.stat().st_size} bytes, 1 archives kept\n"
    assert controller.last.read_text().split()[1:] == [str(path.stat().st_size), str(path)]
    plain = subprocess.run(
        ["sh", "-c", 'age -d -i "$1" "$2" | zstd -d', "sh", controller.key, path],
        capture_output=True,
        check=True,
    )
    assert plain.stdout == CONTENT


def test_one_is_made_when_it_is_due_and_not_before(controller: Controller) -> None:
    assert controller.starts_one()
    assert controller.names() == []
    name = made(controller)
    assert not controller.starts_one()
    text = controller.last.read_text()
    for age, expected in ((DAY - 1900, False), (DAY - 1700, True), (3 * DAY, True), (-DAY, True)):
        _, rest = text.split(maxsplit=1)
        controller.last.write_text(f"{int(time.time()) - age} {rest}")
        assert controller.starts_one() == expected, age
    controller.last.write_text(text)
    assert not controller.starts_one()
    (controller.archives / name).unlink()
    assert controller.starts_one()


@pytest.mark.parametrize("text", ["", "\0" * 30, "1 2", "x 9 /b/lab", "9 x /b/lab", "\udcff 1 /b"])
def test_a_damaged_note_of_the_last_one_is_as_none(controller: Controller, text: str) -> None:
    name = made(controller)
    controller.last.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert controller.starts_one()
    assert controller.measured()["last_success_timestamp_seconds"] == 0
    assert made(controller) != name
    assert not controller.starts_one()


def test_metrics_have_the_last_good_archive_also_after_a_run_that_failed(
    controller: Controller,
) -> None:
    good = "last_success_timestamp_seconds"
    controller.reads("sys.exit(1)")
    assert controller.run()[0] == 1
    assert controller.measured() == {good: 0, "bytes": 0, "interval_seconds": DAY}
    controller.reads(f"sys.stdout.write({GOOD!r})")
    made(controller)
    finished, size, _ = controller.last.read_text().split()
    expected = {good: int(finished), "bytes": int(size), "interval_seconds": DAY}
    assert controller.measured() == expected
    controller.reads("sys.exit(1)")
    controller.metrics.unlink()
    assert controller.run()[0] == 1
    assert controller.measured() == expected


def test_metrics_are_there_before_the_first_run_has_ended(controller: Controller) -> None:
    assert controller.starts_one()
    assert controller.measured() == {
        "last_success_timestamp_seconds": 0,
        "bytes": 0,
        "interval_seconds": DAY,
    }


def test_metrics_that_cannot_be_written_are_no_lost_archive(controller: Controller) -> None:
    controller.metrics = controller.metrics / "nowhere"
    controller.keeps(2)
    status, _, errors = controller.run()
    assert status == 0
    assert "no metrics of the backup were written: " in errors
    assert len(controller.names()) == 1


def test_a_link_in_the_place_of_the_metrics_is_not_followed(controller: Controller) -> None:
    victim = controller.key
    text = victim.read_text()
    for name in (controller.metrics, Path(f"{controller.metrics}.new")):
        name.symlink_to(victim)
    made(controller)
    assert controller.measured()["bytes"] > 0
    assert victim.read_text() == text


def test_the_newest_are_kept_and_other_files_stay(controller: Controller) -> None:
    *_, newest = [controller.has(days) for days in (3, 2, 1)]
    others = ["lab-notes.txt", "other-20250101-000000.tar.zst.age", "x.lab-20250101-000000.tar"]
    for other in others:
        (controller.archives / other).write_text("not of this program")
    (controller.archives / ".lab-20250104-000000.tar.zst.age.partial").write_text("was killed")
    assert controller.run()[0] == 0
    names = controller.names()
    assert set(others) <= set(names)
    archives = [name for name in names if name not in others]
    assert len(archives) == 2
    assert archives[0] == newest


def made(controller: Controller) -> str:
    """Run it; gives the name of what it made."""
    status, output, _ = controller.run()
    assert status == 0
    path = Path(output.partition(":")[0])
    assert path.exists()
    assert str(path) == controller.last.read_text().split()[2]
    return path.name


def test_after_a_clock_in_the_future_the_new_archive_stays(controller: Controller) -> None:
    controller.keeps(1)
    controller.has(-400)
    name = made(controller)
    assert controller.names() == [name]


def test_archives_of_the_future_are_reported(controller: Controller) -> None:
    ahead = controller.has(-400)
    past = controller.has(3)
    status, _, errors = controller.run()
    assert status == 0
    assert errors == (
        f"1 archives in {controller.archives} are newer than now, such as {ahead}: check the "
        "clock; they count as the newest until you remove them\n"
    )
    assert past not in controller.names()
    assert len(controller.names()) == 2


def test_files_are_old_by_their_time_and_not_by_their_name(controller: Controller) -> None:
    newer = controller.has(1, "20250101-000000")
    controller.has(5, "20990101-000000")
    name = made(controller)
    assert controller.names() == [newer, name]


def test_a_name_that_is_taken_is_not_replaced(controller: Controller) -> None:
    controller.keeps(30)
    stamps = [time.strftime("%Y%m%d-%H%M%S", time.gmtime(time.time() + s)) for s in range(20)]
    taken = [controller.has(1, stamp) for stamp in stamps]
    assert made(controller) not in taken
    assert all((controller.archives / name).read_text() == "old" for name in taken)


def test_restarts_again_and_again_do_not_remove_the_archives_of_weeks(
    controller: Controller,
) -> None:
    controller.keeps(4)
    weeks = [controller.has(days) for days in (3, 2, 1, 0.1)]
    for _ in range(3):
        name = made(controller)
        assert controller.names() == [*weeks[1:], name]


def test_what_this_program_did_not_write_is_not_counted(controller: Controller) -> None:
    mine = [controller.has(days) for days in (2, 1)]
    link, hard, foreign = (controller.has(-d) for d in (1, 2, 3))
    (controller.archives / foreign).chmod(0o644)
    (controller.archives / link).unlink()
    (controller.archives / link).symlink_to(controller.key)
    os.link(controller.archives / hard, controller.archives / "second")
    name = made(controller)
    assert controller.names() == sorted([mine[1], link, hard, foreign, "second", name])


FAULTS = {
    "the cluster cannot be read": "sys.exit('the archive is incomplete: no database')",
    "it ends early": f"sys.stdout.write({LINES[:70000]!r})",
    "its digest is another": f"sys.stdout.write({GOOD.replace('@ ', '@ 1')!r})",
    "a line is not base64": "sys.stdout.write('QUJ#D\\n@ 3 x\\n')",
}


@pytest.mark.parametrize("code", FAULTS.values(), ids=FAULTS)
def test_what_is_not_complete_is_no_archive(controller: Controller, code: str) -> None:
    controller.has(1, "20250101-000000")
    controller.keeps(1)
    controller.reads(code)
    status, _, errors = controller.run()
    assert status == 1
    assert "no backup was made: " in errors
    assert "Traceback" not in errors
    assert controller.names() == ["lab-20250101-000000.tar.zst.age"]
    assert not controller.last.exists()


def test_keys_that_age_refuses(controller: Controller) -> None:
    Path(controller.environment["CORRAL_BACKUP_RECIPIENTS"]).write_text("age1nonsense\n")
    status, _, errors = controller.run()
    assert status == 1
    assert "age ended with status 1" in errors
    assert controller.names() == []


def test_a_folder_that_others_write_in_or_a_link(controller: Controller) -> None:
    controller.archives.chmod(0o770)
    status, _, errors = controller.run()
    assert status == 1
    assert "is not root's alone" in errors
    controller.archives.chmod(0o700)
    real = controller.archives.rename(controller.archives.with_name("real"))
    controller.archives.symlink_to(real)
    assert controller.run()[0] == 1
    assert list(real.iterdir()) == []


def test_a_link_above_the_folder(controller: Controller) -> None:
    real = controller.archives / "real"
    (real / "inner").mkdir(parents=True, mode=0o700)
    link = controller.archives / "link"
    link.symlink_to(real)
    controller.archives = link / "inner"
    controller.keeps(2)
    status, _, errors = controller.run()
    assert status == 1
    assert f"no backup was made: {link}: " in errors
    assert list((real / "inner").iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o1777], ids=oct)
def test_a_folder_above_that_others_write_in(controller: Controller, mode: int) -> None:
    above = controller.archives.rename(controller.archives.with_name("above"))
    controller.archives = above / "archives"
    controller.archives.mkdir(mode=0o700)
    above.chmod(mode)
    controller.keeps(2)
    status, _, errors = controller.run()
    assert status == (mode == 0o777)
    assert (f"{above} is not root's alone" in errors) == bool(status)
    assert bool(controller.names()) != bool(status)


@needs_root
def test_a_folder_above_that_belongs_to_a_user(controller: Controller) -> None:
    above = controller.archives.rename(controller.archives.with_name("above"))
    controller.archives = above / "archives"
    controller.archives.mkdir(mode=0o700)
    os.chown(above, 2001, 2001)
    controller.keeps(2)
    status, _, errors = controller.run()
    assert status == 1
    assert f"{above} belongs to uid 2001" in errors


def test_killed_it_leaves_no_archive_and_the_next_one_cleans_up(controller: Controller) -> None:
    controller.reads(f"sys.stdout.write({LINES!r}); sys.stdout.flush(); time.sleep(60)")
    process = controller.start()
    while not controller.names():
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [name[-8:] for name in controller.names()] == [".partial"]
    controller.reads(f"sys.stdout.write({GOOD!r})")
    assert controller.run()[0] == 0
    (name,) = controller.names()
    assert name.endswith(".tar.zst.age")
