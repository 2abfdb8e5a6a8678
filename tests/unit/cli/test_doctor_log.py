"""``corral doctor --log``: its exit status and what it prints."""

from __future__ import annotations

import json

from tests.unit.cli.conftest import Run
from tests.unit.doctor.test_unknown import UNKNOWN


def test_the_command_ends_with_status_1_and_shows_the_lines(corral: Run) -> None:
    done = corral("doctor", "--log", "-", stdin=f"fine\n{UNKNOWN[0]}\n")
    assert done.exit_code == 1
    assert "no known failure matched; the first fatal lines:" in done.stdout
    assert "line 2: [2026-11-23T10:00:00.000] fatal: the frobnicator" in done.stdout
    data = json.loads(corral("doctor", "--log", "-", "--json", stdin=f"{UNKNOWN[1]}\n").stdout)
    assert data["healthy"] is False
    assert data["unknown"] == [{"line": 1, "text": UNKNOWN[1]}]
