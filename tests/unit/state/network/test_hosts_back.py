"""/etc/hosts of a machine that is released, after its owner wrote in it too: real sed and awk."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

from corral.hosts.framing import Reports
from corral.state import ledger
from corral.state.network.host_names import HostsBlock
from tests.unit.state.shell import diff, run

ME = platform.node().partition(".")[0]
WAS = f"""\
127.0.0.1 localhost   # the loopback
127.0.1.1 {ME}.lan {ME} other

::1 localhost ip6-localhost
10.0.0.5  printer # the owner's
"""
BACK = re.search(
    r"^hosts\(\) \{.*?^\}$", ledger.undo(Reports(), purge=False), re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize(
    ("edit", "after"),
    [
        (lambda now: now, WAS),
        (lambda now: now + "10.0.0.6 scanner\n", WAS + "10.0.0.6 scanner\n"),
        (lambda now: "127.0.0.1 dev.test\n" + now, WAS + "127.0.0.1 dev.test\n"),
        (
            lambda now: now.replace("10.0.0.5  printer # the owner's\n", ""),
            WAS.replace("10.0.0.5  printer # the owner's\n", ""),
        ),
        (lambda now: now.replace("printer", "plotter"), WAS.replace("printer", "plotter")),
    ],
    ids=["as it was", "a line more", "a name of loopback", "a line less", "a line changed"],
)
def test_the_file_is_as_it_was_but_for_what_its_owner_did(
    edit: object, after: str, tmp_path: Path
) -> None:
    hosts, was = tmp_path / "hosts", tmp_path / "was"
    hosts.write_text(WAS)
    was.write_text(WAS)
    change = diff(HostsBlock((("10.0.0.1", ME), ("10.0.0.2", "node1")), str(hosts)))
    assert change is not None
    run(change)
    during = hosts.read_text().splitlines()
    assert during[0] == "127.0.0.1 localhost   # the loopback"
    assert "127.0.1.1\tother" in during
    hosts.write_text(edit(hosts.read_text()))  # type: ignore[operator]
    assert BACK is not None
    script = BACK.group().replace("/etc/hosts", str(hosts)) + f"\nhosts {was}\n"
    subprocess.run(
        ["sh", "-c", script], env={"L": str(tmp_path), "PATH": "/usr/bin:/bin"}, check=True
    )
    assert hosts.read_text() == after
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hosts", "was"]
