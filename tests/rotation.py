"""Which slow tests a run takes: a part of all of them, of about the same length each time.

``CORRAL_TEST_SLOW=N/5 ./test`` takes the Nth part; without the variable no slow test runs.
Tests of one file stay together where that is possible: they share what their fixtures make. How
long each takes is in ``slow_seconds.json``; ``python -m tests.rotation FILE.xml...`` records
it from pytest's junit files.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

RECORD: Final = Path(__file__).with_name("slow_seconds.json")
UNKNOWN_S: Final = 30.0
"""Assumed seconds of a test that was never measured."""


def seconds_recorded() -> Mapping[str, float]:
    """Seconds of each slow test by node id, with its fixtures."""
    return json.loads(RECORD.read_text())


def part(ids: Sequence[str], number: int, parts: int, seconds: Mapping[str, float]) -> set[str]:
    """Node ids of one part.

    Args:
        ids: all slow tests of a run, as ``tests/embedded/test_x.py::test_y[z]``.
        number: from 1 to ``parts``.
        parts: how many there are.
        seconds: recorded ones; others count as ``UNKNOWN_S``.
    """
    length = {test: seconds.get(test, UNKNOWN_S) for test in ids}
    most = sum(length.values()) / parts
    units = _units(ids, length, most)
    load = [0.0] * parts
    chosen: set[str] = set()
    # The longest first, each to the part that has least: within 4/3 of the best there is.
    for unit in sorted(units, key=lambda unit: (-sum(length[test] for test in unit), unit[0])):
        least = min(range(parts), key=load.__getitem__)
        load[least] += sum(length[test] for test in unit)
        if least == number - 1:
            chosen.update(unit)
    return chosen


def _units(ids: Iterable[str], length: Mapping[str, float], most: float) -> list[list[str]]:
    """Tests of a file together, unless they alone are longer than a part."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for test in ids:
        files[test.partition("::")[0]].append(test)
    units: list[list[str]] = []
    for file in files.values():
        together = sum(length[test] for test in file) <= most
        units += [file] if together else [[test] for test in file]
    return units


def record(files: Iterable[Path]) -> None:
    """Add what junit files measured to ``slow_seconds.json``."""
    seconds = dict(seconds_recorded()) if RECORD.exists() else {}
    for file in files:
        for case in ET.parse(file).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it
            if case.find("skipped") is None:
                path = case.get("classname", "").replace(".", "/")
                seconds[f"{path}.py::{case.get('name')}"] = round(float(case.get("time", "0")), 1)
    RECORD.write_text(json.dumps(dict(sorted(seconds.items())), indent=1) + "\n")


if __name__ == "__main__":
    record(map(Path, sys.argv[1:]))
