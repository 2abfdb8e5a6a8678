"""A machine to log in to: a container with systemd, sshd, sudo and people with passwords."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

from corral import api
from corral.hosts.keysetup import Installed, keys_dir
from corral.hosts.openssh import OpenSSH
from corral.hosts.target import SshTarget
from corral.passwords import Person, accompanied
from corral.providers.containers import machine
from corral.providers.ssh.provider import SshProvider
from corral.spec.models import ClusterSpec

PASSWORD = "s3cret word'\"$x\\n"  # all that quoting can get wrong
NODE = "bare0"
CLUSTER = "reach"

# admin: sudo with a password; free: without; nosudo: none; terminal: sudo wants a terminal.
SETUP = """
set -e
mkdir -p /etc/ssh/sshd_config.d
echo 'PerSourcePenalties no' > /etc/ssh/sshd_config.d/90-test.conf
# Not reloaded: that ends before sshd listens again.
systemctl restart ssh
for u in admin free nosudo terminal; do
  useradd -m -s /bin/bash $u
  printf '%s:%s\\n' $u "$1" | chpasswd
done
cat > /etc/sudoers.d/test <<'END'
admin ALL=(ALL:ALL) ALL
free ALL=(ALL) NOPASSWD:ALL
terminal ALL=(ALL) ALL
Defaults:terminal requiretty
END
"""


@dataclass
class Bare:
    """The machine."""

    name: str
    address: str
    base: tuple[str, ...]

    def root(self, script: str, *args: str, timeout: float = 60) -> str:
        """Run a script in it as root, past ssh."""
        argv = [*self.base, "exec", "-i", self.name, "sh", "-s", "--", *args]
        done = subprocess.run(argv, input=script, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def settle(self) -> None:
        """Wait until it has booted."""
        self.root("until [ -S /run/systemd/private ]; do sleep 0.1; done")
        self.root("systemctl is-system-running --wait || :", timeout=120)

    def reboot(self) -> None:
        """Power off and on at once; the disk stays."""
        for words in (("kill",), ("start",)):
            argv = [*self.base, *words, self.name]
            subprocess.run(argv, check=True, capture_output=True, timeout=120)
        self.settle()
        self._take_address_again()

    def take_address(self, address: str) -> None:
        """Be at this address, of a machine that is gone."""
        self.address = address
        self._take_address_again()

    def _take_address_again(self) -> None:
        """A container that starts again may be given another address; a machine keeps its own."""
        listed = self.root("ip -o -4 addr show scope global")
        if f" {self.address}/" in listed:
            return
        new, device = next(
            (line.split()[3], line.split()[1])
            for line in listed.splitlines()
            if IPv4Address(self.address) in IPv4Interface(line.split()[3]).network
        )
        prefix = new.partition("/")[2]
        self.root(
            'way=$(ip route show default); ip addr del "$2" dev "$3"; ip addr add "$1" dev "$3"; '
            '[ -z "$way" ] || ip route replace $way',
            *(f"{self.address}/{prefix}", new, device),
        )
        subprocess.run(["ip", "neigh", "flush", "to", self.address], check=True)

    def spec(self, user: str, **ssh: object) -> ClusterSpec:
        group = {
            "name": "a",
            "provider": "ssh",
            "nodes": NODE,
            "addresses": self.address,
            "ssh": {"user": user, **ssh},
        }
        return ClusterSpec.model_validate({"corral": "v1", "name": CLUSTER, "groups": [group]})

    def target(self, user: str, **ssh: object) -> SshTarget:
        return SshProvider(self.spec(user, **ssh)).ssh_target(NODE)

    def node(self, user: str, control: Path) -> OpenSSH:
        return OpenSSH(NODE, self.target(user), control)

    def answers(self) -> bool:
        """Whether sshd is there: it sends its banner first."""
        try:
            with socket.create_connection((self.address, 22), 3) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def takes_passwords(self) -> bool:
        """The refusal of a login without credentials lists what sshd takes, once it is up again."""
        argv = ["ssh", "-F", "none", "-o", "PreferredAuthentications=none", "-o", "BatchMode=yes"]
        argv += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        argv += [f"admin@{self.address}", "true"]
        until = time.monotonic() + 120
        while True:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
            # While it restarts nothing listens, or it hangs up before it has sent anything.
            if "Permission denied (" in done.stderr or time.monotonic() > until:
                break
            time.sleep(0.2)
        assert "Permission denied (" in done.stderr, done.stderr
        return "password" in done.stderr


@dataclass
class Somebody:
    """Who can be asked, what was asked, and the notices that were shown."""

    password: str | None

    def __post_init__(self) -> None:
        self.asked: list[str] = []
        self.notices: list[str] = []

    async def _ask(self, words: str) -> str | None:
        self.asked.append(words)
        return self.password

    def person(self) -> Person:
        return Person(self._ask, lambda node, what: self.notices.append(f"{node}: {what}"))


@contextmanager
def own_state() -> Iterator[Path]:
    """A state folder that is not the user's own."""
    before = os.environ.get("CORRAL_STATE_DIR")
    with tempfile.TemporaryDirectory(prefix="cr") as state:
        os.environ["CORRAL_STATE_DIR"] = state
        try:
            yield Path(state)
        finally:
            if before is None:
                del os.environ["CORRAL_STATE_DIR"]
            else:
                os.environ["CORRAL_STATE_DIR"] = before


@contextmanager
def container(hostname: str, *networks: str) -> Iterator[Bare]:
    """A fresh machine, reached at its address in the last of the networks; removed at the end."""
    image = asyncio.run(api.build_image("auto", lambda event: None))
    base = ("podman", *machine.host_runtime())
    name = f"corral-{hostname}-{os.getpid()}"
    argv = [*base, "run", "--detach", "--name", name, "--hostname", hostname, "--systemd=always"]
    argv += ["--privileged", "--pids-limit=-1", *(f"--network={n}" for n in networks)]
    for kind, value in machine.host_limits().items():
        argv += ["--ulimit", f"{kind}={value}:{value}"]
    start = json.dumps(["/bin/sh", "-c", "ssh-keygen -A >/dev/null; exec /sbin/init"])
    try:
        subprocess.run([*argv, "--entrypoint", start, image], check=True, capture_output=True)
        show = [*base, "inspect", "--format", "{{json .NetworkSettings.Networks}}", name]
        inspection = subprocess.run(show, check=True, capture_output=True, text=True)
        attached = json.loads(inspection.stdout)
        address = attached[networks[-1] if networks else "podman"]["IPAddress"]
        host = Bare(name, address, base)
        host.settle()
        host.root(SETUP, PASSWORD)
        yield host
    finally:
        # Killed first, for a stop would wait for it; podman 3.4 (Ubuntu 22.04) knows no rm --time.
        for words in (("kill", name), ("rm", "--force", name)):
            subprocess.run([*base, *words], capture_output=True)


@contextmanager
def bare() -> Iterator[Bare]:
    """A fresh one, and its own state folder; both removed at the end."""
    with own_state(), container("bare") as host:
        yield host


def forget_state() -> None:
    """As on a machine that never saw the other one."""
    for file in keys_dir(CLUSTER).glob("*"):
        file.unlink()


def install(there: Bare, user: str, password: str | None) -> tuple[Installed, Somebody]:
    who = Somebody(password)
    with accompanied(who.person()):
        (done,) = asyncio.run(api.install_keys(there.spec(user)))
    return done, who
