from __future__ import annotations

import pytest

from corral.errors import Code, CorralError
from corral.providers.cloud.choosing import Spend, candidates, require_within, spend
from corral.providers.cloud.ledger import Rental
from corral.providers.cloud.model import Capacity, Offer
from corral.spec.cloud import Budget, Cloud, Source


def offer(  # noqa: PLR0917 - a table's row
    provider: str, kind: str, region: str, price: float | None, capacity: Capacity, gpus: int = 1
) -> Offer:
    return Offer(provider, kind, region, "H100", gpus, 26, 200 << 10, price, capacity)


SALE = {
    "lambda": (
        offer("lambda", "h100", "west", 2.49, Capacity.NONE),
        offer("lambda", "h100", "east", 2.49, Capacity.SOME),
        offer("lambda", "a10", "west", 0.75, Capacity.SOME),
    ),
    "paperspace": (offer("paperspace", "H100", "ny2", 1.95, Capacity.UNKNOWN),),
    "runpod": tuple(offer("runpod", "H100", "KS", 2.99 * n, Capacity.HIGH, n) for n in (1, 2, 8)),
}


def places(found: tuple[Offer, ...]) -> list[str]:
    return [f"{o.provider} {o.region} {o.gpus}" for o in found]


def test_order_of_the_file_and_what_is_empty_last() -> None:
    cloud = Cloud(type="h100", fallback=(Source(provider="paperspace", type="H100"),))
    found = candidates("g", "lambda", cloud, SALE)
    assert places(found) == ["lambda east 1", "paperspace ny2 1", "lambda west 1"]


def test_cheapest_first() -> None:
    other = (Source(provider="paperspace", type="H100"),)
    cloud = Cloud(type="h100", fallback=other, prefer="price")
    assert places(candidates("g", "lambda", cloud, SALE))[0] == "paperspace ny2 1"


def test_count_of_gpus() -> None:
    assert places(candidates("g", "runpod", Cloud(type="H100"), SALE)) == ["runpod KS 1"]
    assert places(candidates("g", "runpod", Cloud(type="H100", count=8), SALE)) == ["runpod KS 8"]


@pytest.mark.parametrize(
    ("cloud", "code", "word"),
    [
        (Cloud(type="h10"), Code.NOT_FOUND, "did you mean h100"),
        (Cloud(type="h100", regions=("esat",)), Code.NOT_FOUND, "did you mean west, east"),
        (Cloud(type="h100", price_at_most=1.0), Code.NOT_GOOD, "2.49"),
        (Cloud(type="h100", count=4), Code.NOT_FOUND, "corral offers"),
    ],
)
def test_bad_wishes_are_said_before_any_launch(cloud: Cloud, code: Code, word: str) -> None:
    with pytest.raises(CorralError) as caught:
        candidates("g", "lambda", cloud, SALE)
    assert caught.value.code is code
    assert word in f"{caught.value.hint}"


def rental(price: float | None, hours: float, *, ended: bool = False) -> Rental:
    end = 3600.0 * hours if ended else None
    return Rental("lambda", "gpu0", f"{price}", "h100", "west", price, 0.0, "i", end)


def test_spend_counts_what_runs_and_what_ran() -> None:
    found = spend([rental(2.0, 3, ended=True), rental(1.0, 0), rental(None, 0)], 3600.0)
    assert found == Spend(1.0, 7.0, 1)


@pytest.mark.parametrize(
    ("budget", "now", "added", "word"),
    [
        (Budget(per_hour=5), Spend(3, 0), [2.0], ""),
        (Budget(per_hour=5), Spend(3, 0), [2.01], "5.01"),
        (Budget(per_hour=5), Spend(0, 0), [None], "not known"),
        (Budget(total=10), Spend(0, 9.9), [99.0], ""),
        (Budget(total=10), Spend(0, 10.0), [1.0], "10.00"),
        (Budget(total=10), Spend(1, 11.0), [], ""),
        (None, Spend(0, 1e9), [None], ""),
    ],
)
def test_budget(budget: Budget | None, now: Spend, added: list[float | None], word: str) -> None:
    if not word:
        require_within(budget, now, added, "it")
        return
    with pytest.raises(CorralError) as caught:
        require_within(budget, now, added, "it")
    assert word in caught.value.message
