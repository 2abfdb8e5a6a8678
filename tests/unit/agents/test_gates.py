"""Programs that a change asks until they succeed: none holds it longer than its own limit."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from corral.agents import program
from tests.dripping import HEAD, dripping


@pytest.mark.enable_socket
@pytest.mark.parametrize("name", ["prometheus", "mlflow"])
def test_an_answer_of_single_bytes_is_not_waited_for(name: str) -> None:
    """Each read had a limit, and all of them together none."""
    text = program(f"gates/{name}.py")
    assert "signal.alarm(10)" in text
    with dripping(HEAD) as port:
        where = str(port) if name == "prometheus" else f"http://127.0.0.1:{port}"
        argv = [sys.executable, "-c", text.replace("alarm(10)", "alarm(1)"), where]
        done = subprocess.run(argv, capture_output=True, check=False)
    assert done.returncode == -signal.SIGALRM
