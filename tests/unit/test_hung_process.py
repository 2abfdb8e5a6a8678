"""What a process that does not end reports, and that it does so with CORRAL_DEBUG alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.hung_process import DEBUG, looked_at

STUCK = """\
import asyncio
from corral.runtime.stack_dump import on_signal

on_signal()


async def waits_in_vain():
    child = await asyncio.create_subprocess_exec("sleep", "100")
    print("on", flush=True)
    try:
        await child.wait()
    finally:
        child.kill()


asyncio.run(waits_in_vain())
"""


@contextmanager
def started(**env: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    words = [sys.executable, "-c", STUCK, "corral"]
    kept = {name: value for name, value in os.environ.items() if name != "CORRAL_DEBUG"}
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env={**kept, **env}) as made:
        assert made.stdout is not None
        assert made.stdout.readline() == "on\n"
        try:
            yield made
        finally:
            made.send_signal(2)


def test_it_prints_its_stacks_and_goes_on() -> None:
    with started(**DEBUG) as process:
        seen = looked_at(process.pid)
        assert f"{process.pid} (of {os.getpid()})" in seen
        assert "sleep 100" in seen
        assert process.stderr is not None
        printed = ""
        while "waits_in_vain" not in printed:  # the tasks' stacks come last
            line = process.stderr.readline()
            assert line, printed
            printed += line
        assert "most recent call first" in printed
        assert process.poll() is None


def test_without_the_variable_it_is_let_be() -> None:
    with started() as process:
        assert "sleep 100" in looked_at(process.pid)
        assert process.poll() is None
