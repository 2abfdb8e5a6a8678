"""What a provider knows about a machine that the machine itself cannot report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Traits:
    """What roles must know about a node that it cannot read off itself.

    Attributes:
        memory_mib: memory the node may use when /proc/meminfo shows another amount, else 0.
        gpu_devices: GPU device files the provider makes, empty when they are the machine's own.
        shared: folders that the provider shares over all nodes.
        own_clock: False when the clock is another machine's (containers): no chrony there.
    """

    memory_mib: int = 0
    gpu_devices: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    own_clock: bool = True
