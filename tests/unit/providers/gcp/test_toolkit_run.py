"""Runs of gcluster: their records, and a log that grows."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from corral.providers.gcp.toolkit_run import Log, Run, Runs, Window, replace_text


def test_lines_come_when_they_are_complete(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"one\ntw")
    log = Log(path)
    assert list(log.more()) == ["one"]
    with path.open("ab") as file:
        file.write(b"o\n\xffthree")
    assert list(log.more()) == ["two"]
    assert list(log.more(over=True)) == ["\ufffdthree"]


EARLIER = (Window(10.0, 12.0),)


def test_when_a_run_was_killed() -> None:
    assert Run(20.0, EARLIER, 0, 25.0).windows(0) == ()
    # Another failure forgets nothing, and what was forgotten before it stays so.
    assert Run(20.0, status=1, ended=25.0).windows(0) == ()
    assert Run(20.0, EARLIER, 1, 25.0).windows(0) == EARLIER
    assert Run(20.0, EARLIER, -9, 25.0).windows(99.0) == (*EARLIER, Window(20.0, 25.0))
    # Nobody saw its end: its last sign of life.
    assert Run(20.0).windows(23.0) == (Window(20.0, 23.0),)
    assert Run(20.0).windows(0) == (Window(20.0, 20.0),)
    # A removal knows nothing of what an earlier run made and forgot.
    assert Run(20.0, EARLIER, 0, 25.0, makes=False).windows(0) == EARLIER


def followed(runs: Runs, verb: str, text: str) -> int:
    argv = ["/bin/sh", verb]
    (runs._folder / verb).write_text(text)  # pyright: ignore[reportPrivateUsage]
    run = runs.follow("mega", argv, lambda _: iter(()), lambda _: None)
    status, _ = asyncio.run(run)
    return status


def test_only_a_deploy_that_succeeds_ends_the_time_of_a_killed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = Runs(tmp_path)
    begin = time.time()
    assert followed(runs, "deploy", "kill -9 $$") == -signal.SIGKILL
    (window,) = killed = runs.windows("mega")
    assert begin <= window.begin <= window.end <= time.time()
    for verb in ("create", "destroy"):
        assert followed(runs, verb, "exit 0") == 0
        assert runs.windows("mega") == killed
    assert followed(runs, "deploy", "exit 1") == 1
    assert runs.windows("mega") == killed
    assert followed(runs, "deploy", "exit 0") == 0
    assert runs.windows("mega") == ()


def test_a_run_that_did_not_make_all_is_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = Runs(tmp_path)
    assert not runs.unfinished("mega")  # it may have been made elsewhere
    for verb, text in (("deploy", "kill -9 $$"), ("deploy", "exit 1"), ("destroy", "exit 0")):
        followed(runs, verb, text)
        assert runs.unfinished("mega"), (verb, text)
    followed(runs, "deploy", "exit 0")
    assert not runs.unfinished("mega")


def test_the_end_that_nobody_saw_is_kept_when_the_next_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = Runs(tmp_path)
    runs._record("mega", Run(50.0))  # pyright: ignore[reportPrivateUsage]
    (tmp_path / "run-mega.out").touch()
    os.utime(tmp_path / "run-mega.out", (80, 80))
    assert runs.windows("mega") == (Window(50.0, 80.0),)
    assert followed(runs, "deploy", "exit 1") == 1
    assert runs.windows("mega") == (Window(50.0, 80.0),)


def test_a_record_of_another_shape_is_none(tmp_path: Path) -> None:
    assert Runs(tmp_path).last("mega") is None
    for text in ("", "{", "[]", '{"started": "x"}', '{"started": 1e999, "since": []}'):
        replace_text(tmp_path / "run-mega.json", text)
        assert Runs(tmp_path).last("mega") is None
