"""The program that reads a job's output: of a plain job, of its ranks, of the tasks of an array."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from corral.api.page import job_logs
from corral.api.page.job_logs import (
    HITS,
    RANKS,
    START,
    LogBounds,
    LogPiece,
    LogQuestion,
    job_log,
    log_data,
    log_event,
    log_files,
    log_matches,
    log_script,
)
from corral.errors import Code, CorralError
from corral.hosts.transport import Result
from corral.slurm.records import Job


def answered(path: Path, status: int = 0, **question: Any) -> list[str]:
    job = Job(id=1, stdout=str(path), stderr=str(question.pop("stderr", "")))
    script = str(log_script(job, LogQuestion(**question)))
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (status, ""), ran.stdout
    return ran.stdout.splitlines()


def pieces(lines: list[str], name: str = "all") -> list[LogPiece]:
    events = [log_event(line, name) for line in lines if not line.startswith("S ")]
    return [event.piece for event in events if event and event.piece]


def shown(path: Path, **question: Any) -> dict[str, bytes]:
    """What is shown of each file."""
    made: dict[str, bytes] = {}
    name = question.get("name", "all")
    for piece in pieces(answered(path, **{"do": "last", **question}), name):
        made[piece.name] = made.get(piece.name, b"") + piece.data
    return made


def made(folder: Path, ranks: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "batch.log").write_text("batch\n")
    for rank in range(ranks):
        (folder / f"rank-{rank}.log").write_text(f"rank {rank} of {folder.name}\n")
    return folder / "batch.log"


@pytest.mark.parametrize("name", ["plain", "task-7"])
def test_ranks_of_a_job_are_read_next_to_its_batch_log(hostile_tmp_path: Path, name: str) -> None:
    log = made(hostile_tmp_path / name, 2)
    about = hostile_tmp_path / ("plain" if name == "plain" else ".") / "job.json"
    about.write_text(json.dumps({"logs": 2, "array": []}))
    assert shown(log) == {
        "batch": b"batch\n",
        "rank-0": b"rank 0 of %s\n" % name.encode(),
        "rank-1": b"rank 1 of %s\n" % name.encode(),
    }
    assert shown(log, name="rank-1") == {"rank-1": b"rank 1 of %s\n" % name.encode()}
    files, more = log_files(answered(log, do="files"))
    assert more == 0
    assert [(file.name, file.path, file.size) for file in files[:2]] == [
        ("batch", str(log), 6),
        ("rank-0", str(log.parent / "rank-0.log"), 11 + len(name)),
    ]


def test_of_many_ranks_the_end_of_each_is_read_from_a_line_on(hostile_tmp_path: Path) -> None:
    log = made(hostile_tmp_path / "many", 100)
    (log.parent / "job.json").write_text('{"logs": 100}')
    for rank in range(100):
        (log.parent / f"rank-{rank}.log").write_text(f"{'x' * 99}\n" * 1000)
    ends = shown(log)
    assert len(ends) == 101
    assert ends["rank-99"] == b"x" * 99 + b"\n" + (b"x" * 99 + b"\n") * 38
    (piece,) = [p for p in pieces(answered(log, do="last")) if p.name == "rank-7"]
    assert piece.start == 100_000 - len(piece.data)


def test_a_job_of_sbatch_has_what_slurm_names(hostile_tmp_path: Path) -> None:
    log, errors = hostile_tmp_path / "slurm-1.out", hostile_tmp_path / "slurm-1.err"
    log.write_text("one\n")
    errors.write_text("two\n")
    (hostile_tmp_path / "rank-0.log").write_text("somebody else's\n")
    (hostile_tmp_path / "job.json").write_text('{"logs": 1}')
    assert shown(log) == {"output": b"one\n"}
    assert shown(log, stderr=errors) == {"output": b"one\n", "errors": b"two\n"}
    assert shown(log, stderr=log) == {"output": b"one\n"}
    assert answered(log, 4, do="read", name="rank-0", end=9) == [
        "X rank-0 no such file of this job"
    ]


def test_a_pipe_or_a_device_is_not_read(hostile_tmp_path: Path) -> None:
    pipe = hostile_tmp_path / "slurm-1.out"
    os.mkfifo(pipe)
    refused = "X output not a file: what is written there is not kept"
    assert answered(pipe, do="last") == ["R 0", refused]
    assert answered(Path("/dev/zero"), 4, do="read", name="output", end=9) == [refused]
    (file,), _ = log_files(answered(hostile_tmp_path / "none", do="files"))
    assert file.trouble == "No such file or directory"


@pytest.mark.parametrize("name", ["../x", "rank-", "rank-1/..", "/etc/passwd", "rank-1\n", ""])
def test_a_file_has_a_name_and_no_path(name: str) -> None:
    with pytest.raises(ValidationError):
        LogQuestion(do="last", name=name)


def test_a_range_is_what_the_file_holds(hostile_tmp_path: Path) -> None:
    log = hostile_tmp_path / "a.out"
    data = bytes(range(256)) * 1000
    log.write_bytes(data)
    lines = answered(log, do="read", name="output", start=1000, end=200_000)
    assert lines[0] == "S output 256000"
    assert b"".join(p.data for p in pieces(lines)) == data[1000:200_000]
    assert pieces(lines)[1].start == 46_000
    assert answered(log, do="read", name="output", start=1 << 40, end=1 << 41) == [
        "S output 256000"
    ]


@given(st.lists(st.text("aA\r\n", max_size=8), max_size=6).map("".join))
def test_a_search_finds_what_is_shown_in_the_end(text: str) -> None:
    path = Path(f"/tmp/corral-search-{os.getpid()}")
    try:
        path.write_bytes(text.encode())
        response = log_matches(answered(path, do="find", name="output", text="aa"))
    finally:
        path.unlink()
    lines = text.split("\n")
    ends = [[part for part in line.split("\r") if part][-1:] for line in lines]
    assert [hit.line for hit in response.hits] == [
        n for n, end in enumerate(ends) if end and "aa" in end[0].lower()
    ]
    for hit in response.hits:
        assert hit.start == sum(len(line) + 1 for line in lines[: hit.line])
        assert hit.text == ends[hit.line][0]
    assert response.end == len(text)


def test_a_search_ends_after_some_lines_and_goes_on(hostile_tmp_path: Path) -> None:
    log = hostile_tmp_path / "a.out"
    log.write_text("".join(f"Error {n}\n" for n in range(1000)))
    first = log_matches(answered(log, do="find", name="output", text="eRRor"))
    assert len(first.hits) == HITS
    again = answered(log, do="find", name="output", text="eRRor", start=first.end, line=first.line)
    assert log_matches(again).hits[0].text == f"Error {HITS}"
    assert log_matches(again).hits[0].line == HITS
    log.write_bytes(b"5%\r" * 3_000_000 + b"end\n" + b"x" * (9 << 20) + b"needle")
    response = log_matches(answered(log, do="find", name="output", text="5%"))
    assert (response.hits, response.end) == ((), response.size)
    (hit,) = log_matches(answered(log, do="find", name="output", text="needle")).hits
    assert hit.line == 1
    assert len(hit.text) < 500


class Following:
    """The program while it follows; its lines so far."""

    def __init__(self, log: Path) -> None:
        script = str(log_script(Job(id=1, stdout=str(log)), LogQuestion(do="follow")))
        self.process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(line.rstrip("\n") for line in self.process.stdout)

    def wait(self, test: Callable[[list[str]], bool]) -> None:
        until = time.monotonic() + 20
        while not test(self.lines):
            assert time.monotonic() < until, self.lines
            time.sleep(0.05)


def test_what_is_written_comes_as_it_is_written(hostile_tmp_path: Path) -> None:
    log = made(hostile_tmp_path / "live", 0)
    (log.parent / "job.json").write_text('{"logs": 1}')
    following = Following(log)
    try:
        following.wait(lambda lines: "L" in lines)
        rank = log.parent / "rank-0.log"
        rank.write_bytes(b"5%\r")
        following.wait(lambda lines: LogPiece("rank-0", 0, b"5%\r") in pieces(lines))
        with rank.open("ab") as file:
            file.write(b"6%\r")
        following.wait(lambda lines: LogPiece("rank-0", 3, b"6%\r") in pieces(lines))
        with rank.open("ab") as file:  # faster than anybody reads
            file.write(b"".join(b"%07d\n" % n for n in range(1_000_000)))
        following.wait(lambda lines: pieces(lines)[-1].data.endswith(b"0999999\n"))
        assert sum(len(piece.data) for piece in pieces(following.lines)) < 1_000_000
        rank.write_bytes(b"again\n")
        following.wait(lambda lines: LogPiece("rank-0", 0, b"again\n") in pieces(lines))
        assert "N rank-0" in following.lines
    finally:
        following.process.kill()
        following.process.wait()


def test_the_end_of_a_line_that_is_a_bar_is_shown(hostile_tmp_path: Path) -> None:
    log = hostile_tmp_path / "bar.out"
    log.write_bytes(b"%5d\r" * START)
    (first, *_) = pieces(answered(log, do="last"))
    assert first.start == log.stat().st_size - START


def test_a_job_that_claims_a_million_ranks(hostile_tmp_path: Path) -> None:
    """Its job.json is its user's: 77 MB of answer, and 892 MB of memory for it."""
    log = made(hostile_tmp_path / "job", 0)
    (log.parent / "job.json").write_text('{"logs": 999999}')
    (log.parent / "rank-7.log").write_text("seven")
    (log.parent / "rank-5000.log").write_text("far")
    (log.parent / "rank-999998.log").mkdir()
    lines = answered(log, do="files")
    assert len(lines) < 100 + RANKS
    files, more = log_files(lines)
    assert [file.name for file in files] == ["batch", "rank-7"]
    assert more == 999_999 - RANKS
    assert answered(log, do="last")[0] == "R 999999"
    assert shown(log).keys() == {"batch", "rank-7"}
    assert shown(log, name="rank-5000") == {"rank-5000": b"far"}
    assert answered(log, 4, do="last", name="rank-999999")[-1].startswith("X rank-999999 no such")
    # 4,097 files that cannot be read are listed each.
    for rank in range(RANKS):
        (log.parent / f"rank-{rank}.log").unlink(missing_ok=True)
        (log.parent / f"rank-{rank}.log").mkdir()
    lines = answered(log, do="files")
    assert len(lines) == RANKS + 2
    bounds = LogBounds(LogQuestion(do="files"))
    for line in lines:
        bounds.take(line)


