"""Use case: the cheapest cluster on sale that trains a model in time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from corral.api.rental.clouds import offers
from corral.errors import BAD_JSON, Code, CorralError, cannot_read
from corral.prove.advice.choice import Advice, excerpt
from corral.prove.advice.choice import advise as judge
from corral.prove.advice.run_file import read_training
from corral.providers.cloud.model import Offer
from corral.spec.providers import CLOUDS, RENTALS


@dataclass(frozen=True, slots=True)
class Advised:
    """An advice, and clouds that did not answer.

    Attributes:
        advice: what is on sale, judged.
        silent: by cloud, why it was not asked or did not answer.
    """

    advice: Advice
    silent: dict[str, CorralError] = field(default_factory=dict[str, CorralError])

    @property
    def excerpt(self) -> str:
        """The part of a cluster file that rents the cheapest; "" where nothing will do."""
        best = self.advice.best
        return excerpt(best) if best else ""

    def as_dict(self) -> dict[str, Any]:
        """Options, notes, the excerpt, and clouds that did not answer."""
        return {
            "options": [option.as_dict() for option in self.advice.options],
            "notes": list(self.advice.notes),
            "excerpt": self.excerpt,
            "silent": {name: error.as_dict() for name, error in self.silent.items()},
        }


async def advise(path: Path, saved: Sequence[Path] = (), *, cluster: str = "") -> Advised:
    """Find the cheapest cluster on sale that trains a model in time.

    Args:
        path: the file of the training run.
        saved: outputs of ``corral offers --json``; none: the clouds are asked.
        cluster: ask the simulated clouds of this rehearsed cluster.

    Raises:
        SpecInvalidError: the file has errors.
        CorralError: NOT_FOUND, a saved output cannot be read; PARSE_FAILED, it is not one; none of
            the clouds can be asked.
    """
    file, work = read_training(path)
    if saved:
        return Advised(judge(file, work, [offer for each in saved for offer in _saved(each)]))
    single = await offers(file.providers, everything=True, cluster=cluster)
    on_sale, silent = [(offer, False) for offer in single.offers], dict(single.silent)
    for name in single.traits:
        if RENTALS[name].clusters:
            try:
                clusters = await offers([name], everything=True, cluster=cluster, together=True)
            except CorralError as error:
                silent[name] = error
            else:
                on_sale += [(offer, True) for offer in clusters.offers]
    return Advised(judge(file, work, on_sale), silent)


def _saved(path: Path) -> list[tuple[Offer, bool]]:
    """Offers of an output of ``corral offers --json``, and whether they come as one cluster."""
    try:
        sale: Any = json.loads(path.read_bytes())
        listed = TypeAdapter(tuple[Offer, ...]).validate_python(sale["offers"])
        together = sale.get("together", False) is True
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND,
            cannot_read(path, error),
            hint="make it by: corral offers --all --json > FILE",
        ) from error
    except BAD_JSON as error:
        raise CorralError(
            Code.PARSE_FAILED,
            f"{path} is not an output of corral offers --json",
            tail=str(error),
            hint="make it by: corral offers --all --json > FILE",
        ) from error
    for offer in listed:
        if offer.provider not in CLOUDS:
            raise CorralError(
                Code.PARSE_FAILED,
                f"{path}: no provider {offer.provider} rents machines",
                hint=f"one of {', '.join(CLOUDS)}",
            )
    return [(offer, together) for offer in listed]
