"""Paperspace's errors, as its types and its answers have them."""

from __future__ import annotations

from typing import Any, Final

from corral.providers.cloud.errors import Reason, Row

ROWS: Final = (
    Row(0, "OUT_OF_CAPACITY", Reason.CAPACITY, "no capacity for this type in this region now",
        "name more regions or types, or wait"),
    Row(0, "apacity", Reason.CAPACITY, "no capacity for this type in this region now",
        "name more regions or types, or wait"),
    Row(0, "currently starting", Reason.BUSY, "the machine is starting", "wait a minute"),
    Row(0, "QUOTA", Reason.QUOTA, "the team's limit of machines is reached",
        "delete machines that are not needed (corral reap), or ask for more"),
    Row(0, "limit", Reason.QUOTA, "the team's limit of machines is reached",
        "delete machines that are not needed (corral reap), or ask for more"),
    Row(0, "PAYMENT", Reason.MONEY, "the team has no valid payment method",
        "add one on its billing page"),
)  # fmt: skip


def words_of(data: Any) -> tuple[str, str]:
    """The cloud's own code and text from the JSON of an error."""
    return str(data["code"]), str(data["message"])
