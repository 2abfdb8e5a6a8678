from __future__ import annotations

import pytest

from corral.errors import CorralError
from corral.providers.cloud.budget import Spend, require_within, spend
from corral.providers.cloud.ledger import Rental
from corral.spec.sections.cloud import Budget


def rental(price: float | None, hours: float, *, ended: bool = False) -> Rental:
    end = 3600.0 * hours if ended else None
    return Rental("lambda", "gpu0", f"{price}", "h100", "west", price, 0.0, "i", end)


def test_spend_counts_what_runs_and_what_ran() -> None:
    spent = spend([rental(2.0, 3, ended=True), rental(1.0, 0), rental(None, 0)], 3600.0)
    assert spent == Spend(1.0, 7.0, 1, 1)
    gone = spend([rental(None, 1, ended=True), rental(2.0, 0)], 3600.0)
    assert (gone.rate(), gone.spent()) == ("2.00", "at least 2.00")


@pytest.mark.parametrize(
    ("budget", "now", "added", "word"),
    [
        (Budget(per_hour=5), Spend(3, 0), [2.0], ""),
        (Budget(per_hour=5), Spend(3, 0), [2.01], "5.01"),
        (Budget(per_hour=5), Spend(0, 0), [None], "not known"),
        (Budget(per_hour=5), Spend(0, 0, 1), [1.0], "1 rented machine is not known"),
        (Budget(total=10), Spend(0, 0, 1), [], ""),
        # The end of it all is within the budget: 10 minutes of grace, two polls, ending them.
        (Budget(total=10), Spend(0, 9.0), [4.9], ""),
        (Budget(total=10), Spend(0, 9.0), [5.0], "1.00 $ would be needed"),
        (Budget(total=10), Spend(3.0, 9.0), [3.0], "9.00 $ are spent"),
        (Budget(total=10, guard="5m"), Spend(0, 9.0), [2.9], ""),
        (Budget(total=10, guard="5m"), Spend(0, 9.0), [3.0], "1.00 $ would be needed"),
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
