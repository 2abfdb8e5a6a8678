"""The ledger of rented machines: what was about to be launched, what was, and what has ended.

Append-only, one JSON line each, written through to the disk before the call it announces. It stays
when the cluster goes: it is what `corral cost` counts, and where `corral reap` finds instances
that show no label (members of machines rented as one). It never holds a secret.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from corral.providers.cloud.model import Instance, Label, Offer
from corral.state_dir import state_dir

INTENT: Final = "intent"
LAUNCHED: Final = "launched"
REFUSED: Final = "refused"
ENDED: Final = "ended"


@dataclass(frozen=True, slots=True)
class Rental:
    """One launch from its intent to its end.

    Attributes:
        provider, node, nonce, type, region: what was to be launched.
        price: dollars an hour; None when the cloud never reported one.
        intent: when it was announced, Unix seconds.
        id: the cloud's id, "" while none is known.
        ended: when its end was seen, None while it may run.
        refused: the cloud refused it: it never was.
        gpus: GPUs of it; None where a cloud's list showed the machine without them.
    """

    provider: str
    node: str
    nonce: str
    type: str
    region: str
    price: float | None
    intent: float
    id: str = ""
    ended: float | None = None
    refused: bool = False
    gpus: int | None = None

    @property
    def open(self) -> bool:
        """True while it may exist and cost money."""
        return not self.refused and self.ended is None

    def cost(self, now: float) -> float:
        """Dollars until ``now``, counted from the intent: never less than the cloud's bill."""
        if self.refused or self.price is None:
            return 0.0
        return max(0.0, (self.ended or now) - self.intent) / 3600 * self.price


class Ledger:
    """The ledger of one cluster.

    Args:
        cluster: its name.
        folder: where ledgers are; None: below the state folder.
        now: the clock.
    """

    def __init__(
        self, cluster: str, folder: Path | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self.path = (folder or state_dir() / "clouds") / f"{cluster}.jsonl"
        self.now = now

    def intent(self, label: Label, offer: Offer) -> None:
        """Announce a launch; on the disk when this returns."""
        self._write(
            INTENT,
            label.nonce,
            provider=offer.provider,
            node=label.node,
            type=offer.type,
            region=offer.region,
            price=offer.price,
            gpus=offer.gpus,
        )

    def launched(self, nonce: str, identity: str) -> None:
        """The cloud gave an id."""
        self._write(LAUNCHED, nonce, id=identity)

    def refused(self, nonce: str, why: str) -> None:
        """The cloud refused for certain."""
        self._write(REFUSED, nonce, why=why)

    def ended(self, nonce: str) -> None:
        """The cloud no longer lists the machine."""
        self._write(ENDED, nonce)

    def adopt(self, instance: Instance) -> None:
        """Note an instance that carries the label: one the ledger forgot, or its id or price.

        One whose end was noted too soon, as a stale list did not show it, is open again.
        """
        if instance.label is None:
            return
        known = self.rentals().get(instance.label.nonce)
        if known is None:
            self._write(
                INTENT,
                instance.label.nonce,
                provider=instance.provider,
                node=instance.label.node,
                type=instance.type,
                region=instance.region,
                price=instance.price,
                at=instance.created,
            )
        if known is None or known.id != instance.id or known.ended is not None:
            self.launched(instance.label.nonce, instance.id)
        elif instance.price is not None and known.price != instance.price:
            self._write("price", instance.label.nonce, price=instance.price)

    def rentals(self) -> dict[str, Rental]:
        """Every launch that was announced, by nonce, oldest first."""
        return read(self._lines())

    def _lines(self) -> list[str]:
        try:
            return self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def _write(self, kind: str, nonce: str, at: float | None = None, **fields: Any) -> None:
        line = {"at": round(at or self.now(), 3), "kind": kind, "nonce": nonce, **fields}
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # A line that a crash cut off must not swallow the next one.
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            os.write(handle, f"{chr(10) if torn else ''}{json.dumps(line)}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)


def read(lines: Iterable[str]) -> dict[str, Rental]:
    """Rentals from a ledger's lines; lines that are cut off or make no sense are left out."""
    rentals: dict[str, Rental] = {}
    for line in lines:
        try:
            record = json.loads(line)
            nonce, kind = str(record["nonce"]), record["kind"]
            if kind == INTENT and nonce not in rentals:
                rentals[nonce] = Rental(
                    str(record["provider"]),
                    str(record["node"]),
                    nonce,
                    str(record["type"]),
                    str(record["region"]),
                    None if record["price"] is None else float(record["price"]),
                    float(record["at"]),
                    gpus=int(record["gpus"]) if "gpus" in record else None,
                )
            elif nonce in rentals:
                rentals[nonce] = _after(rentals[nonce], kind, record)
        except (ValueError, KeyError, TypeError):
            continue
    return rentals


def _after(rental: Rental, kind: str, record: dict[str, Any]) -> Rental:
    if kind == LAUNCHED:
        return replace(rental, id=str(record["id"]), refused=False, ended=None)
    if kind == REFUSED:
        return replace(rental, refused=True)
    if kind == ENDED and rental.ended is None:
        return replace(rental, ended=float(record["at"]))
    if kind == "price":
        return replace(rental, price=float(record["price"]))
    return rental


def as_dict(rental: Rental) -> dict[str, Any]:
    return asdict(rental)
