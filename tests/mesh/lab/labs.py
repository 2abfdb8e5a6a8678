"""A lab: a control server, homes behind NAT, and a node or more in each."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from corral.events import ignore
from corral.providers.containers.image import Images
from corral.providers.containers.machine import host_limits, host_runtime
from corral.providers.containers.podman import Podman
from tests.mesh.lab import tools
from tests.mesh.lab.control import Control
from tests.mesh.lab.network import Networks, run

FOLDER = Path("/var/tmp/corral-mesh-labs")
LABEL = "corral.mesh.lab"
IMAGE = "localhost/corral-mesh-node"
PACKAGES = ("rsync", "supervisor", "socat")
Kind = Literal["machine", "pod"]
"""``machine``: its own systemd, TUN and all rights, as a rented virtual machine; ``pod``: sshd and
nothing else, no rights, as a rented container."""


def needs() -> str:
    """Why a lab cannot run here, "" when it can."""
    if os.geteuid() != 0:
        return "the mesh lab needs root"
    programs = ("podman", "ip", "nft", "nsenter", "openssl", "ssh", "ssh-keygen")
    missing = [t for t in programs if not shutil.which(t)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if not Path("/dev/net/tun").exists():
        return "the kernel has no /dev/net/tun"
    return tools.needs()


@dataclass(frozen=True)
class LabNode:
    """One node of a lab."""

    lab: Lab
    index: int
    home: int
    kind: Kind

    @property
    def name(self) -> str:
        return f"node{self.index}"

    @property
    def container(self) -> str:
        return f"corral-mesh-{self.lab.name}-{self.name}"

    @property
    def address(self) -> str:
        """Where Corral logs in."""
        return self.lab.networks.managed(self.index)

    def start(self) -> None:
        """Make or start it, plug it in, wait for sshd."""
        exists = _podman("container", "exists", self.container, check=False)
        if exists is None:
            _podman("run", "--detach", *self._made(), timeout=180)
        else:
            _podman("start", self.container)
        pid = int(_podman("inspect", "--format", "{{.State.Pid}}", self.container) or 0)
        self.lab.networks.plug(self.index, self.home, pid)
        end = time.monotonic() + 120
        while self.ssh("true", check=False) is None:
            assert time.monotonic() < end, f"{self.name} has no sshd"
            time.sleep(0.2)

    def stop(self) -> None:
        """As when the power goes."""
        _podman("kill", self.container)
        _podman("wait", self.container, check=False)

    def root(self, script: str, *, check: bool = True) -> str | None:
        """Run shell in it, past sshd."""
        return _podman("exec", self.container, "/bin/sh", "-c", script, check=check)

    def ssh(self, script: str, *, check: bool = True, timeout: float = 120) -> str | None:
        """Run shell in it by ssh."""
        argv = [
            "ssh",
            "-F",
            "none",
            "-i",
            str(self.lab.key),
            "-o",
            "BatchMode=yes",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "LogLevel=ERROR",
            "-o",
            "ConnectTimeout=2",
            f"root@{self.address}",
            script,
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout)
        if check and done.returncode:
            raise RuntimeError(f"{self.name}: {script}: {done.stdout}{done.stderr}")
        return done.stdout.strip() if done.returncode == 0 else None

    def _made(self) -> list[str]:
        argv = ["--pull=never", "--name", self.container, "--hostname", self.name, "--no-hosts"]
        argv += ["--network", "none", "--label", f"{LABEL}={self.lab.name}"]
        argv += ["--memory", "3g", "--pids-limit=-1"]
        for kind, value in sorted(host_limits().items()):
            argv += ["--ulimit", f"{kind}={value}:{value}"]
        argv += ["--volume", f"{self.lab.folder}/boot:/boot/lab:ro"]
        if self.kind == "machine":
            argv += ["--systemd=always", "--privileged"]
        entry = json.dumps(["/bin/sh", f"/boot/lab/{self.kind}"])
        return [*argv, "--entrypoint", entry, image()]


_KEYS = """\
umask 077
mkdir -p /root/.ssh && cp /boot/lab/key.pub /root/.ssh/authorized_keys
cp /boot/lab/ca.pem /usr/local/share/ca-certificates/lab.crt && update-ca-certificates >/dev/null
k=/etc/ssh/ssh_host_ed25519_key; [ -s $k ] || ssh-keygen -q -t ed25519 -N '' -f $k
rm -f /dev/nvidia*
"""
BOOT = {
    "machine": f"{_KEYS}mkdir -p /dev/net && [ -c /dev/net/tun ] || mknod /dev/net/tun c 10 200\n"
    "exec /sbin/init\n",
    "pod": f"{_KEYS}mkdir -p /run/sshd && chmod 755 /run/sshd\nexec /usr/sbin/sshd -D -e\n",
}


@dataclass(frozen=True)
class Lab:
    """A lab by its name, recorded in its folder, so another process finds it again."""

    name: str

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def key(self) -> Path:
        """The private key that opens its nodes."""
        return self.folder / "key"

    @cached_property
    def networks(self) -> Networks:
        return Networks(int((self.folder / "index").read_text()))

    @cached_property
    def control(self) -> Control:
        return Control(self.folder, self.networks)

    @cached_property
    def nodes(self) -> tuple[LabNode, ...]:
        entries = json.loads((self.folder / "nodes.json").read_text())
        return tuple(LabNode(self, i, home, kind) for i, (home, kind) in enumerate(entries))

    @property
    def homes(self) -> int:
        return max(node.home for node in self.nodes) + 1

    @staticmethod
    def make(name: str, nodes: list[tuple[int, Kind]]) -> Lab:
        """Make and start one: (home, kind) of each node."""
        lab = Lab(name)
        if (lab.folder / "nodes.json").exists():
            return lab
        tools.build()
        image()
        lab.folder.mkdir(parents=True, exist_ok=True)
        lab.folder.chmod(0o700)
        (lab.folder / "index").write_text(str(_free()))
        (lab.folder / "nodes.json").write_text(json.dumps(nodes))
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(lab.key))
        lab.networks.make(lab.homes)
        lab.control.start()
        boot = lab.folder / "boot"
        boot.mkdir()
        for kind, text in BOOT.items():
            (boot / kind).write_text(text)
        shutil.copy(lab.key.with_suffix(".pub"), boot / "key.pub")
        shutil.copy(lab.control.authority, boot / "ca.pem")
        for node in lab.nodes:
            node.start()
        return lab

    def remove(self) -> None:
        """All of it; what is gone already is not an error."""
        for node in self.nodes:
            _podman("rm", "--force", "--time", "0", "--ignore", node.container, check=False)
        self.control.stop()
        self.networks.remove(self.homes)
        shutil.rmtree(self.folder, ignore_errors=True)

    def left(self) -> list[str]:
        """What is still there."""
        containers = _podman(
            "ps", "--all", "--filter", f"label={LABEL}={self.name}", "--format", "{{.Names}}"
        )
        return [*(containers or "").split(), *([str(self.folder)] if self.folder.exists() else [])]


def lab_names() -> list[str]:
    """Names of the labs that exist."""
    return sorted(p.parent.name for p in FOLDER.glob("*/nodes.json"))


def _free() -> int:
    taken = {int(p.read_text()) for p in FOLDER.glob("*/index")}
    return next(i for i in range(1, 250) if i not in taken and not Networks(i).left())


def image() -> str:
    """The node image with what a rented machine has or gets; made once."""
    base = asyncio.run(Images(Podman(host_runtime())).ensure("auto", ignore))
    reference = f"{IMAGE}:{base.rpartition(':')[2]}"
    if _podman("image", "exists", reference, check=False) is not None:
        return reference
    limits = [w for k, v in sorted(host_limits().items()) for w in ("--ulimit", f"{k}={v}:{v}")]
    name = f"corral-mesh-image-{os.getpid()}"
    install = (
        "export DEBIAN_FRONTEND=noninteractive; apt-get update -q && "
        f"apt-get install -qy --no-install-recommends {' '.join(PACKAGES)}"
    )
    shell = ("--entrypoint", "/bin/sh", base, "-c", install)
    try:
        _podman("run", "--name", name, "--network", "host", *limits, *shell, timeout=600)
        _podman("commit", "--quiet", "--change", "ENTRYPOINT []", name, reference, timeout=300)
    finally:
        _podman("rm", "--force", "--ignore", name, check=False)
    return reference


def _podman(*words: str, check: bool = True, timeout: float = 60) -> str | None:
    argv = ["podman", *host_runtime(), *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        if check:
            raise RuntimeError(f"podman {' '.join(words)[:300]}: {done.stderr.strip()[-2000:]}")
        return None
    return done.stdout.strip()
