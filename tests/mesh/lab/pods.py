"""Pods of a simulated RunPod as the lab's containers: no init, no TUN, no rights, behind NAT.

Each starts with what RunPod starts a pod with: the arguments and the environment of the call that
created it, and an image whose /start.sh lets PUBLIC_KEY in and runs sshd. Those of one cluster
also have their own network, and its address in NODE_ADDR.
"""

from __future__ import annotations

import json
import shlex
import socket
from dataclasses import dataclass
from typing import Any

from corral.testing.clouds.world import Machine
from tests.mesh.lab.labs import Lab, LabNode, _podman

START = """\
#!/bin/bash
umask 077
mkdir -p /root/.ssh && printf '%s\\n' "$PUBLIC_KEY" >> /root/.ssh/authorized_keys
cp /boot/lab/ca.pem /usr/local/share/ca-certificates/lab.crt && update-ca-certificates >/dev/null
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
rm -f /dev/nvidia*
mkdir -p /run/sshd && chmod 755 /run/sshd
exec /usr/sbin/sshd -D -e
"""


@dataclass(frozen=True)
class Pod(LabNode):
    """One rented pod; ``index`` is beyond those of the lab's own nodes."""

    made: str = ""

    @property
    def name(self) -> str:
        return self.made

    def begin(self, body: dict[str, Any], fabric: str) -> None:
        """Start it as the call that created it asks, with an address in its cluster's network."""
        start = self.lab.folder / "boot" / "start.sh"
        start.write_text(START)
        start.chmod(0o755)
        argv = self._made()[:-3]
        own = {"NODE_ADDR": fabric} if fabric else {}
        for name, value in {**body.get("env", {}), **own}.items():
            argv += ["--env", f"{name}={value}"]
        argv += ["--volume", f"{start}:/start.sh:ro"]
        entry = json.dumps(shlex.split(body["args"]))
        _podman("run", "--detach", *argv, "--entrypoint", entry, self._made()[-1], timeout=180)
        pid = int(_podman("inspect", "--format", "{{.State.Pid}}", self.container) or 0)
        self.lab.networks.plug(self.index, self.home, pid)
        if fabric:
            self.lab.networks.join(self.index, self.home, fabric, pid)


class Pods:
    """What backs the machines of a simulated RunPod (``world.Machines``)."""

    def __init__(self, lab: Lab, home: int) -> None:
        self.lab, self.home = lab, home
        self.pods: dict[str, Pod] = {}

    def start(self, machine: Machine) -> None:
        """Begin to boot it; at once, as a test has a pod or two."""
        index = len(self.lab.nodes) + len(self.pods)
        pod = Pod(self.lab, index, self.home, "pod", machine.id)
        self.pods[machine.id] = pod
        member = machine.more["group"]
        pod.begin(machine.more["body"], f"10.65.0.{machine.more['rank'] + 2}" if member else "")
        machine.address, machine.port = pod.address, 22

    def end(self, machine: Machine) -> None:
        """Remove it."""
        container = self.pods[machine.id].container
        _podman("rm", "--force", "--time", "0", "--ignore", container)

    def ready(self, machine: Machine) -> bool:
        """Whether its sshd answers."""
        try:
            with socket.create_connection((machine.address, 22), 1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False
