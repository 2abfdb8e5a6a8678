"""Functions as jobs: the example of docs/guide/jobs.md, results, failures, arrays, two nodes.

The nodes' Python is another one than this machine's, as it often is.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, as_completed, wait
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from tests.guide_blocks import not_printed, run_by

from corral.api.cluster import Cluster
from corral.api.workload.function import JobFuture
from corral.errors import Code, CorralError
from corral.hosts.quote import sh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

EXAMPLE = Path(__file__).parents[2] / "examples/functions/run.py"
WAIT_S = 240.0
MODULE = """\
import os
import time

from helpers.words import twice

def add(first, second):
    print("adding", first, second)
    return twice(first) + second

def square(number):
    if number == 3:
        raise ValueError(f"no square of {number}")
    return number * number

def ranks():
    return os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["SLURM_JOB_NUM_NODES"]

def second_fails():
    if os.environ["RANK"] == "1":
        raise LookupError("on the second rank")
    time.sleep(300)

def sleep(seconds):
    time.sleep(seconds)
    return seconds

def leave():
    os._exit(0)

def large():
    return bytes(33 << 20)
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """A module of a project, in a folder that Python imports from here."""
    project = tmp_path_factory.mktemp("project")
    (project / ".corralignore").write_text("")
    (project / "source/helpers").mkdir(parents=True)
    (project / "source/function_work.py").write_text(MODULE)
    (project / "source/helpers/words.py").write_text("def twice(number):\n    return 2 * number\n")
    sys.path.insert(0, str(project / "source"))
    try:
        yield importlib.import_module("function_work")
    finally:
        sys.path.remove(str(project / "source"))


@pytest.fixture(scope="module")
def lab(cluster: Live) -> Cluster:
    return Cluster(cluster.spec)


@pytest.fixture(scope="module")
def limited(lab: Cluster, work: ModuleType) -> JobFuture[float]:
    """A job over its time limit, which takes a minute: submitted first, looked at last."""
    return lab.submit(work.sleep, 600, time="1m")


def test_the_example(cluster: Live, limited: JobFuture[float]) -> None:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLE), cluster.spec.name],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("pi is about 3.14\n")
    (block,) = run_by(__file__)
    assert block.text == EXAMPLE.read_text()
    assert not_printed(block.shown, ended.stdout) == []
    assert not limited.cancelled()


def test_a_result_of_a_module_that_imports_another_of_the_project(
    lab: Cluster, work: ModuleType
) -> None:
    future = lab.submit(work.add, 20, 2, name="adding")
    assert future.result(WAIT_S) == 42
    assert not future.running()
    assert future.done()
    assert not future.cancel()
    assert [line.text for line in future.job.logs()] == ["adding 20 2"]
    assert future.job.handle.name == "adding"


def test_one_of_five_parts_fails(lab: Cluster, work: ModuleType) -> None:
    futures = lab.map(work.square, [1, 2, 3, 4, 5])
    assert len({future.job.id for future in futures}) == 1
    assert {*as_completed(futures, WAIT_S)} == {*futures}
    assert [future.result() for future in futures if future is not futures[2]] == [1, 4, 16, 25]
    with pytest.raises(ValueError, match="no square of 3") as caught:
        futures[2].result()
    assert 'raise ValueError(f"no square of {number}")' in str(caught.value.__cause__)


def test_two_nodes_have_one_result_and_one_exception(lab: Cluster, work: ModuleType) -> None:
    good, bad = lab.submit(work.ranks, nodes=2), lab.submit(work.second_fails, nodes=2)
    assert wait([good, bad], WAIT_S, FIRST_EXCEPTION).done
    assert good.result(WAIT_S) == ("0", "2", "2")
    assert isinstance(bad.exception(WAIT_S), LookupError)


def test_a_running_job_is_cancelled(lab: Cluster, work: ModuleType) -> None:
    future = lab.submit(work.sleep, 600)
    called: list[str] = []
    future.add_done_callback(lambda each: called.append(future.id))
    until = time.monotonic() + WAIT_S
    while not future.running() and time.monotonic() < until:
        time.sleep(0.5)
    assert future.running()
    assert future.cancel()
    assert future.cancelled()
    assert wait([future], 0).done == {future}
    assert called == [future.id]
    assert future.job.wait(WAIT_S).good is False


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("leave", Code.NOT_GOOD, "ended without a result"),
        ("large", Code.NOT_GOOD, "is 33 MiB: 32 MiB are the most"),
    ],
)
def test_no_result(lab: Cluster, work: ModuleType, name: str, code: Code, text: str) -> None:
    error = lab.submit(getattr(work, name)).exception(WAIT_S)
    assert isinstance(error, CorralError)
    assert error.code is code
    assert text in str(error)


def test_code_of_another_python_is_refused_in_one_sentence(lab: Cluster, cluster: Live) -> None:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    ask = sh("python3 -c {program}", program="import sys; print('%d.%d' % sys.version_info[:2])")
    node = cluster.run(cluster.controller, ask).stdout.strip()
    future = lab.submit(lambda: 1)
    if node == here:
        assert future.result(WAIT_S) == 1
        return
    error = future.exception(WAIT_S)
    assert isinstance(error, CorralError)
    assert str(error) == (
        f"job {future.id} has Python {node} and the function is code of Python {here}"
    )


def test_a_file_that_others_may_write_is_not_read(
    lab: Cluster, work: ModuleType, cluster: Live
) -> None:
    future = lab.submit(work.sleep, 5)
    cluster.run(cluster.controller, sh("chmod 0777 {folder}", folder=future.job.folder))
    error = future.exception(WAIT_S)
    assert isinstance(error, CorralError)
    assert "others may write to it" in error.tail


def test_a_time_limit(limited: JobFuture[float]) -> None:
    error = limited.exception(WAIT_S)
    assert isinstance(error, CorralError)
    assert str(error).endswith(f"job {limited.id} ended as TIMEOUT")
    assert "time limit" in error.hint.lower()
