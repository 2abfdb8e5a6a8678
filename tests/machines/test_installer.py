"""Debian's own installer with the files of ``corral export autoinstall``, in an emulated machine.

Runs where CORRAL_TEST_INSTALLER is set, for an hour of a core without KVM: 1, or words for the
installer's kernel, such as those that name a mirror. Needs qemu-system-x86 and
debian-installer-12-netboot-amd64.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from corral import api
from corral.spec.load import load_or_raise
from tests.embedded.loopback import free_port

IMAGES = Path("/usr/lib/debian-installer/images/12/amd64/text/debian-installer/amd64")
WORDS = os.environ.get("CORRAL_TEST_INSTALLER", "")
INSTALL_S, BOOT_S = 4 * 3600, 1800
FILE = """\
corral: v1
name: lab
groups:
  - {name: vm, provider: ssh, nodes: node0, addresses: 10.0.2.20, ssh: {user: alice}}
controller: node0
partitions:
  - {name: main, groups: [vm], default: true}
network: {control: lan}
"""
pytestmark = pytest.mark.skipif(
    not (WORDS and shutil.which("qemu-system-x86_64") and IMAGES.is_dir()),
    reason="CORRAL_TEST_INSTALLER is not set, or no qemu-system-x86_64 or no Debian installer",
)


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """The port of loopback that serves the folder; qemu's network has it at 10.0.2.2."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def machine(folder: Path, ssh_port: int, *more: str) -> subprocess.Popen[bytes]:
    """An emulated machine with one disk; its console is in ``console``."""
    network = f"user,model=virtio-net-pci,ipv6=off,hostfwd=tcp:127.0.0.1:{ssh_port}-10.0.2.20:22"
    return subprocess.Popen(
        [
            *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "1024"),
            *("-display", "none", "-no-reboot", "-serial", f"file:{folder / 'console'}"),
            *("-drive", f"file={folder / 'disk'},format=raw,if=virtio,cache=unsafe"),
            *("-nic", network, *more),
        ]
    )


@contextmanager
def booted(folder: Path, port: int) -> Iterator[None]:
    running = machine(folder, port)
    try:
        yield
    finally:
        running.kill()
        running.wait()


def asked(folder: Path, port: int, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    key = ("-i", str(folder / "id"), "-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=20")
    free = ("-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={folder / 'known'}")
    words = ("ssh", "-n", "-F", "none", "-p", str(port), *key, *free, *options)
    return subprocess.run(
        [*words, "alice@127.0.0.1", command], capture_output=True, text=True, timeout=300
    )


def installed(folder: Path, port: int) -> None:
    """Runs the installer to its end: it reboots the machine, which ends qemu."""
    (folder / "lab.yaml").write_text(FILE)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "id"], check=True)
    key = (folder / "id.pub").read_text().strip()
    install = api.Install("debian", (key,), "/dev/vda", "10.0.2.2/24", ("10.0.2.3",), "ens3")
    api.export_autoinstall(load_or_raise(folder / "lab.yaml"), install, folder / "media")
    with (folder / "disk").open("wb") as disk:
        disk.truncate(6 << 30)
    with served(folder / "media") as web:
        words = f"auto=true priority=critical url=http://10.0.2.2:{web}/node0.cfg"
        more = "" if WORDS == "1" else f" {WORDS}"
        boot = ("-kernel", str(IMAGES / "linux"), "-initrd", str(IMAGES / "initrd.gz"))
        append = f"{words}{more} DEBIAN_FRONTEND=text --- console=ttyS0"
        running = machine(folder, port, *boot, "-append", append)
        try:
            running.wait(INSTALL_S)
        finally:
            running.kill()
            running.wait()
    assert running.returncode == 0, (folder / "console").read_text(errors="replace")[-4000:]


def test_debians_installer_makes_the_machine_of_the_file(tmp_path: Path) -> None:
    port = free_port()
    installed(tmp_path, port)
    with booted(tmp_path, port):
        until = time.monotonic() + BOOT_S
        while (first := asked(tmp_path, port, "hostname")).returncode:
            assert time.monotonic() < until, first.stderr
            time.sleep(5)
        assert first.stdout.strip() == "node0"
        address = asked(tmp_path, port, "ip -4 -o address show ens3; ip route show default").stdout
        assert "inet 10.0.2.20/24" in address and "default via 10.0.2.2 dev ens3" in address
        assert "dynamic" not in address
        assert asked(tmp_path, port, "sudo -n id -u").stdout.strip() == "0"
        sshd = asked(tmp_path, port, "sudo -n sshd -T").stdout
        assert "passwordauthentication no" in sshd
        shadow = asked(tmp_path, port, "sudo -n grep -E '^[^:]*:[$]' /etc/shadow")
        assert shadow.stdout == "", "an account has a password"
        refused = asked(tmp_path, port, "true", "-o", "PubkeyAuthentication=no")
        assert refused.returncode == 255 and "publickey" in refused.stderr
        disk = asked(tmp_path, port, "findmnt -no SOURCE /; timedatectl show -P Timezone").stdout
        assert disk.split() == ["/dev/vda1", "Etc/UTC"]