def test_job_json_is_read_again_where_it_has_changed(hostile_tmp_path: Path) -> None:
    log = made(hostile_tmp_path / "live", 3)
    (log.parent / "job.json").write_text('{"logs": 1}')
    following = Following(log)
    try:
        following.wait(lambda lines: "L" in lines)
        assert {p.name for p in pieces(following.lines)} == {"batch", "rank-0"}
        about = log.parent / "job.json"
        os.utime(about, ns=(0, about.stat().st_mtime_ns))
        time.sleep(1)
        assert about.stat().st_atime_ns == 0, "it was read in each round"
        (log.parent / "job.json").write_text('{"logs": 3, "more": 1}')
        following.wait(lambda lines: "rank-2" in {p.name for p in pieces(lines)})
    finally:
        following.process.kill()
        following.process.wait()


@pytest.mark.parametrize(
    "line",
    ["", "x", "F", "F batch", "F batch 1 2", "F batch x 2 YQ==", "F batch 1 2 Y", "F ../x 1 2 YQ==",
     "F all 1 2 YQ==", f"F batch {'9' * 5000} 2 YQ==", "F batch \u0661 2 YQ==", "X", "X batch",
     "X batch \x1b[2J", f"X batch {'x' * 301}", "D batch", "D batch 0", "D batch -1 YQ==",
     "D batch 0 YQ== YQ==", f"D batch 0 {'YWFh' * 16_000}", "D batch 0 Y===", "R", "R x",
     f"R {'9' * 5000}", "N", "N rank-1000000", "N rank-01", "L 1", "h h", "M", "S batch", "E batch",
     "E batch 1 2", "H batch 1 2", f"H batch 1 2 {'YWFh' * 200}", "F batch 1 2 YQ==\n", "Z batch"],
)  # fmt: skip
def test_a_line_that_is_not_an_answer_is_refused(line: str) -> None:
    question = LogQuestion(do="read", name="batch", end=9)
    for read in (
        log_event,
        lambda text: log_files([text]),
        lambda text: log_matches([text]),
        lambda text: log_data([text], question),
    ):
        with pytest.raises(CorralError) as refused:
            read(line)
        assert refused.value.code is Code.PARSE_FAILED


