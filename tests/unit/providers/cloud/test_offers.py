from __future__ import annotations

import pytest

from corral.errors import Code, CorralError
from corral.providers.cloud.model import Capacity, Offer
from corral.providers.cloud.offer_order import candidates
from corral.spec.sections.cloud import Cloud, Source


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


def places(offers: tuple[Offer, ...]) -> list[str]:
    return [f"{o.provider} {o.region} {o.gpus}" for o in offers]


def test_order_of_the_file_and_what_is_empty_last() -> None:
    cloud = Cloud(type="h100", fallback=(Source(provider="paperspace", type="H100"),))
    offers = candidates("g", "lambda", cloud, SALE)
    assert places(offers) == ["lambda east 1", "paperspace ny2 1", "lambda west 1"]


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
def test_bad_wishes_are_refused_before_any_launch(cloud: Cloud, code: Code, word: str) -> None:
    with pytest.raises(CorralError) as caught:
        candidates("g", "lambda", cloud, SALE)
    assert caught.value.code is code
    assert word in f"{caught.value.hint}"
