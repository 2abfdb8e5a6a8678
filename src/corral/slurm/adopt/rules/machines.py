"""Rules about the machines themselves, which no file shows: their links and their users' keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.slurm.adopt.rule import I, Problem, Rule, W
from corral.slurm.adopt.source import Kind
from corral.slurm.adopt.view import Existing, Row
from corral.spec.slurm.hostlist import fold_in_order

FAST_MBPS: Final = 10_000
"""From here on gradients of small models travel faster than they are computed."""
GOODPUT: Final = 0.9385
"""Share of Ethernet's line rate that TCP leaves: 1460 bytes of data in 1538 on the wire (MTU 1500,
timestamps off; 1448 in 1538 with them)."""
MODELS: Final = (("GPT-2 124M in fp32", 124e6 * 4), ("7B in bf16", 7e9 * 2))


def all_reduce_s(size: float, nodes: int, mbps: int) -> float:
    """Seconds of a ring all-reduce of ``size`` bytes over one link for each of ``nodes``."""
    return 2 * (nodes - 1) / nodes * size / (mbps * 1e6 / 8 * GOODPUT)


def slow_links(existing: Existing) -> Iterator[Problem]:
    """Several nodes with GPUs, and a slow link between them."""
    for row in existing.nodes:
        speeds = {
            m.name: m.link_mbps
            for m in (existing.machines.get(name) for name in row.names)
            if m is not None and m.devices and m.link_mbps
        }
        slowest = min(speeds.values(), default=FAST_MBPS)
        if len(speeds) < 2 or slowest >= FAST_MBPS:  # noqa: PLR2004  # one node sends nothing
            continue
        slow = [name for name, speed in speeds.items() if speed == slowest]
        took = " and ".join(
            f"{all_reduce_s(size, len(speeds), slowest):.1f} s of {name}" for name, size in MODELS
        )
        yield Problem(
            row.first.spot,
            f"{fold_in_order(slow)} has {slowest / 1000:g} Gb/s: in a training job over these "
            f"{len(speeds)} nodes each step waits for its gradients, {took}",
            "run single-node jobs there, or give the nodes 10 Gb/s and more; "
            "corral bench scaling measures whether several nodes pay",
            where=_about(row),
        )


def open_keys(existing: Existing) -> Iterator[Problem]:
    """A private key that its file alone is enough to use."""
    for row in existing.nodes:
        for name in row.names:
            machine = existing.machines.get(name)
            for path in machine.open_keys if machine else ():
                yield Problem(
                    row.first.spot,
                    f"{path} on {name} has no passphrase: who reads the file is its owner wherever "
                    "it opens",
                    f"ssh-keygen -p -f {path} there, and an agent; or a hardware key (ed25519-sk)",
                    where=_about(row),
                )


def _about(row: Row) -> str:
    return f"NodeName={row.first.value}"


RULES: Final[tuple[Rule, ...]] = (
    Rule("slow-link", W, Kind.SLURM, "Nodes with GPUs and less than 10 Gb/s between them.",
         "single-node jobs, or a faster link", slow_links, "", "facts; failures.md S004-18"),
    Rule("key-without-passphrase", I, Kind.SLURM, "A private key on a machine has no passphrase.",
         "a passphrase and an agent", open_keys, "", "facts; failures.md S004-17"),
)  # fmt: skip
