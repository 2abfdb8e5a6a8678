"""A function as files, called by the program that a job gets along, and what comes back of it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import json
import math
import os
import pickle
import subprocess
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PosixPath, PurePosixPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from corral import agents
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.local import Local
from corral.jobs.function import answer, call
from corral.jobs.function.answer import (
    Answer,
    RemoteTraceback,
    exception_of,
    read_answer,
    result_of,
)
from corral.jobs.handle import JobHandle
from corral.jobs.model import JobSpec
from corral.jobs.upload.manifest import folder_of


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """As a function of the script itself: sent as code."""
    function.__module__ = "__main__"
    return function


class Job:
    """A job's folder, in which ranks run here."""

    def __init__(self, folder: Path, function: Callable[..., Any], *calls: tuple[Any, ...]) -> None:
        self.folder = folder
        self.handle = JobHandle(42, "job", "corral", str(folder), 1, "node0")
        files = call.pack(function, calls or ((),)).files("none")
        for name, data in {**files, "lib/corral/__init__.py": b""}.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def about(self, **changes: object) -> None:
        """Change the job's description."""
        file = self.folder / "call.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    def run(self, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "corral.function"],
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(self.folder / "lib"),
                "CORRAL_JOB_FOLDER": str(self.folder),
                **env,
            },
            capture_output=True,
            text=True,
            timeout=60,
        )

    def answer(self, name: str) -> Answer | None:
        file = self.folder / name
        if not file.exists():
            return None
        head, _, data = file.read_bytes().partition(b"\n")
        return Answer(json.loads(head), data)

    def result(self) -> Any:
        response = self.answer("returned")
        assert response is not None
        return result_of(self.handle, response, trusted=True)

    def raised(self) -> BaseException:
        response = self.answer("raised")
        assert response is not None
        return exception_of(self.handle, response, call.PYTHON, trusted=True)


@pytest.fixture
def folder(hostile_tmp_path: Path) -> Path:
    return hostile_tmp_path


def test_a_function_of_the_script_comes_with_what_it_uses(folder: Path) -> None:
    factor = 3
    job = Job(folder, by_value(lambda number: math.sqrt(number) * factor), (4,))
    assert job.run().returncode == 0
    assert job.result() == 6
    assert job.answer("raised") is None


def test_each_part_has_its_own_argument(folder: Path) -> None:
    job = Job(folder, by_value(lambda number: number + 1), (1,), (20,), (300,))
    for part, expected in enumerate((2, 21, 301)):
        assert job.run(SLURM_ARRAY_TASK_ID=str(part)).returncode == 0
        assert job.result() == expected


def test_keyword_arguments_are_those_of_a_partial_one(folder: Path) -> None:
    job = Job(folder, functools.partial(by_value(lambda a, b: a - b), b=1), (5,))
    assert job.run().returncode == 0
    assert job.result() == 4


def test_only_rank_0_returns(folder: Path) -> None:
    job = Job(folder, by_value(lambda: __import__("os").environ["RANK"]))
    assert job.run(RANK="1").returncode == 0
    assert job.answer("returned") is None
    assert job.run(RANK="0").returncode == 0
    assert job.result() == "0"


def test_the_first_exception_stays_with_its_traceback(folder: Path) -> None:
    def fail() -> None:
        raise LookupError(__import__("os").environ["RANK"])

    job = Job(folder, by_value(fail))
    ended = job.run(RANK="1")
    assert ended.returncode == 1
    assert "LookupError: 1" in ended.stderr
    assert job.run(RANK="0").returncode == 1
    error = job.raised()
    assert isinstance(error, LookupError)
    assert error.args == ("1",)
    assert "in fail" in str(error.__cause__)
    assert "corral/function.py" not in str(error.__cause__)
    assert {file.name for file in folder.glob("r*")} == {"raised"}
    assert (folder / "raised").stat().st_mode & 0o777 == 0o600


def test_an_exception_that_cannot_be_read_here_is_described(folder: Path) -> None:
    def fail() -> None:
        class OwnError(Exception):
            def __init__(self, first: str, second: str) -> None:
                super().__init__(first)  # unpickled without the second

        raise OwnError("first", "second")

    job = Job(folder, by_value(fail))
    assert job.run().returncode == 1
    error = job.raised()
    assert isinstance(error, CorralError)
    assert str(error) == "rank 0 of job 42 raised OwnError: first"
    assert "Traceback" in error.tail


def test_leaving_is_no_exception(folder: Path) -> None:
    """A script that asks to be started again ends with its own status."""
    job = Job(folder, by_value(lambda: sys.exit(75)))
    assert job.run().returncode == 75
    assert job.answer("raised") is None


def test_a_result_that_is_too_large(folder: Path) -> None:
    job = Job(folder, by_value(lambda: bytes(3 << 20)))
    job.about(limit=1 << 20)
    assert job.run().returncode == 1
    error = job.raised()
    assert isinstance(error, CorralError)
    assert str(error) == "the result of job 42 is 3 MiB: 32 MiB are the most"


