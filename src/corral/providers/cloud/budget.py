"""What rented machines cost, and the budget that no launch may exceed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from corral.errors import Code, CorralError
from corral.providers.cloud.ledger import Rental
from corral.spec.sections.cloud import Budget


@dataclass(frozen=True, slots=True)
class Spend:
    """What a cluster costs and has cost, in dollars.

    Attributes:
        per_hour: of all that may run now, as far as prices are known.
        total: since the first launch, likewise.
        unpriced: instances that may run now whose price is unknown.
        unpriced_ever: those of all since the first launch.
    """

    per_hour: float
    total: float
    unpriced: int = 0
    unpriced_ever: int = 0

    def rate(self) -> str:
        """Dollars an hour in words."""
        return amount(self.per_hour, exact=not self.unpriced)

    def spent(self) -> str:
        """Dollars so far in words."""
        return amount(self.total, exact=not self.unpriced_ever)


def amount(dollars: float, *, exact: bool) -> str:
    """``5.00``; ``at least 5.00`` where a part is unknown; ``?`` where all of it is."""
    if exact:
        return f"{dollars:.2f}"
    return f"at least {dollars:.2f}" if dollars else "?"


def spend(rentals: Iterable[Rental], now: float) -> Spend:
    """What the rentals cost now and have cost so far."""
    every = list(rentals)
    running = [r for r in every if r.open]
    return Spend(
        sum(r.price or 0.0 for r in running),
        sum(r.cost(now) for r in every),
        sum(r.price is None for r in running),
        sum(r.price is None and not r.refused for r in every),
    )


def reserved(budget: Budget, per_hour: float) -> float:
    """Dollars of ``budget.total`` that the end of what runs may cost: it begins that much before.

    Args:
        budget: the cluster's.
        per_hour: what runs, in dollars an hour.
    """
    return per_hour * budget.ending_s / 3600


def require_within(
    budget: Budget | None, now: Spend, added: Sequence[float | None], what: str
) -> None:
    """Check that launching more stays within the budget; an unknown price does not.

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
    if added and now.unpriced:
        raise CorralError(
            Code.NOT_GOOD,
            f"the price of {now.unpriced} rented machine{'s' * (now.unpriced > 1)} is not known, "
            "and the cluster has a budget: nothing more is launched",
            hint="which ones: corral cost; end them (corral down or corral reap), or remove the "
            "budget",
        )
    rate = now.per_hour + sum(price or 0.0 for price in added)
    if budget.per_hour is not None and rate > budget.per_hour + 1e-9:
        raise CorralError(
            Code.NOT_GOOD,
            f"{what} would cost {rate:.2f} $/h together with what runs; the budget is "
            f"{budget.per_hour:.2f} $/h",
            hint="fewer nodes, a cheaper type, or a larger budget.per_hour; nothing was launched",
        )
    if budget.total is not None and added and now.total + reserved(budget, rate) >= budget.total:
        raise CorralError(
            Code.NOT_GOOD,
            f"{now.total:.2f} $ are spent, and {reserved(budget, rate):.2f} $ would be needed for "
            f"the time in which jobs save; the budget is {budget.total:.2f} $ in all",
            hint="raise budget.total to go on; what was spent on what: corral cost",
        )
