"""One machine as a cluster: Corral runs on it, and reaches it without ssh.

A second machine has two GPUs by recorded answers, and device files that open.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
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
from tests.machines.recorded_gpus import place
from tests.unit.providers.containers.gpus.test_host_gpus import answers, cards

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


TWO = ("NVIDIA H200", "NVIDIA H200")
GOOD = cards(*TWO)
BAD: dict[str, tuple[dict[str, str], str]] = {
    "MIG mode": (cards(*TWO, mig="Enabled"), "/dev/nvidia0 (NVIDIA H200) is in MIG mode"),
    "two models": (
        cards("NVIDIA H200", "NVIDIA L4"),
        "they are of 2 models (NVIDIA H200, NVIDIA L4), and the GPUs of a node are of one type",
    ),
    "one fell off the bus": (
        GOOD
        | {
            "cards": GOOD["cards"].splitlines()[1]
            + "\nUnable to determine the device handle for GPU0000:01:00.0: Unknown Error"
        },
        "nvidia-smi does not list the GPU at 0000:01:00.0",
    ),
    "one in use": (
        GOOD | {"users": "GPU-0, 422, python3"},
        "/dev/nvidia0 (NVIDIA H200) is in use by process 422 (python3)",
    ),
}
"""What is wrong with the GPUs: recorded answers that show it, and the sentence."""
WHO = "id -un; nvidia-smi -L; for f in /dev/nvidia[0-9]; do (: <$f) 2>/dev/null && echo $f; done; :"
"""What a job sees and opens of GPUs."""
STAMPS = (
    "stat -c '%n %Y' /etc/slurm/* /etc/hosts; "
    "systemctl show -p Id -p ActiveEnterTimestamp slurmctld slurmd slurmdbd mariadb"
)
"""What a change of a file, or a service's restart, would move."""


def prepared(lab: Lab) -> Machine:
    """A bare machine with Python and Corral's code, and what its owner has there."""
    made = lab.machines[0]
    install = "DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3"
    made.root(f"apt-get update -q && {install}", timeout=400)
    unpack = f"sudo -n sh -c 'mkdir {SITE} && tar -C {SITE} --no-same-owner -xzf -'"
    subprocess.run([*made.ssh_argv(), unpack], input=code(), check=True, timeout=200)
    made.root(OWNERS)
    return made


@pytest.fixture(scope="module")
def machine(fresh_lab: Callable[..., Lab]) -> Machine:
    return prepared(fresh_lab(f"here-{os.getpid()}", 1))


@pytest.fixture(scope="module")
def gpu_machine(fresh_lab: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine with two H200, for which ``here.yaml`` is written."""
    made = prepared(fresh_lab(f"here-gpus-{os.getpid()}", 1))
    place(made, answers(**GOOD), tmp_path_factory.mktemp("libraries"))
    corral(made, "init --here")
    return made


def corral(machine: Machine, words: str, *, check: bool = True) -> str:
    return machine.root(f"{CORRAL} {words}", timeout=1500, check=check)


def errors_of(machine: Machine, words: str) -> str:
    """What a command that fails as it should prints of why."""
    done = machine.ssh(f"sudo -n sh -c '{CORRAL} {words}'", timeout=200, check=False)
    assert done.returncode == 3, done
    assert not done.stdout
    return done.stderr


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


@pytest.mark.parametrize("case", BAD)
def test_gpus_that_slurm_cannot_have_are_refused_and_nothing_is_made(
    gpu_machine: Machine, case: str, tmp_path: Path
) -> None:
    facts, sentence = BAD[case]
    before = snapshot(gpu_machine)
    place(gpu_machine, answers(**facts), tmp_path)
    try:
        for words in ("init --here -o bad.yaml", "plan here.yaml", "up here.yaml --yes"):
            printed = errors_of(gpu_machine, words)
            errors = [line for line in printed.splitlines() if line.startswith("error: ")]
            assert errors == [f"error: Slurm cannot have the GPUs of this machine: {sentence}"]
            assert printed.count("hint: ") == 1
    finally:
        place(gpu_machine, answers(**GOOD), tmp_path)
    assert gpu_machine.root("ls /root/bad.yaml 2>&1; :").endswith("No such file or directory\n")
    left = differences(before, snapshot(gpu_machine))
    assert not left, "\n".join(left)


def test_a_machine_with_gpus_becomes_a_cluster_and_is_restored(gpu_machine: Machine) -> None:
    file = gpu_machine.root("cat /root/here.yaml")
    assert "    gpu: {type: h200, count: 2}\n" in file
    assert " 2 x h200, " in file
    assert "\n# software: the machines have an NVIDIA driver already" in file
    before = snapshot(gpu_machine)
    gres = "NodeName=debian Name=gpu Type=h200 File=/dev/nvidia[0-1]"
    diff = corral(gpu_machine, "plan here.yaml --diff")
    assert f"+{gres}" in diff
    assert "Gres=gpu:h200:2" in diff
    assert "nvidia-driver" not in diff

    up = json.loads(corral(gpu_machine, "up here.yaml --yes --json").splitlines()[-1])
    assert up["proof"]["good"], up["proof"]
    (devices,) = [c for c in up["proof"]["results"] if c["check"] == "isolation.devices"]
    assert devices["verdict"] == "pass", devices
    assert devices["summary"] == "own GPU opens, all others refused, on 1 node"
    assert gres in gpu_machine.root("cat /etc/slurm/gres.conf")
    assert json.loads(corral(gpu_machine, "plan here.yaml --json"))["empty"]
    stamps = gpu_machine.root(STAMPS)
    again = json.loads(corral(gpu_machine, "up here.yaml --yes --json").splitlines()[-1])
    assert again["proof"]["good"], again["proof"]
    assert not again["plans"]
    assert gpu_machine.root(STAMPS) == stamps
    assert re.search(r"^debian +idle +0/2 ", corral(gpu_machine, "status here.yaml"), re.M)

    job = f"cd /tmp && runuser -u admin -- srun -n 1 %s sh -c '{WHO}' 2>&1"
    seen = {gpus: gpu_machine.root(job % gpus) for gpus in ("-G 1", "-G 2", "")}
    first, second = "GPU 0: NVIDIA H200 (UUID: GPU-0)", "GPU 1: NVIDIA H200 (UUID: GPU-0)"
    other = "GPU 0: NVIDIA H200 (UUID: GPU-1)"
    assert seen["-G 1"].splitlines() == ["admin", first, "/dev/nvidia0"]
    assert seen["-G 2"].splitlines() == ["admin", other, second, "/dev/nvidia0", "/dev/nvidia1"]
    assert seen[""].splitlines() == ["admin"]
    run = corral(gpu_machine, "run --cluster here.yaml -G 1 -- nvidia-smi -L")
    assert first in run.splitlines()
    assert second not in run and other not in run

    corral(gpu_machine, "down here.yaml --yes")
    left = differences(before, snapshot(gpu_machine))
    assert not left, "\n".join(left)
