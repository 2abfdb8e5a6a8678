"""Two proofs compared: what got better, worse, is new or gone. Pure.

Verdicts first, then figures. A figure is compared where its name shows what it counts (``_gb_s``,
``_us``, ...), node by node, and only a change beyond the noise counts: 10 %, or three times the
spread that the check measured (a figure ``NAME_spread``), whichever is more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from corral.prove.model import CheckResult, Proof, Verdict

NOISE: Final = 0.10
"""Change of a figure that means nothing: repeated runs on shared machines differ by so much."""
SPREADS: Final = 3.0
SPREAD: Final = "_spread"
LESS: Final = ("_us", "_ms", "_seconds", "_wrong", "_errors", "_lost", "_fail", "_retransmits")
"""Endings of figures that are better when less."""
MORE: Final = (
    *("_gb_s", "_mb_s", "_kb_s", "_gbps", "_gbit_s", "_mbit_s", "_tflops", "_gflops", "_iops"),
    *("_samples_s", "_per_s", "_files_s", "_mhz", "_efficiency", "_speedup"),
)
"""Endings of figures that are better when more."""
NEVER: Final = ("limit_", "reference_", "declared_", "expected_")
"""Beginnings of figures that nobody measured."""
_ORDER: Final = MappingProxyType(
    {Verdict.PASS: 0, Verdict.SKIP: 1, Verdict.WARN: 2, Verdict.FAIL: 3}
)


class Change(StrEnum):
    """What became of something."""

    WORSE = "worse"
    BETTER = "better"
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was.

    Attributes:
        change: what became of it.
        check: the check's id.
        node: the node, "" when it is about several.
        figure: the figure's name, "" when it is the verdict.
        before: as it was, "" where it is new.
        after: as it is, "" where it is gone.
        words: the change in words, with the noise that it was compared with.
    """

    change: Change
    check: str
    node: str
    figure: str
    before: str
    after: str
    words: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two proofs compared.

    Attributes:
        before: when the older one was made, unix seconds.
        after: when the newer one was made.
        differences: what differs, worse first.
        same: verdicts and figures that are as they were.
    """

    before: float
    after: float
    differences: tuple[Difference, ...]
    same: int

    @property
    def worse(self) -> bool:
        """True when something got worse."""
        return any(difference.change is Change.WORSE for difference in self.differences)

    def count(self, change: Change) -> int:
        """Number of differences of this kind."""
        return sum(difference.change is change for difference in self.differences)

    @property
    def words(self) -> str:
        """The outcome in one line."""
        counts = [f"{n} {change.value}" for change in Change if (n := self.count(change))]
        return ", ".join([*counts, f"{self.same} the same"])

    def as_dict(self) -> dict[str, object]:
        return {
            "before": self.before,
            "after": self.after,
            "worse": self.worse,
            "same": self.same,
            "differences": [asdict(difference) for difference in self.differences],
        }


def compare(first: Proof, second: Proof, *, common: bool = False) -> Comparison:
    """Compare two proofs of a cluster; the older one is taken for ``before``.

    Args:
        first: a proof.
        second: another one.
        common: compare only checks that both have: one of the proofs ran a part of the checks.
    """
    before, after = sorted((first, second), key=lambda proof: proof.at)
    old = {result.check: result for result in before.results}
    new = {result.check: result for result in after.results}
    differences: list[Difference] = []
    same = 0
    for check in dict.fromkeys((*old, *new)):
        if common and not (check in old and check in new):
            continue
        changed, equal = _check(check, old.get(check), new.get(check))
        differences += changed
        same += equal
    order = list(Change)
    differences.sort(key=lambda d: (order.index(d.change), bool(d.figure)))
    return Comparison(before.at, after.at, tuple(differences), same)


def _check(
    check: str, old: CheckResult | None, new: CheckResult | None
) -> tuple[list[Difference], int]:
    if old is None or new is None:
        change = Change.NEW if old is None else Change.GONE
        verdicts = [result.verdict.value if result else "" for result in (old, new)]
        summary = (new or old).summary if (new or old) else ""  # type: ignore[union-attr]
        return [Difference(change, check, "", "", verdicts[0], verdicts[1], summary)], 0
    differences: list[Difference] = []
    if old.verdict is not new.verdict:
        bad = _ORDER[new.verdict] > _ORDER[old.verdict]
        change = Change.WORSE if bad else Change.BETTER
        words = new.summary
        differences.append(
            Difference(change, check, "", "", old.verdict.value, new.verdict.value, words)
        )
    figures = list(_figures(check, _numbers(old), _numbers(new)))
    differences += filter(None, figures)
    return differences, figures.count(None) + (old.verdict is new.verdict)


def _numbers(result: CheckResult) -> dict[tuple[str, str], tuple[float, float]]:
    """Figures that can be compared, by node and name, with their spread.

    Several pieces of evidence of one node with the same figure are distinguished by their order.
    """
    numbers: dict[tuple[str, str], tuple[float, float]] = {}
    for item in result.evidence:
        for name, value in item.figures.items():
            if isinstance(value, str) or not _measured(name):
                continue
            key, times = (item.node, name), 2
            while key in numbers:
                key, times = (item.node, f"{name}#{times}"), times + 1
            numbers[key] = float(value), _spread(item.figures, name)
    return numbers


def _measured(name: str) -> bool:
    return name.endswith((*LESS, *MORE)) and not name.startswith(NEVER)


def _spread(figures: Mapping[str, str | int | float], name: str) -> float:
    spread = figures.get(f"{name}{SPREAD}", 0.0)
    return 0.0 if isinstance(spread, str) else abs(float(spread))


def _figures(
    check: str,
    old: Mapping[tuple[str, str], tuple[float, float]],
    new: Mapping[tuple[str, str], tuple[float, float]],
) -> Iterator[Difference | None]:
    for node, name in dict.fromkeys((*old, *new)):
        was, now = old.get((node, name)), new.get((node, name))
        if was is None or now is None:
            change = Change.NEW if was is None else Change.GONE
            texts = [f"{figure[0]:.4g}" if figure else "" for figure in (was, now)]
            yield Difference(change, check, node, name, texts[0], texts[1], "")
        else:
            yield _figure(check, (node, name), was, now)


def _figure(
    check: str, key: tuple[str, str], was: tuple[float, float], now: tuple[float, float]
) -> Difference | None:
    node, name = key
    band = max(NOISE, SPREADS * max(was[1], now[1]))
    before, after = was[0], now[0]
    if before == after or (before and abs(after - before) <= band * abs(before)):
        return None
    less = name.partition("#")[0].endswith(LESS)
    change = Change.WORSE if (after > before) is less else Change.BETTER
    share = f"{(after - before) / abs(before):+.0%}" if before else "was 0"
    words = f"{share} (noise up to {band:.0%})"
    return Difference(change, check, node, name, f"{before:.4g}", f"{after:.4g}", words)
