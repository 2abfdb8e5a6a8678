"""A server as a job, started, reached and ended by the commands of the recipe."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.embedded.conftest import EXAMPLES

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

CORRAL = Path(sys.executable).with_name("corral")


@contextmanager
def server_of(
    cluster: Live, folder: Path, options: Sequence[str], serve: Sequence[str], port: int
) -> Iterator[str]:
    """The address here of a server that is a job; the job is cancelled at the end.

    Args:
        cluster: where it runs.
        folder: for a cluster file.
        options: of ``corral run``.
        serve: the server's command.
        port: where it listens on its node.
    """
    text = (EXAMPLES / "laptop.yaml").read_text().replace("laptop", cluster.spec.name)
    (folder / "lab.yaml").write_text(text)

    def typed(*words: str) -> str:
        argv = [CORRAL, *words]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    of_lab = ("-c", "lab.yaml")
    made = typed("run", *of_lab, "-G1", "--detach", "--json", *options, "--", *serve)
    job = str(json.loads(made)["id"])
    try:
        follow = [CORRAL, "logs", job, "--follow", *of_lab]
        with subprocess.Popen(follow, cwd=folder, stdout=subprocess.PIPE, text=True) as logs:
            assert logs.stdout is not None
            assert any("startup complete" in line for line in logs.stdout), "the job ended"
            logs.send_signal(signal.SIGINT)
        forward = [CORRAL, "forward", job, str(port), *of_lab, "--json"]
        with subprocess.Popen(forward, cwd=folder, stdout=subprocess.PIPE, text=True) as tunnel:
            assert tunnel.stdout is not None
            yield str(json.loads(tunnel.stdout.readline())["url"])
            typed("cancel", job, *of_lab)
            assert tunnel.wait(60) == 0
    finally:
        subprocess.run([CORRAL, "cancel", job, *of_lab], cwd=folder, check=False)
