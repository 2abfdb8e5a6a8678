"""Answers for unattended installers, checked by their schema, by debconf and by running them."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from corral import api
from corral.errors import Code, CorralError
from corral.providers.autoinstall import Install, autoinstall_files, boot_parameters, reservations
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec

REPO = Path(__file__).parents[3]
SCHEMA = json.loads((REPO / "tests/recorded/autoinstall/schema.json").read_text())
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1kGmv0Q0Cz7kM2oJY1oQ3vM2m3k1o0Zk5tqYx0m3aB alice@desk"
HASH = "$6$saltsalt$" + "Ab1." * 20
DHCP = Install("ubuntu", (KEY,), "/dev/nvme0n1")
STATIC = replace(DHCP, gateway="192.168.1.1/24", interface="eno1")


def lab(user: str = "alice1") -> ClusterSpec:
    spec = load_or_raise(REPO / "examples/lab-3x5090.yaml")
    group = spec.groups[0]
    ssh = group.ssh.model_copy(update={"user": user})
    return spec.model_copy(update={"groups": (group.model_copy(update={"ssh": ssh}),)})


def autoinstall(install: Install, node: str = "node0") -> dict[str, Any]:
    text = autoinstall_files(lab(), install)[f"{node}/user-data"]
    assert text.startswith("#cloud-config\n")
    reader = YAML(typ="safe")
    reader.version = (1, 1)  # as PyYAML, by which the installer reads
    return reader.load(text)["autoinstall"]


def preseed(install: Install) -> dict[str, str]:
    lines = autoinstall_files(lab(), replace(install, system="debian"))["node2.cfg"].splitlines()
    rows = [line.split(" ", 3) for line in lines if line.startswith("d-i ")]
    return {row[1]: row[3] if len(row) > 3 else "" for row in rows}


@pytest.mark.parametrize(
    ("name", "install"),
    [("dhcp", DHCP), ("static", STATIC), ("password", replace(STATIC, password=HASH))],
)
def test_files_are_golden(name: str, install: Install, golden: Callable[[str, str], None]) -> None:
    golden(f"autoinstall/{name}-user-data", autoinstall_files(lab(), install)["node1/user-data"])
    debian = replace(install, system="debian")
    golden(f"autoinstall/{name}.cfg", autoinstall_files(lab(), debian)["node1.cfg"])


@pytest.mark.parametrize("install", [DHCP, STATIC, replace(DHCP, password=HASH, interface="eno1")])
def test_user_data_is_as_the_installers_schema_has_it(install: Install) -> None:
    jsonschema.validate(autoinstall(install), SCHEMA)


@pytest.mark.parametrize(
    "wrong", [{"identity": {"username": "alice"}}, {"updates": "none"}, {"wifis": {}}]
)
def test_the_schema_refuses_what_is_wrong(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(autoinstall(STATIC) | wrong, SCHEMA)


def test_each_machine_has_its_name_and_address() -> None:
    data = autoinstall(STATIC, "node2")
    assert data["identity"]["hostname"] == "node2"
    assert data["network"]["ethernets"]["eno1"]["addresses"] == ["192.168.1.12/24"]
    assert preseed(STATIC)["netcfg/get_hostname"] == "node2"
    assert preseed(STATIC)["netcfg/get_ipaddress"] == "192.168.1.12"
    assert preseed(STATIC)["netcfg/get_netmask"] == "255.255.255.0"


def test_words_that_yaml_1_1_takes_for_booleans_stay_words() -> None:
    assert autoinstall(replace(DHCP, keyboard="no"))["keyboard"] == {"layout": "no"}


def test_no_wifi_is_configured() -> None:
    for install in (DHCP, STATIC):
        assert "wifis" not in json.dumps(autoinstall(install))
    assert "network" not in autoinstall(DHCP)  # the installer's default: DHCP on eth* and en*
    assert preseed(STATIC)["netcfg/choose_interface"] == "eno1"


def test_addresses_are_reserved_with_dhcp_only() -> None:
    assert reservations(lab(), DHCP)[0] == "node0 192.168.1.10"
    assert reservations(lab(), STATIC) == ()


def test_login_is_by_key_and_sudo_asks_nothing_without_a_password() -> None:
    data = autoinstall(DHCP)
    assert data["identity"]["password"] == "!"
    assert data["ssh"] == {"install-server": True, "authorized-keys": [KEY], "allow-pw": False}
    assert "late-commands" not in autoinstall(replace(DHCP, password=HASH))


@pytest.mark.parametrize("system", ["ubuntu", "debian"])
def test_commands_of_the_installer_run(system: str, tmp_path: Path) -> None:
    """In a folder in place of /target; in-target (a chroot there) does nothing."""
    target = tmp_path / "target"
    for folder in ("etc/sudoers.d", "etc/ssh/sshd_config.d", "home/alice1"):
        (target / folder).mkdir(parents=True)
    (tmp_path / "in-target").write_text("#!/bin/sh\n")
    (tmp_path / "in-target").chmod(0o755)
    commands = autoinstall(DHCP)["late-commands"]
    if system == "debian":
        commands = [preseed(DHCP)["preseed/late_command"]]
    for command in commands:
        script = command.replace("/target/", f"{target}/")
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        subprocess.run(["sh", "-c", script], env=env, check=True)
    rule = target / "etc/sudoers.d/90-corral-install"
    assert rule.read_text() == "alice1 ALL=(ALL) NOPASSWD: ALL\n"
    assert rule.stat().st_mode & 0o777 == 0o440
    if system == "debian":
        keys = target / "home/alice1/.ssh/authorized_keys"
        assert keys.read_text() == KEY + "\n"
        assert keys.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(
    not shutil.which("debconf-set-selections"), reason="debconf-set-selections is Debian's"
)
@pytest.mark.parametrize(("broken", "good"), [(False, True), (True, False)])
def test_debconf_reads_the_preseed_file(broken: bool, good: bool, tmp_path: Path) -> None:
    text = autoinstall_files(lab(), replace(STATIC, system="debian"))["node0.cfg"]
    file = tmp_path / "node0.cfg"
    file.write_text(text.replace("d-i time/zone string Etc/UTC", "d-i") if broken else text)
    done = subprocess.run(
        ["debconf-set-selections", "--checkonly", str(file)], capture_output=True, check=False
    )
    assert (done.returncode == 0 and b"error" not in done.stderr) == good, done.stderr


@pytest.mark.parametrize(
    ("install", "word"),
    [
        (replace(DHCP, keys=()), "public key"),
        (replace(DHCP, keys=("-----BEGIN OPENSSH PRIVATE KEY-----",)), "public key"),
        (replace(DHCP, disk="nvme0n1"), "invalid disk"),
        (replace(DHCP, disk="/dev/sda; reboot"), "invalid disk"),
        (replace(DHCP, password="secret"), "invalid password hash"),
        (replace(DHCP, interface="eno1\nd-i x"), "invalid interface"),
        (replace(DHCP, timezone="Etc/UTC x"), "invalid time zone"),
        (replace(STATIC, interface=""), "wired interface"),
        (replace(STATIC, gateway="192.168.1.1"), "prefix length"),
        (replace(STATIC, gateway="router/24"), "invalid gateway"),
        (replace(STATIC, nameservers=("dns",)), "invalid gateway or nameserver"),
        (replace(STATIC, gateway="192.168.1.10/24"), "node0 cannot have 192.168.1.10"),
        (replace(STATIC, gateway="10.0.0.1/24"), "node0 cannot have 192.168.1.10"),
    ],
)
def test_wrong_values_are_refused(install: Install, word: str) -> None:
    with pytest.raises(CorralError, match=word) as refused:
        autoinstall_files(lab(), install)
    assert refused.value.code is Code.USAGE
    assert refused.value.hint


def test_root_and_machines_of_others_are_refused() -> None:
    with pytest.raises(CorralError, match="logs in as root"):
        autoinstall_files(lab("root"), DHCP)
    rehearsed = load_or_raise(REPO / "examples/laptop.yaml")
    with pytest.raises(CorralError, match="comes installed"):
        autoinstall_files(rehearsed, DHCP)


def test_a_static_address_without_dhcp_is_for_the_kernel_of_the_installer(tmp_path: Path) -> None:
    """It configures the network before it can fetch the file that has the address."""
    debian = replace(STATIC, system="debian")
    words = boot_parameters(lab(), debian)["node1"]
    assert words == (
        "netcfg/choose_interface=eno1 netcfg/disable_autoconfig=true "
        "netcfg/get_ipaddress=192.168.1.11 netcfg/get_netmask=255.255.255.0 "
        "netcfg/get_gateway=192.168.1.1 netcfg/get_nameservers=192.168.1.1 "
        "netcfg/confirm_static=true"
    )
    two = replace(debian, interface="", nameservers=("192.168.1.1", "9.9.9.9"))
    other = boot_parameters(lab(), two)["node1"]
    assert other.startswith("netcfg/choose_interface=auto ")
    assert ' netcfg/get_nameservers="192.168.1.1 9.9.9.9" ' in other
    made = api.export_autoinstall(lab(), tmp_path / "static", debian)
    assert any(line.startswith("# node1,") and line.endswith(words) for line in made.next)
    made = api.export_autoinstall(lab(), tmp_path / "dhcp", replace(DHCP, system="debian"))
    assert not any("where no DHCP server answers" in line for line in made.next)


@pytest.mark.parametrize("configured", [True, False])
def test_debians_installer_takes_name_and_address_once_it_has_the_file(
    configured: bool, tmp_path: Path
) -> None:
    for name in ("kill-all-dhcp", "netcfg"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/ran\n")
        (tmp_path / name).chmod(0o755)
    if configured:
        (tmp_path / "interfaces").touch()
    command = preseed(DHCP)["preseed/early_command"].replace("/etc/network/", f"{tmp_path}/")
    subprocess.run(["sh", "-c", command], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    ran = (tmp_path / "ran").read_text().split() if configured else []
    assert ran == (["kill-all-dhcp", "netcfg"] if configured else [])


@pytest.mark.skipif(not shutil.which("xorriso"), reason="xorriso is not installed")
def test_the_printed_command_makes_the_second_medium(tmp_path: Path) -> None:
    folder = tmp_path / "my media"
    made = api.export_autoinstall(lab(), folder, STATIC)
    commands = [shlex.split(line) for line in made.next if line.startswith("xorriso ")]
    assert [Path(command[-1]).name for command in commands] == ["node0", "node1", "node2"]
    subprocess.run(commands[2], check=True, capture_output=True)
    iso = folder / "node2.iso"
    # By the label cloud-init knows it: ds-identify reads it by blkid.
    asked = ["blkid", "-p", "-o", "value", "-s", "LABEL", iso]
    label = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    assert label.strip() == "CIDATA"
    read = ["xorriso", "-osirrox", "on", "-indev", iso, "-extract", "/", tmp_path / "read"]
    subprocess.run(read, check=True, capture_output=True)
    assert {path.name: path.read_text() for path in (tmp_path / "read").iterdir()} == {
        name: (folder / "node2" / name).read_text() for name in ("user-data", "meta-data")
    }
