"""A given log is read as text, or refused because it is not text."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

LINE = 'slurmd: error: Unable to resolve "node7": Unknown host'
ZSTD = bytes.fromhex("28b52ffd") + bytes(range(40))


@pytest.mark.parametrize(
    "data",
    [
        LINE.encode(),
        f"{LINE}\r\n".encode(),
        f"\ufeff{LINE}".encode(),
        LINE.encode("utf-16"),
        b"\x00" * 40 + LINE.encode() * 20,  # a crash left zeros
        b"\xe9t\xe9 \x1b[31m" + LINE.encode() + b"\x1b[0m",
    ],
    ids=["plain", "crlf", "bom", "utf-16", "zeros", "latin-1"],
)
def test_what_is_text_is_read(corral: Run, home: Path, data: bytes) -> None:
    (home / "a.log").write_bytes(data)
    done = corral("doctor", "--log", "a.log")
    assert done.exit_code == 1, done.output
    assert "F05 name-unresolvable" in done.stdout


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "a.log is empty"),
        (b" \n\n", "a.log is empty"),
        (gzip.compress(LINE.encode(), mtime=0), "is compressed"),
        (bz2.compress(LINE.encode()), "is compressed"),
        (lzma.compress(LINE.encode()), "is compressed"),
        (ZSTD, "is compressed"),
        (bytes(range(256)) * 40, "is not text"),
    ],
    ids=["empty", "blank", "gzip", "bzip2", "xz", "zstd", "binary"],
)
@pytest.mark.parametrize("verb", [("doctor", "--log"), ("bench", "read")], ids=" ".join)
def test_what_is_none_is_never_called_healthy(
    corral: Run, home: Path, verb: tuple[str, str], data: bytes, reason: str
) -> None:
    (home / "a.log").write_bytes(data)
    done = corral(*verb, "a.log")
    assert done.exit_code == 2, done.output
    assert reason in done.stderr
    assert "hint:" in done.stderr


def test_an_empty_standard_input(corral: Run) -> None:
    done = corral("doctor", "--log", "-")
    assert done.exit_code == 2
    assert "standard input is empty" in done.stderr


def test_a_folder(corral: Run, home: Path) -> None:
    assert "cannot be read" in corral("doctor", "--log", str(home)).stderr


@pytest.mark.parametrize("job", ["abc", "0", "-5", "1;id", "12_", "1_2_3", "٣"])
def test_what_is_no_job(corral: Run, job: str) -> None:
    done = corral("doctor", "lab", f"--why-pending={job}")
    assert done.exit_code == 2
    assert "is not a job number" in done.stderr


def test_an_error_that_no_rule_knows_ends_with_its_lines_and_status_1(corral: Run) -> None:
    line = "[2026-11-23T10:00:00.000] fatal: the frobnicator is not aligned"
    done = corral("doctor", "--log", "-", stdin=f"fine\n{line}\n")
    assert done.exit_code == 1
    assert "no known failure matched; the first fatal lines:" in done.stdout
    assert "line 2: [2026-11-23T10:00:00.000] fatal: the frobnicator" in done.stdout
    data = json.loads(corral("doctor", "--log", "-", "--json", stdin=f"{line}\n").stdout)
    assert data["healthy"] is False
    assert data["unknown"] == [{"line": 1, "text": line}]
