"""Debian's own installer with the files of ``corral export autoinstall``, in an emulated machine.

Needs qemu-system-x86 and debian-installer-12-netboot-amd64, and no archive: how far the installer
comes without one is enough to see name, address and answers. A complete installation, an hour of a
core, runs where CORRAL_TEST_INSTALLER has the words for the kernel that name a mirror.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.loopback import free_port

from corral import api
from corral.spec.load import load_or_raise

IMAGES = Path("/usr/lib/debian-installer/images/12/amd64/text/debian-installer/amd64")
MIRROR = os.environ.get("CORRAL_TEST_INSTALLER", "")
INSTALL_S, BOOT_S, ANSWER_S = 4 * 3600, 3600, 60
HOST = "10.0.2.2"  # this machine, of qemu's network
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
STATIC = {"gateway": f"{HOST}/24", "nameservers": ("10.0.2.3",), "interface": "ens3"}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not shutil.which("qemu-system-x86_64") or not IMAGES.is_dir(),
        reason="no qemu-system-x86_64, or no debian-installer-12-netboot-amd64",
    ),
]


class Web(ThreadingHTTPServer):
    """Serves a folder, and keeps what is asked for and what is sent here."""

    def __init__(self, folder: Path) -> None:
        self.asked: queue.Queue[str] = queue.Queue()
        self.sent: queue.Queue[str] = queue.Queue()
        super().__init__(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(SimpleHTTPRequestHandler):
    server: Web

    def do_GET(self) -> None:
        self.server.asked.put(self.path)
        super().do_GET()

    def do_POST(self) -> None:
        self.server.sent.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()


def machine(folder: Path, port: int, *more: str) -> subprocess.Popen[bytes]:
    """An emulated machine with one disk; its serial line is the socket ``serial``."""
    network = f"user,model=virtio-net-pci,ipv6=off,hostfwd=tcp:127.0.0.1:{port}-10.0.2.20:22"
    serial = f"socket,id=line,path={folder}/serial,server=on,wait=off,logfile={folder}/console"
    return subprocess.Popen(
        [
            *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "1024"),
            *("-display", "none", "-no-reboot", "-chardev", serial, "-serial", "chardev:line"),
            *("-drive", f"file={folder / 'disk'},format=raw,if=virtio,cache=unsafe"),
            *("-nic", network, *more),
        ]
    )


@contextmanager
def installing(
    folder: Path, port: int, mirror: str, **more: Any
) -> Iterator[tuple[Web, subprocess.Popen[bytes]]]:
    """The installer at work, with the file of node0 and the words that Corral prints for it."""
    (folder / "lab.yaml").write_text(FILE)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "id"], check=True)
    key = (folder / "id.pub").read_text().strip()
    install = api.Install("debian", (key,), "/dev/vda", **more)
    media = folder / "media"
    made = api.export_autoinstall(load_or_raise(folder / "lab.yaml"), media, install)
    (line,) = (line for line in made.next if "boot the installer" in line)
    with (folder / "disk").open("wb") as disk:
        disk.truncate(6 << 30)
    with Web(media) as web:
        here = f"{HOST}:{web.server_port}"
        words = line.partition(": ")[2].replace("HERE:8000", here).replace("NODE", "node0")
        mirror = mirror or f"mirror/country=manual mirror/http/hostname={here}"
        # A busy machine emulates its timer too late for the kernel's check of it.
        steady = "no_timer_check panic=1"
        append = f"{words} {mirror} {steady} DEBIAN_FRONTEND=text --- console=ttyS0"
        boot = ("-kernel", str(IMAGES / "linux"), "-initrd", str(IMAGES / "initrd.gz"))
        running = machine(folder, port, *boot, "-append", append)
        try:
            yield web, running
        finally:
            running.kill()
            running.wait()
            web.shutdown()


def shell(folder: Path, web: Web, command: str) -> str:
    """What a command prints in the installer, by its second window; "" when it does not answer."""
    post = f"wget -qO- --post-file=/tmp/out http://{HOST}:{web.server_port}/"
    line = f"\x012\r({command}) >/tmp/out 2>&1; {post}\r"
    with socket.socket(socket.AF_UNIX) as serial:
        serial.connect(str(folder / "serial"))
        serial.sendall(line.encode())
        try:
            return web.sent.get(timeout=ANSWER_S)
        except queue.Empty:
            return ""


@pytest.mark.parametrize("static", [True, False])
def test_debians_installer_has_name_address_and_answers_of_the_file(
    static: bool, tmp_path: Path
) -> None:
    more = STATIC if static else {}
    with installing(tmp_path, free_port(), "", **more) as (web, _):
        while web.asked.get(timeout=BOOT_S) != "/node0.cfg":
            pass
        text = (tmp_path / "media/node0.cfg").read_text()
        rows = re.findall(r"^\S+ (\S+/\S+) \w+ ?(.*)$", text, re.M)
        asking = "".join(f"echo {name} = $(debconf-get {name})\n" for name, _ in rows)
        (tmp_path / "media/ask.sh").write_text(f"hostname\nip -4 -o addr show ens3\n{asking}")
        script = f"wget -qO /tmp/ask http://{HOST}:{web.server_port}/ask.sh && sh /tmp/ask"
        until = time.monotonic() + BOOT_S
        # The network is configured again after the file has been read.
        while not (answer := shell(tmp_path, web, script)).startswith("node0\n"):
            assert time.monotonic() < until, (tmp_path / "console").read_text(errors="replace")
        print(answer)
    _, address, *answers = answer.splitlines()
    assert ("inet 10.0.2.20/24" in address) is static
    missing = {f"{name} = {' '.join(value.split())}".strip() for name, value in rows}
    assert missing - {" ".join(line.split()) for line in answers} == set()


def asked(folder: Path, port: int, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    key = ("-i", str(folder / "id"), "-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=20")
    free = ("-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={folder / 'known'}")
    words = ("ssh", "-n", "-F", "none", "-p", str(port), *key, *free, *options)
    return subprocess.run(
        [*words, "alice@127.0.0.1", command], capture_output=True, text=True, timeout=300
    )


@pytest.mark.skipif(not MIRROR, reason="CORRAL_TEST_INSTALLER names no mirror")
def test_debians_installer_makes_the_machine_of_the_file(tmp_path: Path) -> None:
    port = free_port()
    with installing(tmp_path, port, MIRROR, **STATIC) as (_, running):
        running.wait(INSTALL_S)  # it reboots, which ends qemu
    running = machine(tmp_path, port)
    try:
        until = time.monotonic() + BOOT_S
        while (first := asked(tmp_path, port, "hostname")).returncode:
            assert time.monotonic() < until, first.stderr
        assert first.stdout.strip() == "node0"
        address = asked(tmp_path, port, "ip -4 -o address show ens3; ip route show default").stdout
        assert "inet 10.0.2.20/24" in address and f"default via {HOST} dev ens3" in address
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
    finally:
        running.kill()
        running.wait()
