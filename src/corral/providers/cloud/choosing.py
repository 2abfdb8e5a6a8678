"""Which offers fit a group, in which order they are tried, and what they cost. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corral.errors import Code, CorralError
from corral.providers.cloud.ledger import Rental
from corral.providers.cloud.model import Capacity, Offer
from corral.spec.cloud import Budget, Cloud, Source

_LIKELY: Final = {
    Capacity.HIGH: 0,
    Capacity.SOME: 1,
    Capacity.UNKNOWN: 1,
    Capacity.LOW: 2,
    Capacity.NONE: 3,
}


def sources(provider: str, cloud: Cloud) -> tuple[Source, ...]:
    """The group's own source, then those to fall back on."""
    own = Source(
        provider=provider,  # pyright: ignore[reportArgumentType]
        type=cloud.type,
        regions=cloud.regions,
        count=cloud.count,
    )
    return (own, *cloud.fallback)


def candidates(
    group: str, provider: str, cloud: Cloud, offers: Mapping[str, Sequence[Offer]]
) -> tuple[Offer, ...]:
    """The offers that a group takes, in the order in which they are tried.

    Order of the file, or of price; inside of it, where capacity is likelier comes first. Offers
    without capacity stay, last of all: the list of capacity is an advice, and wrong now and then.
    Clouds that are not in ``offers`` could not be asked, and are passed over.

    Raises:
        CorralError: NOT_FOUND, a type or region is not on sale, with near ones named; NOT_GOOD,
            none is cheap enough.
    """
    found: list[tuple[int, Offer]] = []
    for place, source in enumerate(sources(provider, cloud)):
        if source.provider in offers:
            found += [(place, o) for o in _fitting(group, source, offers[source.provider])]
    most = cloud.price_at_most
    cheap = [(p, o) for p, o in found if most is None or o.price is None or o.price <= most]
    if not cheap:
        least = min((o.price for _, o in found if o.price is not None), default=0.0)
        raise CorralError(
            Code.NOT_GOOD,
            f"group {group}: nothing costs {most:.2f} $/h or less",
            hint=f"the cheapest is {least:.2f} $/h: raise price_at_most, or name another type",
        )
    by_price = cloud.prefer == "price"

    def order(entry: tuple[int, Offer]) -> tuple[float, ...]:
        place, offer = entry
        first = (offer.price if offer.price is not None else 1e9) if by_price else float(place)
        return (float(offer.capacity is Capacity.NONE), first, _LIKELY[offer.capacity])

    return tuple(offer for _, offer in sorted(cheap, key=order))


def _fitting(group: str, source: Source, on_sale: Sequence[Offer]) -> list[Offer]:
    named = [o for o in on_sale if o.type == source.type]
    if not named:
        raise _unknown(group, "type", source.type, source.provider, {o.type for o in on_sale})
    named = [o for o in named if o.gpus == source.count] if source.count else named
    if source.count is None:
        least = min(o.gpus for o in named)
        named = [o for o in named if o.gpus == least]
    if not named:
        message = f"group {group}: {source.provider} has no {source.type} with {source.count} GPUs"
        raise CorralError(Code.NOT_FOUND, message, hint="see: corral offers")
    regions = {o.region for o in named}
    for region in source.regions:
        if region not in regions:
            raise _unknown(group, "region", region, source.provider, regions)
    wanted = source.regions or tuple(dict.fromkeys(o.region for o in named))
    return [o for region in wanted for o in named if o.region == region]


def _unknown(group: str, what: str, word: str, provider: str, known: Iterable[str]) -> CorralError:
    names = sorted(name for name in known if name)
    near = difflib.get_close_matches(word, names, 4, 0.4) or names[:6]
    return CorralError(
        Code.NOT_FOUND,
        f"group {group}: {provider} has no {what} {word}",
        hint=f"did you mean {', '.join(near)}? all of them: corral offers -p {provider}"
        if near
        else "see: corral offers",
    )


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
