"""Slurm's state in another folder, by the shell that moves it, in a folder of the test's own."""

from __future__ import annotations

import getpass
import grp
import os
import subprocess
from pathlib import Path

import pytest

from corral.agents import program
from corral.spec.impacts import Impact
from corral.state.base import Context, Seen
from corral.state.slurm.state_folder import BackupStopped, NoBackup, StateFolder

HERE = Context("node0")
FOLDER = StateFolder("/shared/slurmctld")


class Machine:
    """A root folder with slurm.conf, and a systemctl that notes its arguments."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.old, self.new = root / "old", root / "new"
        (root / "bin").mkdir()
        (root / "bin/systemctl").write_text(f'#!/bin/sh\necho "$@" >>{root}/called\n')
        (root / "bin/systemctl").chmod(0o755)
        self.owner = f"{getpass.getuser()}:{grp.getgrgid(os.getgid()).gr_name}"
        self.old.mkdir()
        (self.old / "clustername").write_text("lab")
        (self.old / "job_state").write_text("jobs")
        (self.old / "jwt_hs256.key").write_text("key")
        text = f"# Written by Corral from\nClusterName=lab\nStateSaveLocation={self.old}\n"
        (root / "slurm.conf").write_text(text)
        self.ping("")

    def ping(self, text: str) -> None:
        (self.root / "bin/scontrol").write_text(f"#!/bin/sh\necho '{text}'\n")
        (self.root / "bin/scontrol").chmod(0o755)

    def run(self, *words: object) -> str:
        text = program("state/slurm-state.sh").replace("/etc/slurm", str(self.root))
        path = f"{self.root}/bin:{os.environ['PATH']}"
        argv = ["sh", "-c", f'{text}\n"$@"', "sh", *map(str, words)]
        done = subprocess.run(argv, check=True, capture_output=True, text=True, env={"PATH": path})
        return done.stdout.strip()

    @property
    def called(self) -> str:
        return (self.root / "called").read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_state_comes_along_and_the_key_of_tokens_stays(machine: Machine) -> None:
    assert machine.run("state_probe", machine.new, "-").splitlines() == ["absent", str(machine.old)]
    machine.run("state_move", machine.old, machine.new, machine.owner, "700")
    assert sorted(p.name for p in machine.new.iterdir()) == ["clustername", "job_state"]
    assert machine.new.stat().st_mode & 0o777 == 0o700
    assert (machine.old / "jwt_hs256.key").exists()
    assert machine.called == "stop slurmctld.service\n"


def test_a_state_of_a_time_before_is_put_aside(machine: Machine) -> None:
    machine.new.mkdir()
    (machine.new / "job_state").write_text("older")
    (machine.new / "jwt_hs256.key").write_text("key")
    machine.run("state_move", machine.old, machine.new, machine.owner, "700")
    assert (machine.new / "job_state").read_text() == "jobs"
    assert (machine.new / "jwt_hs256.key").exists()
    (before,) = machine.new.glob("before-*")
    assert (before / "job_state").read_text() == "older"


def test_state_that_is_not_there_stops_the_change(machine: Machine) -> None:
    """Its mount is gone: without it slurmctld would begin with another state, or none."""
    (machine.old / "clustername").unlink()
    never, started = machine.root / "never", machine.root / "started"
    started.touch()
    assert machine.run("state_probe", machine.new, never) == "absent"
    seen = machine.run("state_probe", machine.new, started)
    assert seen.splitlines() == ["absent", str(machine.old)]
    with pytest.raises(subprocess.CalledProcessError) as refused:
        machine.run("state_move", machine.old, machine.new, machine.owner, "700")
    assert "mount it again" in refused.value.stderr
    assert not (machine.root / "called").exists()  # slurmctld was not stopped


def test_a_backup_that_runs_stops_the_change(machine: Machine) -> None:
    machine.ping("Slurmctld(primary) at a is UP\nSlurmctld(backup) at b is UP")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        machine.run("state_move", machine.old, machine.new, machine.owner, "700")
    assert "would take over" in refused.value.stderr
    assert not machine.new.exists()
    machine.ping("Slurmctld(primary) at a is UP\nSlurmctld(backup) at b is DOWN")
    machine.run("state_move", machine.old, machine.new, machine.owner, "700")


def test_a_slurm_conf_of_somebody_elses_names_no_state(machine: Machine) -> None:
    (machine.root / "slurm.conf").write_text(f"StateSaveLocation={machine.old}\n")
    assert machine.run("state_probe", machine.new, machine.root) == "absent"


def test_a_backup_that_ended_leaves_no_file_of_slurms(machine: Machine) -> None:
    mark, stamp = machine.root / "mark", machine.root / "stamp"
    stamp.touch()
    assert machine.run("was_backup", mark) == ""
    mark.write_text(f"{machine.root}/slurm.conf\n")
    assert machine.run("was_backup", mark) == "was"
    assert machine.run("backup_probe", mark, machine.new) == "runs"
    assert machine.run("backup_probe", mark, machine.old) == ""
    assert machine.run("backup_probe", mark, "") == "runs"
    machine.run("backup_end", mark, stamp)
    assert not any(p.exists() for p in (mark, stamp, machine.root / "slurm.conf"))
    assert "disable -q --now slurmctld.service" in machine.called


def test_what_is_planned() -> None:
    assert FOLDER.diff(Seen(0, "700 slurm:slurm"), HERE) is None
    made = FOLDER.diff(Seen(0, "absent"), HERE)
    assert made is not None
    assert made.impact is Impact.NONE
    moved = FOLDER.diff(Seen(0, "absent\n/var/spool/slurmctld"), HERE)
    assert moved is not None
    assert (moved.impact, moved.before) == (Impact.RESTART, "/var/spool/slurmctld")
    assert BackupStopped("").diff(Seen(0, ""), HERE) is None
    assert BackupStopped("").diff(Seen(0, "runs"), HERE) is not None
    assert NoBackup().diff(Seen(0, ""), HERE) is None
    assert NoBackup().diff(Seen(0, "was"), HERE) is not None
