"""RunPod's errors, as its document and its answers have them."""

from __future__ import annotations

from typing import Any, Final

from corral.providers.cloud.errors import Reason, Row

ROWS: Final = (
    Row(400, "instances available", Reason.CAPACITY, "no capacity for this GPU now",
        "name more types or data centers, or wait"),
    Row(400, "no longer any", Reason.CAPACITY, "no capacity for this GPU now",
        "name more types or data centers, or wait"),
    Row(400, "apacity", Reason.CAPACITY, "no capacity for this GPU now",
        "name more types or data centers, or wait"),
    Row(402, "", Reason.MONEY, "the account has no balance left", "add credit on its billing page"),
    Row(403, "", Reason.FORBIDDEN, "the API key may not do this",
        "give the key the right to read and write pods, or make another"),
    Row(409, "", Reason.BUSY, "not possible in its current state, or it is a member of a cluster",
        "wait until it has settled; a cluster's pods end with their cluster"),
)  # fmt: skip


def words_of(data: Any) -> tuple[str, str]:
    """The cloud's own code and text from the JSON of an error."""
    more = "; ".join(str(error) for error in data.get("errors", ()))
    return str(data["title"]), f"{data['detail']} {more}".strip()
