"""The ledger and its undoing, run in the real shell on files of a scratch folder."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from corral.hosts.framing import Reports
from corral.hosts.quote import Script, join, reread, sh, shipped
from corral.state import ledger
from corral.state.ledger import (
    FUNCTIONS,
    KEPT_AS,
    keeping,
    kept,
)

STATE = Path(ledger.__file__).parent


class Machine:
    """A machine whose ledger is a folder; only files are kept, nothing needs root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ledger = root / "ledger"

    def run(self, *scripts: Script, fails: bool = False) -> str:
        text = join([FUNCTIONS, *scripts]).replace("/var/lib/corral", str(self.ledger))
        done = subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True, check=False)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stdout + (done.stderr if fails else "")

    def change(self, keep: str, script: Script) -> None:
        opened = sh("corral_open lab || exit 1")
        self.run(opened, join([keeping([keep]), script, kept([keep])], " && "))

    def undo(self, *, purge: bool = False) -> list[str]:
        reports = Reports()
        head = sh("PURGE={p}; OTHERS=; REPORT={r}", p="yes" if purge else "no", r=reports.mark)
        program = "/usr/local/sbin/corral-firewall"
        files = reread(str(shipped("ledger/undo-files.sh")).replace(program, "/nonexistent"))
        script = join([head, ledger._COMMON, files, sh("PASS=2 restore")])
        return reports.all(self.run(script))


@pytest.fixture(params=["plain", "sp ace; \"'$(touch pwned)"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    root = tmp_path / request.param
    root.mkdir()
    if request.param != "plain":
        # The ledger's own path is a literal without blanks; hostile names are those of files.
        made = Machine(root)
        made.ledger = tmp_path / "ledger"
        return made
    return Machine(root)


def write(path: Path, text: str) -> Script:
    return sh("printf %s {text} > {path}", text=text, path=path)


def test_a_replaced_file_comes_back_with_owner_and_mode(machine: Machine) -> None:
    path = machine.root / "a.conf"
    path.write_text("the owner's")
    path.chmod(0o640)
    for text in ("one", "two"):  # the second change must not keep the first one's text
        machine.change(f"file:{path}", join([write(path, text), sh("chmod 600 {p}", p=path)]))
    assert path.read_text() == "two"
    assert machine.undo() == [f"did put back {path}"]
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("the owner's", 0o640)
    assert machine.undo() == [], "again, and nothing is left to do"


def test_a_new_file_goes_and_a_link_comes_back(machine: Machine) -> None:
    new, link = machine.root / "new", machine.root / "link"
    link.symlink_to("/nowhere")
    machine.change(f"file:{new}", write(new, "x"))
    machine.change(f"file:{link}", sh("rm {p} && echo y > {p}", p=link))
    machine.undo()
    assert not new.exists()
    assert str(link.readlink()) == "/nowhere"


def test_what_somebody_wrote_since_is_kept_aside(machine: Machine) -> None:
    path = machine.root / "a.conf"
    path.write_text("before")
    machine.change(f"file:{path}", write(path, "corral"))
    path.write_text("by hand")
    aside = path.with_name("a.conf.corral-kept")
    assert f"kept {aside}: somebody changed {path} since" in machine.undo()
    assert (path.read_text(), aside.read_text()) == ("before", "by hand")


def test_a_crash_between_write_and_note_takes_nothing_for_somebody_elses(machine: Machine) -> None:
    path = machine.root / "a.conf"
    path.write_text("before")
    machine.change(f"file:{path}", write(path, "one"))
    machine.run(sh("corral_open lab"), keeping([f"file:{path}"]), write(path, "two"))
    machine.undo()
    assert path.read_text() == "before"
    assert not path.with_name("a.conf.corral-kept").exists()


def test_folders(machine: Machine) -> None:
    there, new, used = (machine.root / name for name in ("there", "new", "used"))
    there.mkdir(mode=0o750)
    machine.change(f"directory:{there}", sh("chmod 777 {p}", p=there))
    for path in (new, used):
        machine.change(f"directory:{path}", sh("mkdir {p}", p=path))
    (used / "results").write_text("a person's")
    lines = machine.undo()
    assert there.stat().st_mode & 0o777 == 0o750
    assert not new.exists()
    assert (used / "results").exists()
    assert f"kept folder {used}: it is in use" in lines
    machine.undo(purge=True)
    assert not used.exists()


def test_a_machine_belongs_to_one_cluster(machine: Machine) -> None:
    machine.run(sh("corral_open lab || exit 1"))
    machine.run(sh("corral_open lab || exit 1"))
    message = machine.run(sh("corral_open other || exit 1"), fails=True)
    assert "belongs to cluster lab" in message


def test_what_was_there_is_known_from_the_first_inventory(machine: Machine) -> None:
    machine.run(sh("corral_open lab || exit 1"))
    assert machine.run(sh("corral_was /etc/passwd && echo yes")).strip() == "yes"
    paths = machine.ledger / "before" / "paths"
    paths.write_text("".join(x for x in paths.open() if x != "/etc/passwd\n"))
    machine.run(sh("corral_was /etc/passwd"), fails=True)


def test_packages_of_a_run_that_was_killed_are_not_lost(machine: Machine) -> None:
    machine.run(sh("corral_open lab || exit 1"))
    machine.run(keeping(["packages:x"]))
    snapshot = machine.ledger / "packages.open"
    lines = snapshot.read_text().splitlines(keepends=True)
    came = lines[0].split()[1]
    snapshot.write_text("".join([*lines[1:], "installed zz-went\n"]))
    machine.run(sh("corral_open lab || exit 1"))  # the next run closes the killed one's
    assert (machine.ledger / "packages").read_text().split() == [came]
    assert (machine.ledger / "packages.gone").read_text().split() == ["zz-went"]
    assert not snapshot.exists()


def test_every_kind_of_resource_has_a_row_in_kept_as() -> None:
    pattern = re.compile(r'def id\(self\).*?return f?"([a-z-]+)', re.S)
    kinds = {k for file in STATE.rglob("*.py") for k in pattern.findall(file.read_text())}
    assert {"file", "service", "packages", "user"} <= kinds
    assert kinds - KEPT_AS.keys() == set(), "add a row to state.ledger.KEPT_AS"


def test_all_scripts_are_shell() -> None:
    reports = Reports()
    for script in (
        ledger.undo(reports, purge=True),
        ledger.survey(reports),
        ledger.leftovers(reports),
        ledger.close(),
    ):
        assert subprocess.run(["/bin/sh", "-n", "-c", script], check=False).returncode == 0
