"""What one node is as a container: command line and scripts around its init. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, filled, sh
from corral.inspect.nvidia import HostGpu
from corral.providers.containers import layout
from corral.providers.containers.gpus import host_gpus

HOST_KEY: Final = "/etc/ssh/ssh_host_ed25519_key"
NVIDIA_MAJOR: Final = 195
SHM_PART: Final = 2


@dataclass(frozen=True, slots=True)
class Container:
    """All that makes one node.

    Attributes:
        cluster: name of the cluster.
        node: name of the node; its host name.
        address: its address in the cluster's network.
        image: image reference.
        memory_mib: its memory limit.
        stand_ins: GPU device files to make.
        own: GPUs of this machine that it has; then there are no stand-ins.
        driver: how it reaches them.
        mounts: shared folders.
        made_from: digest of what was declared.
        limits: ulimits by podman's names.
    """

    cluster: str
    node: str
    address: str
    image: str
    memory_mib: int
    stand_ins: int
    own: tuple[HostGpu, ...]
    driver: host_gpus.HostGpus
    mounts: tuple[str, ...]
    made_from: str
    limits: Mapping[str, int]

    @property
    def name(self) -> str:
        """The container's name."""
        return layout.container(self.cluster, self.node)

    def run(self) -> list[str]:
        """Arguments of ``podman`` that create and start it.

        ``--no-hosts``: /etc/hosts is then the image's own ordinary file, not a bind mount that
        cannot be renamed over, and the node's own name does not appear on 127.x.
        ``--mac-address``: a new one at each start would leave the old one in the ARP caches of
        this machine and of the other nodes for up to a minute (seen: 37 s without an answer).
        ``--pids-limit``: podman's default of 2048 is too few for a node.
        """
        labels = {
            layout.CLUSTER: self.cluster,
            layout.NODE: self.node,
            layout.SPEC: self.made_from,
            layout.ADDRESS: self.address,
            layout.MEMORY: str(self.memory_mib),
        }
        if self.own:
            labels[layout.GPUS] = host_gpus.label(self.own)
        argv = ["run", "--detach", "--pull=never", "--name", self.name, "--hostname", self.node]
        argv += ["--network", layout.network(self.cluster), "--no-hosts"]
        argv += ["--ip", self.address, "--mac-address", layout.mac(self.address)]
        argv += ["--systemd=always", "--privileged", "--pids-limit=-1"]
        argv += ["--memory", f"{self.memory_mib}m", "--shm-size", f"{self.memory_mib // SHM_PART}m"]
        argv += ["--log-driver=k8s-file", "--log-opt=max-size=1mb"]
        for kind, value in sorted(self.limits.items()):
            argv += ["--ulimit", f"{kind}={value}:{value}"]
        argv += layout.labels(labels)
        for mount in self.mounts:
            argv += ["--volume", f"{layout.volume(self.cluster, mount)}:{mount}"]
        if self.own:
            argv += self.driver.options(self.own)
        start = entry(host_gpus.entry(self.own) if self.own else stand_ins(self.stand_ins))
        argv += ["--entrypoint", json.dumps(["/bin/sh", "-c", start]), self.image]
        return argv


def devices(count: int) -> tuple[str, ...]:
    """Device files of stand-ins."""
    return tuple(f"/dev/nvidia{i}" for i in range(count))


def stand_ins(count: int) -> Script:
    """Device files in place of GPUs, so that a node rehearses the same everywhere."""
    script = filled("containers/stand-ins.sh", count=count, major=NVIDIA_MAJOR)
    return sh("{script}\n", script=script)


def entry(gpus: Script) -> Script:
    """What runs before init at every start: GPUs and, at the first one, the host key."""
    return sh("{gpus}{host_key}", gpus=gpus, host_key=filled("containers/entry.sh", key=HOST_KEY))


def enrol(node: str, mounts: Sequence[str]) -> Script:
    """Let the public key on stdin in, and print the node's own host key."""
    return filled("containers/enrol.sh", node=node, mounts=list(mounts), key=HOST_KEY)
