"""Viewers of the page while others on the same machine flood it with connections.

    .venv/bin/python -m benchmarks.page_flood [--seconds 8] [--uid 65534] [--rate 1500]

``--only WORDS`` takes one flood. Each runs in a separate process, as ``--uid`` (root only; 0: the
viewers' own user). Viewers ask ``/api/me`` five times a second each: half of them keep their
connection, half open one for each request. What is printed is the share that was answered within
2 s, the median and the worst time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import select
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

import httpx

from benchmarks.web import player, session_headers, token
from corral.testing.page import page

VIEWERS = 10
PAUSE_S = 0.2
PATIENCE_S = 2.0
GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
FLOODS = {
    "none": "",
    "half-open requests from 1,000 addresses": "half",
    "connections that close at once": "close",
    "connections that send a request and close": "get",
    "requests from 1,000 addresses, answers unread": "unread",
}


def flood(kind: str, port: int, rate: int) -> None:
    """Until killed; prints how many connections a second."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    sent = {"half": b"GET / HTTP/1.1\r\nX: ", "get": GET, "unread": GET * 20}.get(kind, b"")
    opened, begun, kept = 0, time.monotonic(), list[socket.socket]()
    while True:
        if opened > (time.monotonic() - begun) * rate:
            time.sleep(0.002)
            if opened % 50 == 0:
                print(round(opened / (time.monotonic() - begun)), flush=True)
        opened += 1
        kept.append(connected(f"127.1.{opened // 250 % 4}.{opened % 250 + 1}", port, sent))
        if kind not in {"half", "unread"} or len(kept) >= 1000:
            kept.pop(0).close()


def connected(source: str, port: int, sent: bytes) -> socket.socket:
    client = socket.socket()
    client.setblocking(False)
    with suppress(OSError):
        client.bind((source, 0))
        with suppress(BlockingIOError):
            client.connect(("127.0.0.1", port))
        if sent:
            select.select([], [client], [], 0.05)
            client.send(sent)
    return client


async def viewer(url: str, headers: dict[str, str], until: float, *, keep: bool) -> list[float]:
    """Seconds of each request; PATIENCE_S and more where there was no answer."""
    took = list[float]()
    limits = httpx.Limits(max_keepalive_connections=10 if keep else 0)
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, limits=limits) as http:
        while time.monotonic() < until:
            begun = time.monotonic()
            try:
                reply = await http.get("/api/me", headers=headers)
                good = reply.status_code == 200
            except httpx.HTTPError:
                good = False
            took.append(time.monotonic() - begun if good else PATIENCE_S * 2)
            await asyncio.sleep(PAUSE_S)
    return took


async def viewed(url: str, headers: dict[str, str], seconds: float) -> str:
    until = time.monotonic() + seconds
    every = await asyncio.gather(
        *(viewer(url, headers, until, keep=n % 2 == 0) for n in range(VIEWERS))
    )
    words = list[str]()
    for name, mine in (("kept", every[::2]), ("new", every[1::2])):
        times = sorted(t for samples in mine for t in samples)
        good = [t for t in times if t < PATIENCE_S]
        middle = f"{median(good):.3f}" if good else "-"
        worst = f"{max(good):.2f}" if good else "-"
        share = 100 * len(good) / max(1, len(times))
        words.append(
            f"{name}: {share:5.1f} % of {len(times):3}, median {middle} s, worst {worst} s"
        )
    return "; ".join(words)


def busy(pid: int) -> float:
    """Seconds of CPU so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--uid", type=int, default=65534)
    parser.add_argument("--rate", type=int, default=1500)
    parser.add_argument("--only", default="")
    parser.add_argument("--flood", nargs=2)
    args = parser.parse_args()
    if args.flood:
        return flood(args.flood[0], int(args.flood[1]), args.rate)
    if args.uid and os.geteuid():
        parser.error("floods as another user need root: run it as root, or with --uid 0")
    with player(10, 10) as slurm, page(slurm) as (server, url):
        reply = httpx.post(f"{url}/api/login", json={"token": token()})
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in reply.cookies.jar)
        headers = {"cookie": cookies, **session_headers(reply)}
        for words, kind in FLOODS.items():
            if args.only not in words:
                continue
            argv = [
                sys.executable,
                "-m",
                "benchmarks.page_flood",
                f"--rate={args.rate}",
                "--flood",
                kind,
                url.rpartition(":")[2],
            ]
            flooder = None
            if kind:
                flooder = subprocess.Popen(
                    argv, stdout=subprocess.PIPE, text=True, user=args.uid or None
                )
                time.sleep(2)
            before, begun = busy(server.pid), time.monotonic()
            shown = asyncio.run(viewed(url, headers, args.seconds))
            share = 100 * (busy(server.pid) - before) / (time.monotonic() - begun)
            rate = ""
            if flooder is not None:
                flooder.terminate()
                out, _ = flooder.communicate()
                rate = f" ({out.split()[-1] if out.split() else '?'} connections/s)"
            print(f"{words}{rate}\n    {shown}; server {share:.0f} % of a CPU", flush=True)
            time.sleep(2)


if __name__ == "__main__":
    main()
