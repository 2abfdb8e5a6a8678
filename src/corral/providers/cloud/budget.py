"""What rented machines cost, and the budget that no launch may exceed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from corral.errors import Code, CorralError
from corral.providers.cloud.ledger import Rental
from corral.spec.cloud import Budget


@dataclass(frozen=True, slots=True)
class Spend:
    """What a cluster costs and has cost, in dollars.

    Attributes:
        per_hour: of all that may run now.
        total: since the first launch.
        unpriced: instances whose price nobody knows.
    """

    per_hour: float
    total: float
    unpriced: int = 0


def spend(rentals: Iterable[Rental], now: float) -> Spend:
    """What the rentals cost now and have cost so far."""
    every = list(rentals)
    running = [r for r in every if r.open]
    return Spend(
        sum(r.price or 0.0 for r in running),
        sum(r.cost(now) for r in every),
        sum(r.price is None for r in running),
    )


def require_within(
    budget: Budget | None, now: Spend, added: Sequence[float | None], what: str
) -> None:
    """Check that launching more stays within the budget; a price nobody knows does not.

    Args:
        budget: the cluster's.
        now: what it costs and has cost.
        added: dollars an hour of each instance to launch.
        what: what is to be launched, for the message.

    Raises:
        CorralError: NOT_GOOD.
    """
    if budget is None:
        return
    if any(price is None for price in added):
        raise CorralError(
            Code.NOT_GOOD,
            f"the price of {what} is not known, and the cluster has a budget",
            hint="take an offer with a price (corral offers), or remove the budget",
        )
    rate = now.per_hour + sum(price or 0.0 for price in added)
    if budget.per_hour is not None and rate > budget.per_hour + 1e-9:
        raise CorralError(
            Code.NOT_GOOD,
            f"{what} would cost {rate:.2f} $/h together with what runs; the budget is "
            f"{budget.per_hour:.2f} $/h",
            hint="fewer nodes, a cheaper type, or a larger budget.per_hour; nothing was launched",
        )
    if budget.total is not None and added and now.total >= budget.total:
        raise CorralError(
            Code.NOT_GOOD,
            f"{now.total:.2f} $ are spent; the budget is {budget.total:.2f} $ in all",
            hint="raise budget.total to go on; what was spent on what: corral cost",
        )
