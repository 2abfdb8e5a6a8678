"""``corral init --from``: several machines asked at once, one of which fails; the file as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.embedded.bare import PASSWORD, Bare, container, own_state
from tests.embedded.conftest import needs

from corral.spec.load import load_text

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def three() -> Iterator[tuple[Bare, ...]]:
    reason = needs()
    if reason:
        pytest.skip(reason)
    with ExitStack() as stack:
        stack.enter_context(own_state())
        machines = tuple(stack.enter_context(container(f"ws{i}")) for i in (1, 2, 3))
        # What nobody should be surprised by later; a container's own hosts file is mounted.
        machines[1].root('printf "127.0.1.1 ws2\\n" >> /etc/hosts')
        machines[2].root("useradd -m -u 1500 ada; for u in admin free; do id $u; done")
        yield machines


def init(three: tuple[Bare, ...], out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    secret = out.parent / "secret"
    secret.write_text(f"{PASSWORD}\n")
    env = os.environ | {f"CORRAL_{k}_PASSWORD_FILE": str(secret) for k in ("SUDO", "LOGIN")}
    argv = [sys.executable, "-m", "corral", "init", "--from", *(m.address for m in three)]
    argv += ["--user", "admin", "--name", "shop", "-o", str(out), *more]
    stdin = subprocess.DEVNULL
    return subprocess.run(argv, env=env, capture_output=True, text=True, stdin=stdin, timeout=240)


def test_one_without_sshd_is_named_and_nothing_is_half_written(
    three: tuple[Bare, ...], tmp_path: Path
) -> None:
    out = tmp_path / "shop.yaml"
    three[1].root("systemctl stop ssh.socket ssh; :")
    try:
        done = init(three, out, "--keys")
    finally:
        three[1].root("systemctl start ssh")
    assert done.returncode == 3, done.stderr
    assert f"nothing listens at {three[1].address}" in done.stderr
    assert not any(f"at {m.address} port" in done.stderr for m in (three[0], three[2]))
    assert not out.exists()


def test_all_three(three: tuple[Bare, ...], tmp_path: Path) -> None:
    out = tmp_path / "shop.yaml"
    done = init(three, out, "--keys")
    assert done.returncode == 0, done.stderr
    text = out.read_text()
    loaded = load_text(text, str(out))
    assert loaded.findings == () and loaded.spec is not None
    spec = loaded.spec
    assert [g.nodes for g in spec.groups] == ["ws[1-3]"]
    assert spec.controller == "ws1"
    assert spec.groups[0].ssh.user == "admin"
    assert text.count("\n#") + text.count("  #") > 5, "commented"
    assert "ws2" in done.stderr and "127.0.1.1" in done.stderr and "127.0.1.1" in text
    lint = subprocess.run(
        [sys.executable, "-m", "corral", "lint", str(out)], capture_output=True, text=True
    )
    assert lint.returncode == 0, lint.stdout + lint.stderr
    print(text)