@given(st.text("FXDRNLHEShM 0129batchrnk-=\u0661\n", max_size=40))
def test_any_line_is_read_or_refused(line: str) -> None:
    for read in (log_event, lambda text: log_files([text]), lambda text: log_matches([text])):
        with suppress(CorralError):
            read(line)


def test_what_was_not_asked_for_is_left_out() -> None:
    question = LogQuestion(do="read", name="batch", start=10, end=14)
    lines = ["S errors 7", "S batch 99", "D rank-0 10 YWFh", "D batch 0 YWFh",
             "D batch 10 YWFh", "D batch 10 YmJi", "D batch 13 YmJi",
             "D batch 16 YmJi", "D batch 14 YmJi"]  # fmt: skip
    assert log_data(lines, question) == (b"aaab", 99)
    hit = "H batch {} 1 YWFh"
    response = log_matches(
        [
            "H errors 12 1 YWFh",
            hit.format(9),
            *[hit.format(10 + n) for n in range(HITS + 50)],
            "E errors 10 2 3",
            "E batch 9 2 3",
            "E batch 500 2 900",
            "H batch 1 2",
        ],
        name="batch",
        start=10,
    )
    assert len(response.hits) == HITS
    assert (response.hits[0].start, response.end, response.size) == (10, 500, 900)
    assert log_event("D errors 0 YQ==", "batch") is None
    assert log_event(f"N rank-{RANKS}") is None
    assert log_event(f"N rank-{RANKS}", f"rank-{RANKS}")
    lines = ["F batch 1 2 YQ==", "F batch 3 2 YQ==", "X errors no", f"F rank-{RANKS} 1 2 YQ=="]
    (file, _), _ = log_files(lines)
    assert file.size == 3


