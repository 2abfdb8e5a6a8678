"""The environment of GPUDirect-TCPXO, run by a shell over a profile as Google writes it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from corral.doctor.catalog import catalog
from corral.roles.machine.nccl_plugin import TCPXO

# The names and values of nccl-env-profile.sh that matter here (plugin v1.0.17).
PROFILE = """\
export NCCL_FASTRAK_CTRL_DEV=eth0
export NCCL_FASTRAK_IFNAME=eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8
export NCCL_SOCKET_IFNAME=eth0
export NCCL_CROSS_NIC=0
export NCCL_TUNER_CONFIG_PATH=${NCCL_LIB_DIR}/a3plus_tuner_config.textproto
export NCCL_NVLSTREE_MAX_CHUNKSIZE=131072
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
"""


def run(folder: Path, aperture: Path, **env: str) -> subprocess.CompletedProcess[str]:
    script = TCPXO.environment(str(folder)).replace("/dev/aperture_devices", str(aperture))
    return subprocess.run(
        ["/bin/sh", "-c", script + "\nenv"],
        env={"PATH": "/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def aperture(tmp_path: Path) -> Path:
    (tmp_path / "aperture" / "0000:06:00.0").mkdir(parents=True)
    return tmp_path / "aperture"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64/nccl-env-profile.sh").write_text(PROFILE)
    return tmp_path / "lib64"


def environment(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_the_profile_is_sourced_and_four_names_go_over_it(folder: Path, aperture: Path) -> None:
    names = environment(run(folder, aperture))
    assert names["NCCL_CROSS_NIC"] == "0"
    assert names["NCCL_TUNER_CONFIG_PATH"] == f"{folder}/a3plus_tuner_config.textproto"
    for name, value in ({**TCPXO.values, **TCPXO.demanded}).items():
        assert names[name] == value.replace("/dev/aperture_devices", str(aperture))
    assert names["LD_LIBRARY_PATH"] == f"{folder}:/usr/lib/x86_64-linux-gnu"


def test_slurms_binding_stays(folder: Path, aperture: Path) -> None:
    assert (
        environment(run(folder, aperture, CUDA_VISIBLE_DEVICES="3"))["CUDA_VISIBLE_DEVICES"] == "3"
    )
    assert "CUDA_VISIBLE_DEVICES" not in environment(run(folder, aperture))


def test_the_users_libraries_stay_behind(folder: Path, aperture: Path) -> None:
    names = environment(run(folder, aperture, LD_LIBRARY_PATH="/mine"))
    assert names["LD_LIBRARY_PATH"] == f"{folder}:/usr/lib/x86_64-linux-gnu:/mine"


def test_without_prolog_the_job_ends_with_a_message(tmp_path: Path, aperture: Path) -> None:
    done = run(tmp_path, aperture)
    assert done.returncode == 1
    assert "the TCPXO prolog did not run" in done.stderr


def test_without_aperture_devices_too(folder: Path, tmp_path: Path) -> None:
    done = run(folder, tmp_path / "none")
    assert done.returncode == 1
    assert "no aperture devices" in done.stderr


GOOD = {**TCPXO.values, **TCPXO.demanded, "LD_LIBRARY_PATH": ":".join(TCPXO.libraries)}


def test_a_good_environment_has_no_mistakes() -> None:
    assert TCPXO.mistakes(GOOD) == ()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("NCCL_NVLSTREE_MAX_CHUNKSIZE", "65536", "demands 131072"),
        ("NCCL_FASTRAK_IFNAME", ",".join(sorted(TCPXO.rails)), "another order"),
        ("NCCL_FASTRAK_IFNAME", "eth1,eth2", "the NICs are"),
        ("NCCL_SOCKET_IFNAME", "", "not set"),
        ("LD_LIBRARY_PATH", "/usr/lib", "TCP sockets"),
        ("NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", "", "/dev/aperture_devices"),
    ],
)
def test_each_mistake_is_named(name: str, value: str, message: str) -> None:
    messages = TCPXO.mistakes({**GOOD, name: value})
    assert len(messages) == 1
    assert message in messages[0]


def test_the_doctors_advice_names_the_nics_of_the_table() -> None:
    advice = catalog()["F99"].fix
    assert advice == f"{TCPXO.rails_variable}={','.join(TCPXO.rails)}"
