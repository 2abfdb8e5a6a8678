"""One machine as a cluster: Corral runs on it, and reaches it without ssh."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.apply.wheelhouse import cached, fetch
from corral.events import ignore
from corral.roles.services.corral_wheels import locked, own_wheel
from tests.machines.before_after import OWNERS, differences, snapshot
from tests.machines.lab import Lab
from tests.machines.lab.labs import Machine

SITE = "/opt/corral-here"
STATE = "/run/corral-here"
"""Corral's own state folder, as of any user of it: not the machine's."""
CORRAL = (
    f"cd /root && PYTHONPATH={SITE} PYTHONDONTWRITEBYTECODE=1 XDG_STATE_HOME={STATE} "
    "python3 -m corral"
)


def code() -> bytes:
    """Corral and what it needs, for the machine's Python, as a tar of one folder."""
    wheels = (*locked("web")["3.13"], own_wheel()[0])
    asyncio.run(fetch(wheels, ignore))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for wheel in wheels:
            with zipfile.ZipFile(cached(wheel.place)) as files:
                for name in files.namelist():
                    if not name.endswith("/"):
                        member = tarfile.TarInfo(name)
                        data = files.read(name)
                        member.size, member.mode = len(data), 0o644
                        archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


@pytest.fixture(scope="module")
def machine(fresh_lab: Callable[..., Lab]) -> Machine:
    """A bare machine with Python and Corral's code, and what its owner has there."""
    made = fresh_lab(f"here-{os.getpid()}", 1).machines[0]
    install = "DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3"
    made.root(f"apt-get update -q && {install}", timeout=400)
    unpack = f"sudo -n sh -c 'mkdir {SITE} && tar -C {SITE} --no-same-owner -xzf -'"
    subprocess.run([*made.ssh_argv(), unpack], input=code(), check=True, timeout=200)
    made.root(OWNERS)
    return made


def corral(machine: Machine, words: str, *, check: bool = True) -> str:
    return machine.root(f"{CORRAL} {words}", timeout=1500, check=check)


def test_a_machine_becomes_a_cluster_and_is_restored(machine: Machine, tmp_path: Path) -> None:
    corral(machine, "init --here")
    before = snapshot(machine)
    began = machine.root("date +%s").strip()

    up = json.loads(corral(machine, "up here.yaml --yes --json").splitlines()[-1])
    assert up["proof"]["good"], up["proof"]
    assert json.loads(corral(machine, "plan here.yaml --json"))["empty"]
    job = "runuser -u admin -- srun -n 1 sh -c 'id -un; uname -n' 2>&1"
    assert machine.root(f"cd /tmp && {job}").split() == ["admin", "debian"]
    assert "idle" in corral(machine, "status here.yaml")
    assert corral(machine, "exec --cluster here.yaml -- id -un", check=False).count("root") == 1

    # Nothing logged in from the machine to itself, and no key was made.
    log = machine.root(f"journalctl -q -t sshd-session -t sshd --since @{began}", check=False)
    own = ("127.0.0.1", "::1", machine.address)
    assert not [line for line in log.splitlines() if any(f"from {a} " in line for a in own)]
    state = machine.root(f"find {STATE}")
    assert "id_ed25519" not in state and "known_hosts" not in state

    corral(machine, "down here.yaml --yes")
    left = differences(before, snapshot(machine))
    assert not left, "\n".join(left)
