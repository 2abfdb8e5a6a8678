"""What is known of one machine, in the words the rules compare with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine's own facts. 0, "" and empty mean: not known.

    Attributes:
        name: the node name it was given under.
        hostname: what it calls itself.
        cpus: hardware threads.
        sockets: sockets.
        cores: cores of each socket.
        threads: threads of each core.
        memory_mib: memory in MiB as ``slurmd -C`` reports it.
        devices: GPU device files.
        gpu_names: the GPUs' names as nvidia-smi gives them.
        addresses: its IPv4 addresses without prefix length.
        uids: user name to numeric id.
        slurm: version of Slurm on it.
        plugins: file names of Slurm's plugins on it.
        link_mbps: speed of the interface that has its first address.
        open_keys: paths of the login user's private SSH keys that have no passphrase.
    """

    name: str
    hostname: str = ""
    cpus: int = 0
    sockets: int = 0
    cores: int = 0
    threads: int = 0
    memory_mib: int = 0
    devices: tuple[str, ...] = ()
    gpu_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    uids: Mapping[str, int] = field(default_factory=dict[str, int])
    slurm: str = ""
    plugins: frozenset[str] = frozenset()
    link_mbps: int = 0
    open_keys: tuple[str, ...] = ()
