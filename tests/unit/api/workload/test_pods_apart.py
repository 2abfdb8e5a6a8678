"""A job over single pods is refused with the reason and what the alternative costs now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from corral.api.rental import clouds
from corral.api.rental.clouds import Sale
from corral.api.workload import batch
from corral.errors import Code, CorralError
from corral.jobs.model import JobSpec
from corral.providers.cloud.model import Capacity, Offer
from tests.unit.jobs.test_limits import rented

TYPE = "NVIDIA H100 80GB HBM3"


def offer(price: float | None, *, gpus: int = 2, name: str = TYPE) -> Offer:
    return Offer("runpod", name, "EU", "H100", gpus, 0, 0, price, Capacity.HIGH)


def refusal(monkeypatch: pytest.MonkeyPatch, sales: dict[bool, list[Offer]] | None) -> CorralError:
    async def offers(
        providers: Iterable[str], *, cluster: str = "", together: bool = False
    ) -> Sale:
        assert [*providers] == ["runpod"]
        if sales is None:
            raise CorralError(Code.NOT_FOUND, "no key")
        return Sale(tuple(sales[together]), (), {}, {})

    monkeypatch.setattr(clouds, "offers", offers)
    with pytest.raises(CorralError) as caught:
        asyncio.run(batch.submit(rented(), JobSpec(script="train.py", nodes=2)))
    assert caught.value.code is Code.USAGE
    return caught.value


def test_the_price_of_both_is_in_the_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    single = [offer(4.0), offer(9.0, gpus=4), offer(1.0, name="other")]
    error = refusal(monkeypatch, {True: [offer(5.0), offer(4.5)], False: single})
    assert "each pod of group pods runs jobs of one node" in error.message
    assert "(2 of them so cost 9.00 $/h now, 2 single ones 8.00)" in error.hint


@pytest.mark.parametrize("sales", [None, {True: [], False: [offer(4.0)]}, {True: [offer(None)]}])
def test_no_price_is_invented(
    monkeypatch: pytest.MonkeyPatch, sales: dict[bool, list[Offer]] | None
) -> None:
    error = refusal(monkeypatch, sales)
    assert "cluster: true" in error.hint
    assert "$/h" not in error.hint
