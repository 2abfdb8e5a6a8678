"""The metrics' exporter listens on loopback, where any user of the controller can connect."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from corral.hosts.process import Ended
from corral.web import metrics
from corral.web.metrics import Exporter, config

RECORDED = Path(__file__).parents[2] / "recorded" / "commands"

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"up 1\n"})


@pytest.mark.enable_socket
@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nX: "])
def test_half_open_requests_keep_nobody_out(sent: bytes) -> None:
    """40 of them, for as long as they stayed open, gave Prometheus 503 alone."""

    async def work() -> bytes:
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = uvicorn.Server(config(app, port))
        serving = asyncio.create_task(server.serve([listening]))
        others = []
        for _ in range(200):
            others.append(await asyncio.open_connection("127.0.0.1", port))
            others[-1][1].write(sent)
        await asyncio.sleep(0.2)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        answer = await asyncio.wait_for(reader.read(), 10)
        for _, connection in others:
            connection.close()
        server.should_exit = True
        await serving
        return answer

    assert asyncio.run(work()).startswith(b"HTTP/1.1 200")


class Slurm:
    """Slurm's commands with what they print, or fail with."""

    def __init__(self) -> None:
        newer = RECORDED / "26.05"
        self.answers: dict[tuple[str, ...], str] = {
            ("scontrol", "show", "nodes"): (newer / "nodes.json").read_text(),
            ("scontrol", "show", "partitions"): (newer / "partitions.json").read_text(),
            ("sdiag",): (RECORDED / "24.11" / "sdiag.txt").read_text(),
            ("sshare",): (RECORDED / "24.11" / "sshare.txt").read_text(),
            ("squeue", "--noheader"): "",
            ("squeue", "--all"): json.dumps({"jobs": []}),
        }
        self.asked: Counter[str] = Counter()

    async def run(self, argv: Sequence[str], *, timeout: float, env: Mapping[str, str]) -> Ended:
        assert env["SLURM_TIME_FORMAT"] == "%s"
        self.asked[argv[0]] += 1
        for begin, text in self.answers.items():
            if tuple(argv[: len(begin)]) == begin:
                return Ended(0, text.encode(), b"")
        return Ended(1, b"", b"not running")


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    made = Slurm()
    monkeypatch.setattr(metrics.process, "run", made.run)
    return made


def polled(exporter: Exporter, monkeypatch: pytest.MonkeyPatch, count: int, apart: float) -> str:
    """The exporter's text after so many polls."""
    now = time.monotonic()
    text = ""
    for n in range(count):
        clock = SimpleNamespace(monotonic=lambda n=n: now + n * apart, time=time.time)
        monkeypatch.setattr(metrics, "time", clock)
        text = asyncio.run(exporter.text())
    return text


def test_without_accounting_there_are_no_shares_and_everything_else(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del slurm.answers["sshare",]
    text = polled(Exporter(), monkeypatch, 5, 100)
    assert "corral_slurm_up 1" in text
    assert "corral_scheduler_cycles_total 10" in text
    assert "corral_account_shares_ratio" not in text
    assert capsys.readouterr().err.count("sshare: not running") == 1, "once, not at each poll"


def test_shares_are_asked_once_a_minute(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    text = polled(Exporter(), monkeypatch, 12, 11)
    assert 'corral_account_shares_ratio{account="corral"} 0.5' in text
    assert slurm.asked["sdiag"] == 12
    assert slurm.asked["sshare"] == 2


def test_without_slurmctld_there_is_nothing_of_slurm(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    del slurm.answers["scontrol", "show", "nodes"]
    text = polled(Exporter(), monkeypatch, 1, 0)
    assert "corral_slurm_up 0" in text
    assert "corral_node" not in text
    assert "corral_scheduler" not in text
