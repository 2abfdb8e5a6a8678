"""Arrays: squeue's and sacct's lines in, parts out; what sstat reports; what is pinned."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import cast

import pytest

from corral.errors import CorralError
from corral.events import Event
from corral.hosts.fleet import Fleet
from corral.hosts.quote import NOTHING, Script
from corral.hosts.transport import OnLine, Result
from corral.jobs.arrays import array_state, follow_array
from corral.jobs.batch.environment import unpinned
from corral.jobs.handle import JobHandle
from corral.jobs.usage import in_words
from corral.slurm.job_use import readable_step_use
from corral.slurm.states.jobs import JobState
from tests.fakes import framed, word_of

HANDLE = JobHandle(12, "sweep", "corral", "/shared/x", 1, "node0", (0, 1, 2, 3, 7))
ABOUT = '{"logs": 1, "job": {"sweep": {"lr": ["a", "b"], "s": ["1", "2"]}}}\n'


def past(task: int, state: str, code: str) -> str:
    return "|".join(
        (
            f"12_{task}",
            "13",
            state,
            code,
            "0:0",
            "main",
            "corral",
            "corral",
            "1",
            "1",
            "cpu=1",
            "cpu=1",
            "62",
            "1",
            "2",
            "64",
            "node1",
            "sweep",
        )
    )


@dataclass
class Controller:
    """Answers the room's scripts by what is in them."""

    watch: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    last: str = ""
    ended: str = ""
    queue: str = ""

    async def run(
        self,
        node: str,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 1,
        on_line: OnLine | None = None,
    ) -> Result:
        if "while :" in script:
            for line in self.watch:
                assert on_line is not None
                on_line(line)
            return Result(node, 0, "", "")
        if "job.json" not in script:
            return Result(node, 0, self.queue, "")
        mark = script.split("--delimiter=")[1].split(" ")[0]
        history = "\n".join(self.history).replace("|", mark)
        parts = {"about": ABOUT, "history": history, "last": self.last, "ended": self.ended}
        return Result(node, 0, framed(dict.fromkeys(parts, NOTHING), parts, word_of(script)), "")

    @property
    def fleet(self) -> Fleet:
        return cast("Fleet", self)


def test_an_array_to_its_end() -> None:
    events: list[Event] = []
    controller = Controller(
        watch=(
            "q 12_[1-3,7%2]|PENDING|Resources|N/A",
            "q 12_0|RUNNING|None|1",
            ".",
            "h",
            "q 12_0|COMPLETED|None|1",
            "q 12_1|FAILED|NonZeroExitCode|1",
            "q 12_[2-3]|PENDING|JobArrayTaskLimit|N/A",
            "q 12_7|RUNNING|None|1",
            ".",
            "q 12_2|COMPLETED|None|1",
            "q 12_3|OUT_OF_MEMORY|None|1",
            "q 12_7|COMPLETED|None|1",
            ".",
        ),
        history=(past(0, "COMPLETED", "0:0"), past(1, "FAILED", "5:0")),
        last="0 accuracy 0.9\n1 a line with  spaces\n",
        ended="2 0\n3 125\n",
    )
    array = asyncio.run(follow_array(controller.fleet, HANDLE, events.append))
    assert [event.message for event in events] == [
        "4 pending, 1 running",
        "1 completed, 1 failed, 2 pending, 1 running",
        "3 completed, 1 failed, 1 out of memory",
    ]
    assert [part.state for part in array.parts] == [
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.COMPLETED,
        JobState.OUT_OF_MEMORY,
        JobState.COMPLETED,
    ]
    assert [part.exit_code and part.exit_code.status for part in array.parts] == [
        0,
        5,
        0,
        125,
        None,
    ]
    assert array.parts[1].last == "a line with  spaces"
    assert dict(array.parts[3].point or {}) == {"lr": "b", "s": "2"}
    assert (array.good, array.ended) == (False, True)
    assert array.as_dict()["counts"] == {"completed": 3, "failed": 1, "out of memory": 1}


def test_an_array_that_slurm_has_forgotten() -> None:
    controller = Controller(history=(past(0, "COMPLETED", "0:0"),), ended="1 3\n")
    array = asyncio.run(array_state(controller.fleet, HANDLE))
    assert [part.state for part in array.parts] == [
        JobState.COMPLETED,
        JobState.FAILED,
        None,
        None,
        None,
    ]
    assert not array.good


def test_why_all_of_it_is_pending_is_reported() -> None:
    events: list[Event] = []
    controller = Controller(watch=("q 12_[0-3,7]|PENDING|ReqNodeNotAvail, down|N/A", "."))
    asyncio.run(follow_array(controller.fleet, HANDLE, events.append))
    assert events[0].message.startswith("5 pending: nodes it needs are down")


def test_a_job_that_is_none() -> None:
    with pytest.raises(CorralError):
        asyncio.run(array_state(Controller().fleet, JobHandle(1, "a", "b", "/c", 1, "node0")))
    with pytest.raises(CorralError):
        HANDLE.part(4)
    assert HANDLE.part(7).ref == "12_7"
    assert HANDLE.part(7).folder == "/shared/x/task-7"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "12.0|2|00:01:02|1536M|cpu=00:02,mem=3072M",
            "3.0 GiB of memory (largest rank 1.5 GiB), 62 s of CPU time a rank",
        ),
        ("12.0|1|00:00:00|100K|mem=200000K", "195 MiB of memory"),
        (
            "12_3.0|1||1M|mem=2M,gres/gpuutil=87,gres/gpumem=20480M",
            "2 MiB of memory, GPUs 87 %, GPU memory 20 GiB",
        ),
        ("12.batch|1|00:00:01|1M|mem=2M", ""),
        ("12.extern|1|00:00:01|1M|mem=2M", ""),
        ("slurm_load_job_step error", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_use_in_words(line: str, words: str) -> None:
    use = readable_step_use(line)
    assert (in_words(use) if use else "") == words


def test_what_is_pinned() -> None:
    text = (
        "# made by uv\nnumpy==2.1.0 \\\n    --hash=sha256:aa\nfoo[a,b]==1 ; python_version < '4'\n"
        "local @ file:///x.whl\n--find-links /w\n"
    )
    assert unpinned(text) == []
    assert unpinned("torch>=2\nnumpy\n-r more.txt\n-e .\n") == [
        "torch>=2",
        "numpy",
        "-r more.txt",
        "-e .",
    ]
