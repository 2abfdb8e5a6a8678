"""Daemons under supervisord begin once: the real shell, with a supervisorctl of the test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from corral.hosts.quote import sh
from corral.state.base import Change, Context, Seen
from corral.state.network.mesh import CONF, LOGS, Supervised
from corral.state.service import STAMPS

SUPERVISORCTL = """#!/bin/sh
# As supervisorctl 4.3 does: update begins programs whose configuration is new or another.
cd "$(dirname "$0")" || exit 1
began() { echo "$1" >>began; : >running; }
case $1 in
  update)
    cmp -s conf/corral-x.conf known && exit 0
    [ -e known ] && { echo "x: stopped"; echo "x: updated process group"; } ||
      echo "x: added process group"
    cp conf/corral-x.conf known; began update ;;
  restart) began restart ;;
  status) [ -e running ] && echo "x RUNNING" || echo "x STOPPED" ;;
esac
"""


@pytest.mark.parametrize(
    ("case", "touched", "began"),
    [
        (("stopped stale", "", False), False, "update"),  # new
        (("stopped stale", "", False), True, "update"),
        (("running stale", "another", True), False, "update"),  # another command line
        (("running stale", "same", True), True, "restart"),  # other inputs
        (("stopped current", "same", True), False, ""),  # a container started over: by supervisord
        (("stopped current", "same", True), True, "restart"),  # and then its files were changed
        (("stopped current", "same", False), False, "restart"),
    ],
)
def test_a_daemon_under_supervisord_begins_once(
    tmp_path: Path, case: tuple[str, str, bool], touched: bool, began: str
) -> None:
    """A new daemon was started twice, and the first start was waited for."""
    seen, before, runs = case

    def here(text: str) -> str:
        for folder, name in ((CONF, "conf"), (LOGS, "logs"), (STAMPS, "stamps")):
            text = text.replace(folder, str(tmp_path / name))
        return text

    daemon = Supervised("x", "/bin/x", (str(tmp_path / "input"),))
    (tmp_path / "supervisorctl").write_text(SUPERVISORCTL)
    (tmp_path / "supervisorctl").chmod(0o755)
    (tmp_path / "conf").mkdir()
    if before:
        (tmp_path / "known").write_text(here(daemon.text) if before == "same" else before)
    if runs:
        (tmp_path / "running").touch()
    why = {f"file:{tmp_path}/input": Change("file:x", "", "", "", sh("true"))} if touched else {}
    change = daemon.diff(Seen(0, seen), Context("n", why))
    assert change is not None
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["/bin/sh", "-c", here(change.script)], check=True, env=env, timeout=20)
    starts = tmp_path / "began"
    assert (starts.read_text().strip() if starts.exists() else "") == began
    assert (tmp_path / "conf/corral-x.conf").read_text() == here(daemon.text)
    assert (tmp_path / "stamps/x").read_text()
