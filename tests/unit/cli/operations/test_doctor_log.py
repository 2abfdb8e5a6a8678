"""``corral doctor --log``: its exit status and what it prints."""

from __future__ import annotations

import json

from tests.unit.cli.conftest import Run
from tests.unit.doctor.logs.test_unknown import UNKNOWN


def test_the_command_ends_with_status_1_and_shows_the_lines(corral: Run) -> None:
    done = corral("doctor", "--log", "-", stdin=f"fine\n{UNKNOWN[0]}\n")
    assert done.exit_code == 1
    assert "no known failure matched; the first fatal lines:" in done.stdout
    assert "line 2: [2026-11-23T10:00:00.000] fatal: the frobnicator" in done.stdout
    data = json.loads(corral("doctor", "--log", "-", "--json", stdin=f"{UNKNOWN[1]}\n").stdout)
    assert data["healthy"] is False
    assert data["unknown"] == [{"line": 1, "text": UNKNOWN[1]}]


def test_a_log_without_an_error_is_not_called_healthy(corral: Run) -> None:
    done = corral("doctor", "--log", "-", stdin="step 1\n_job_complete: JobId=7 WTERMSIG 9\n")
    assert done.exit_code == 0
    assert "no known failure matched and no line reports an error; lines to read:" in done.stdout
    assert "line 2: _job_complete: JobId=7 WTERMSIG 9" in done.stdout
    assert "nothing known is wrong" not in corral("doctor", "--log", "-", stdin="step 1\n").stdout


def test_the_logs_own_words_are_shown_as_such(corral: Run) -> None:
    done = corral("doctor", "--log", "-", stdin="frob: error: plan 7 not found\n")
    assert done.exit_code == 1
    assert "by the log's own words, something that the program needs is not there" in done.stdout
    assert "plan 7 not found" in done.stdout


def test_a_check_that_disproves_a_message_is_shown(corral: Run) -> None:
    log = 'sbatch: error: Unable to resolve "ctl1": Unknown host\n10.1.1.2   ctl1\n'
    done = corral("doctor", "--log", "-", stdin=log)
    assert done.exit_code == 1
    assert "the log disproves the usual cause, look for another one: a name does" in done.stdout
    assert "but: 10.1.1.2   ctl1" in done.stdout