def test_a_result_that_is_no_pickle(folder: Path) -> None:
    job = Job(folder, by_value(lambda: __import__("threading").Lock()))
    assert job.run().returncode == 1
    assert isinstance(job.raised(), TypeError)
    assert "cannot pickle" in str(job.raised())


def test_code_needs_the_same_python_and_names_do_not(folder: Path) -> None:
    job = Job(folder, by_value(lambda: 1))
    job.about(python="3.2")
    assert job.run().returncode == 1
    error = job.raised()
    assert isinstance(error, CorralError)
    assert str(error).startswith(f"job 42 has Python {call.PYTHON} and the function is code of")
    (folder / "raised").unlink()
    job = Job(folder, math.sqrt, (16.0,))
    job.about(python="3.2")
    assert job.run().returncode == 0
    assert job.result() == 4


def test_modules_are_imported_from_the_same_folders(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = folder / "code/src"
    source.mkdir(parents=True)
    (source / "corral_test_own.py").write_text("def value():\n    return 7\n")
    monkeypatch.syspath_prepend(str(source))
    module = importlib.import_module("corral_test_own")
    assert call.import_paths(str(folder / "code")) == ["src"]
    job = Job(folder, module.value)
    assert job.run().returncode == 1
    assert isinstance(job.raised(), ModuleNotFoundError)
    (folder / "raised").unlink()
    job.about(paths=["src"])
    assert job.run().returncode == 0
    assert job.result() == 7


def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(CorralError) as caught:
        call.pack(print, [(threading.Lock(),)])
    assert caught.value.code is Code.USAGE
    with pytest.raises(CorralError, match="are 65 MiB: 64 MiB are the most"):
        call.pack(print, [(bytes(65 << 20),)])


def test_the_job_is_a_command_with_the_functions_name() -> None:
    packed = call.pack(functools.partial(by_value(lambda: 1)), [(), ()])
    job = call.job_of(packed, "none", {"nodes": 2, "time": "5m"}, array=False)
    assert job.title == "lambda"
    assert (job.nodes, job.time, job.array, job.folder) == (2, "5m", None, "none")
    assert job.command == ("python3", "-m", "corral.function")
    parts = call.job_of(packed, "none", {"name": "sweep"}, array=True, at_once=1)
    assert (parts.title, parts.array, parts.at_once) == ("sweep", "0-1", 1)


@pytest.mark.parametrize("field", ["lr", "user", "script", "array"])
def test_other_keywords_are_refused_with_the_way_to_pass_them(field: str) -> None:
    packed = call.pack(math.sqrt, [(1,)])
    with pytest.raises(CorralError) as caught:
        call.job_of(packed, "none", {field: "x"}, array=False)
    assert caught.value.code is Code.USAGE
    assert f"functools.partial(sqrt, {field}=...)" in caught.value.hint


def test_the_fields_of_a_call_are_those_of_a_job() -> None:
    from corral.api.workload.function import JobFields  # noqa: PLC0415

    others = {"script", "command", "args", "array", "sweep", "in_place", "user", "at_once"}
    assert {*JobFields.__annotations__} == {*JobSpec.model_fields} - others


def test_the_folder_is_the_project_of_the_functions_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = tmp_path / "function"
    root = Path(agents.__file__).parents[3]
    assert call.source_of(agents.program) == Path(agents.__file__).with_name("__init__.py")
    assert folder_of(call.source_of(agents.program)) == str(root)
    assert [call.source_of(f) for f in (math.sqrt, json.dumps, pytest.fixture)] == [here] * 3
    monkeypatch.setattr("corral.jobs.upload.project.tempfile.gettempdir", lambda: "/nowhere")
    assert folder_of(here) == str(tmp_path)
    (tmp_path / ".corralignore").touch()
    (tmp_path / "below").mkdir()
    assert folder_of(tmp_path / "below/function") == str(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder_of(here) == "none"


def read(folder: Path, name: Any = "returned") -> Answer | None:
    handle = JobHandle(42, "job", "root", str(folder), 1, "node0")
    return asyncio.run(read_answer(Fleet({"node0": Local("node0")}), handle, name))


@pytest.fixture
def me(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of this user's; scripts run as this user."""
    folder.chmod(0o700)
    monkeypatch.setattr(answer, "as_user", lambda _, script: script)
    return folder


def test_an_answer_is_read(me: Path) -> None:
    assert read(me) is None
    (me / "returned").write_bytes(b'{"kind": "result"}\nabc\n\0')
    (me / "returned").chmod(0o600)
    assert read(me) == Answer({"kind": "result"}, b"abc\n\0")
    for text in (b"", b"[]\n", b"{", b"\xff\n"):
        (me / "raised").write_bytes(text)
        if text:
            with pytest.raises(CorralError) as caught:
                read(me, "raised")
            assert caught.value.code is Code.PARSE_FAILED


@pytest.mark.parametrize("attack", ["link", "file mode", "folder mode", "fifo", "owner"])
def test_what_another_user_could_have_written_is_never_read(me: Path, attack: str) -> None:
    file = me / "returned"
    file.write_bytes(b'{"kind": "result"}\n')
    file.chmod(0o600)
    assert read(me) is not None
    if attack == "link":
        file.rename(me / "other")
        file.symlink_to("other")
    elif attack == "file mode":
        file.chmod(0o620)
    elif attack == "folder mode":
        me.chmod(0o777)
    elif attack == "fifo":
        file.unlink()
        os.mkfifo(file, 0o600)
    else:
        if os.geteuid() != 0:
            pytest.skip("only root gives files away")
        os.chown(file, 12345, -1)
    with pytest.raises(CorralError) as caught:
        read(me)
    assert caught.value.code is Code.COMMAND_FAILED


class Hostile:
    """Runs a command where it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


class HostileCall:
    def __init__(self, called: Any, args: tuple[Any, ...]) -> None:
        self.called = (called, args)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.called


HANDLE = JobHandle(12, "job", "ada", "/shared/job", 1, "node0")
PLAIN = (
    *(None, 5, 1.5, 2j, "a", b"b", [1, (2, {3: {4}})], frozenset({1}), range(3)),
    *(bytearray(b"x"), datetime(2026, 11, 30, tzinfo=UTC), Decimal("1.5"), deque([1])),
    *(datetime(2026, 11, 30, tzinfo=ZoneInfo("Europe/Berlin")), ZoneInfo("UTC")),
    *(defaultdict(list, {"a": [1]}), defaultdict(int, {"a": 1}), defaultdict(None, {"a": 1})),
    *(PurePosixPath("/shared/a"), Path("b"), UUID(int=3), Fraction(1, 3), Counter("aab")),
    *(OrderedDict(a=1), timedelta(seconds=3), slice(1, 2)),
)


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_of_another_user_are_read(value: object) -> None:
    for protocol in range(6):
        data = pickle.dumps(value, protocol=protocol)
        if b"_codecs" in data or b"__builtin__" in data or b"copyreg" in data:
            continue  # spellings of before protocol 3: the nodes' program writes 5
        read = result_of(HANDLE, Answer({}, data), trusted=False)
        assert (read, type(read)) == (value, type(value))
        if isinstance(value, defaultdict):
            assert read.default_factory is value.default_factory
        if isinstance(value, datetime):
            assert str(read.tzinfo) == str(value.tzinfo)


def test_a_time_zone_is_made_without_getattr(tmp_path: Path) -> None:
    other = HostileCall(getattr, (Path, "touch"))
    zones = HostileCall(getattr, (ZoneInfo, "no_cache"))
    outside = HostileCall(ZoneInfo, ("../../etc/passwd",))
    for value in (other, zones, [getattr, 1]):
        with pytest.raises(CorralError, match="would run code that ada wrote"):
            result_of(HANDLE, Answer({}, pickle.dumps(value)), trusted=False)
    with pytest.raises(CorralError, match="cannot be read here"):
        result_of(HANDLE, Answer({}, pickle.dumps(outside)), trusted=False)


@pytest.mark.parametrize(
    "made",
    [Counter, Fraction, PurePosixPath, PosixPath, UUID, OrderedDict, ZoneInfo, ExceptionGroup],
)
def test_a_pickle_changes_no_class_of_this_program(made: type) -> None:
    """BUILD set ``Counter.most_common`` for all that ran in the administrator's process."""
    data = pickle.dumps(made, protocol=4).removesuffix(b".")
    state = pickle.dumps((None, {"marked": 1}), protocol=4)[2:].removesuffix(b".")
    with contextlib.suppress(CorralError):
        result_of(HANDLE, Answer({}, data + state + b"b."), trusted=False)
    assert not hasattr(made, "marked")


def test_code_of_another_user_does_not_run_where_its_result_is_read(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    for value in (Hostile(marker), {"a": [Hostile(marker)]}, print, RemoteTraceback, getattr):
        answer = Answer({"type": "Mine", "message": "no", "rank": 0}, pickle.dumps(value))
        with pytest.raises(CorralError, match="would run code that ada wrote") as caught:
            result_of(HANDLE, answer, trusted=False)
        assert caught.value.code is Code.FORBIDDEN
        error = exception_of(HANDLE, answer, call.PYTHON, trusted=False)
        assert "rank 0 of job 12 raised Mine: no" in str(error)
        assert not marker.exists()
    result_of(HANDLE, Answer({}, pickle.dumps(Hostile(marker))), trusted=True)
    assert marker.exists()


def test_an_exception_of_python_is_raised_as_it_is() -> None:
    for error in (ValueError("no square of 3"), OSError(2, "No such file")):
        answer = Answer({"traceback": "there"}, pickle.dumps(error))
        raised = exception_of(HANDLE, answer, call.PYTHON, trusted=False)
        assert (type(raised), str(raised)) == (type(error), str(error))
    exits = Answer({"type": "SystemExit", "rank": 0}, pickle.dumps(SystemExit(3)))
    assert isinstance(exception_of(HANDLE, exits, call.PYTHON, trusted=False), CorralError)
