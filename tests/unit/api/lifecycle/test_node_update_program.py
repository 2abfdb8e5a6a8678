"""The program of node updates, with apt and dpkg played: what a killed update left is seen."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.hosts.quote import call
from corral.inspect.system import PendingUpdate, pending_update

# As apt after a dpkg that was killed: without -f it refuses packages whose dependencies are broken.
APT = """\
#!/bin/sh
case "$*" in
  update*) exit 0 ;;
  *-f*) [ ! -e "$LAB/broken" ] || exit 100; cat "$LAB/due" 2>/dev/null; exit 0 ;;
  *) [ ! -e "$LAB/broken" ] && [ ! -e "$LAB/half" ] || exit 100; cat "$LAB/due" 2>/dev/null ;;
esac
exit 0
"""
DPKG = '#!/bin/sh\n[ ! -e "$LAB/half" ] || echo "libc6 is only half configured"\n'


def probed(lab: Path) -> subprocess.CompletedProcess[str]:
    bin_ = lab / "bin"
    bin_.mkdir(exist_ok=True)
    for name, text in (("apt-get", APT), ("dpkg", DPKG)):
        (bin_ / name).write_text(text)
        (bin_ / name).chmod(0o755)
    env = {"PATH": f"{bin_}:{os.environ['PATH']}", "LAB": str(lab)}
    script = str(call("node-update.sh", "update_probe", str(lab / "mark")))
    return subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, timeout=60)


def seen(lab: Path) -> PendingUpdate:
    done = probed(lab)
    assert done.returncode == 0, done.stderr
    return pending_update(done.stdout)


def test_an_interrupted_dpkg_is_repaired_and_not_only_proven(tmp_path: Path) -> None:
    (tmp_path / "mark").write_text("another boot\n")
    assert seen(tmp_path).rebooted
    (tmp_path / "half").touch()
    pending = seen(tmp_path)
    assert (pending.begun, pending.rebooted) == (True, False)


@pytest.mark.parametrize("begun", [True, False])
def test_a_simulation_that_fails(tmp_path: Path, begun: bool) -> None:
    """Of an update that has begun it is what the next run repairs; else it is reported."""
    (tmp_path / "broken").touch()
    if begun:
        (tmp_path / "mark").write_text("another boot\n")
        pending = seen(tmp_path)
        assert (pending.begun, pending.rebooted, pending.packages) == (True, False, ())
    else:
        assert probed(tmp_path).returncode != 0


def test_packages_behind_a_half_done_one_are_named(tmp_path: Path) -> None:
    (tmp_path / "due").write_text("Inst libc6 [1] (2 Debian)\nConf libc6 (2 Debian)\n")
    assert seen(tmp_path).packages == ("libc6",)
    (tmp_path / "half").touch()
    assert seen(tmp_path).packages == ("libc6",)
