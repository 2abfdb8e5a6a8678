"""The page's server in a separate process, over a slurmrestd that the caller plays."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Generator
from contextlib import contextmanager


@contextmanager
def page(
    slurm: str, *, cluster: str = "big", private: Collection[str] = ()
) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Start the page's server and end it afterwards.

    Args:
        slurm: where slurmrestd answers, such as ``http://127.0.0.1:6820``.
        cluster: the name that the page shows.
        private: what Slurm hides of users from each other, in the words of PrivateData.

    Yields:
        Its process, whose memory may be measured, and its address.

    Raises:
        RuntimeError: it ended before it listened.
    """
    # Three of the fields of corral.web.settings.Settings, which this room may not import.
    settings = {"cluster": cluster, "rest": slurm, "private": sorted(private)}
    argv = [sys.executable, "-m", "corral.web"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("no pipes")
            process.stdin.write(json.dumps(settings) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the page's server ended before it listened")
            yield process, f"http://127.0.0.1:{json.loads(line)['port']}"
        finally:
            process.terminate()
