"""Probes whose subjects are read together: the answers are those of each alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.apply.observation import inquiry_of
from corral.hosts.framing import Inquiry
from corral.state.base import Resource, probes
from corral.state.files import Directory, File
from corral.state.secrets import Secret
from corral.state.service import Service, Timer

SYSTEMCTL = """#!/bin/sh
echo systemctl >> "$CALLS"
[ "$1" = show ] || exit 1
first=
for word in "$@"; do
  case $word in
    show | -p | Names | ActiveState | UnitFileState | NeedDaemonReload) continue ;;
    a.service) names='b.service a.service' active=active file=enabled reload=no ;;
    t.timer) names=t.timer active=active file=enabled reload=yes ;;
    *) names=$word active=inactive file= reload=no ;;
  esac
  printf '%sNames=%s\\nActiveState=%s\\nUnitFileState=%s\\nNeedDaemonReload=%s\\n' \\
    "$first" "$names" "$active" "$file" "$reload"
  first='
'
done
"""
COUNTED = """#!/bin/sh
echo {name} >> "$CALLS"
exec {path} "$@"
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Stand-ins that write down that they were started, in a folder for PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    texts = {"systemctl": SYSTEMCTL}
    for name in ("sha256sum", "stat"):
        texts[name] = COUNTED.format(name=name, path=f"/usr/bin/{name}")
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def answers(inquiry: Inquiry, programs: Path) -> tuple[dict[str, str], list[str]]:
    """Answers by resource, and the programs that were started."""
    calls = programs / "calls"
    calls.write_text("")
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(calls)}
    done = subprocess.run(
        ["/bin/sh", "-c", inquiry.script], env=environment, capture_output=True, text=True
    )
    assert done.stderr == ""
    return inquiry.read(done.stdout).texts(), calls.read_text().split()


def resources(folder: Path) -> tuple[Resource, ...]:
    """Some that are there, some that are not, names that sha256sum or a pattern would change."""
    (folder / "plain").write_text("text")
    (folder / "with\\backslash").write_text("text")
    (folder / "star*[x]").write_text("another")
    (folder / "key").write_text("random")
    (folder / "empty").write_text("")
    names = ("plain", "with\\backslash", "star*[x]", "absent", "empty")
    return (
        *(File(f"{folder}/{name}", "text") for name in names),
        Directory(str(folder)),
        Directory(f"{folder}/nowhere"),
        Directory(f"{folder}/plain"),
        Secret(f"{folder}/key", "node0", "root:root"),
        Secret(f"{folder}/empty", "node0", "root:root"),
        *(Service(name) for name in ("a", "nowhere")),
        *(Timer(name) for name in ("t", "nowhere")),
    )


def test_together_they_answer_as_alone(hostile_tmp_path: Path, programs: Path) -> None:
    each = resources(hostile_tmp_path)
    together, few = answers(inquiry_of(each, {}), programs)
    alone, many = answers(Inquiry(probes(each)), programs)
    assert together == alone
    assert together["service:a"].startswith("enabled running")
    assert together["timer:t"] == "enabled active yes"
    assert together["timer:nowhere"] == "absent inactive no"
    assert few.count("systemctl") == 1 and many.count("systemctl") == 4
    assert few.count("stat") == 1 and many.count("stat") > 5


def test_what_cannot_be_read_together_is_read_alone(tmp_path: Path, programs: Path) -> None:
    (programs / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    seen, _ = answers(inquiry_of((Service("a"), Timer("t")), {}), programs)
    assert seen["service:a"].startswith("absent stopped")
    assert seen["timer:t"].split() == ["absent"]