@pytest.mark.parametrize("do", ["files", "last", "read", "find"])
def test_an_answer_is_taken_up_to_a_length(do: Any) -> None:
    for line in ("h", "x" * 60_000):
        bounds = LogBounds(LogQuestion(do=do))
        with pytest.raises(CorralError, match="longer than"):
            for _ in range(100_000):
                bounds.take(line)
    endless = LogBounds(LogQuestion(do="follow"))
    for _ in range(100_000):
        endless.take("h")


@pytest.mark.parametrize(
    ("lines", "status", "code", "message"),
    [
        (["X batch"], 4, Code.PARSE_FAILED, "cannot be read"),
        (["X batch Permission denied"], 4, Code.NOT_FOUND, "Permission denied"),
        ([], 4, Code.NOT_FOUND, "no such file"),
        (["h"] * 100_000, 0, Code.PARSE_FAILED, "longer than what was asked for"),
    ],
)
def test_why_a_file_cannot_be_read_and_no_more_than_an_answer(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], status: int, code: Code, message: str
) -> None:
    class Machines:
        nodes = ()

        async def run(self, node: str, *_: Any, on_line: Callable[[str], None], **__: Any) -> Any:
            for line in lines:
                on_line(line)
            return Result(node, status, "", "")

    @asynccontextmanager
    async def reached(*_: Any, **__: Any) -> AsyncGenerator[tuple[Machines, str]]:
        yield Machines(), "head"

    monkeypatch.setattr(job_logs, "reached", reached)
    taken: list[str] = []
    spec: Any = None
    asked = job_log(
        spec, "kim", Job(id=1), LogQuestion(do="read", name="batch", end=9), on_line=taken.append
    )
    with pytest.raises(CorralError) as failed:
        asyncio.run(asked)
    assert failed.value.code is code
    assert message in failed.value.message
    assert len(taken) <= 2000
