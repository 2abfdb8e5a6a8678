# Installed as: the job's folder (api/evidence/collective_bench, api/evidence/node_bench)
# Started by: srun, in a job of measurements
# Runs as: the user who starts the benchmark
# pyright: basic, reportMissingImports=false
# It runs under the node's own Python, not under Corral's.
"""Measures the network between nodes: throughput, latency, MTU, and which interface carries it.

One process per node, started by srun. All of them go through the same parts in the same order; each
part ends when all have reported what they saw. Rank 0 writes one line for each thing measured.

Standard library of Python >= 3.8 and ``rendezvous.py`` next to it only; nothing else of Corral,
for the node does not have it.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import socket
import statistics
import struct
import sys
import threading
import time
from pathlib import Path

from rendezvous import Rendezvous

WAIT_S = 120  # a rank that never comes is an error after so long, and no hanging job
STUCK_S = 5  # a stream that moves nothing for so long carries nothing: large packets are lost
SMALL = 536  # bytes of a segment among ranks: their own words pass where large packets are lost
CHUNK = 1 << 20
SLOW = 0.7  # of what is due: measured again
WARM_S = 0.25  # of each stream: TCP opens its window, a token bucket gives away its burst
NET = Path("/sys/class/net")
SIOCGIFADDR = 0x8915
# linux/in.h; Python's socket module names them from 3.14 on.
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3  # PROBE: do-not-fragment, and ask the path again
HEADERS = 28  # IPv4 and UDP
RETRANSMITTED = 100  # linux/tcp.h: tcp_info.tcpi_total_retrans


def text_of(path: Path) -> str:
    """A small file of the kernel, "" where it is not there or gives none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def address_of(interface: str) -> str:
    """An interface's IPv4 address, "" when it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            name = struct.pack("256s", interface.encode()[:15])
            return socket.inet_ntoa(fcntl.ioctl(asked.fileno(), SIOCGIFADDR, name)[20:24])
        except OSError:
            return ""


def interface_to(peer: str) -> str:
    """The interface that holds the address from which a peer would be reached."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect((peer, 9))
        mine = asked.getsockname()[0]
    names = sorted(path.name for path in NET.iterdir())
    return next((name for name in names if address_of(name) == mine), "")


def counters(direction: str) -> dict:
    """Bytes of each interface so far; ``direction`` is rx or tx."""
    names = [path.name for path in NET.iterdir()]
    return {n: int(text_of(NET / n / "statistics" / f"{direction}_bytes") or 0) for n in names}


def rounds(count: int) -> list:
    """All pairs of ranks, in rounds of disjoint ones: the circle method of tournaments."""
    ring: list = [*range(count), None] if count % 2 else list(range(count))
    turns = []
    for _ in ring[1:]:
        half = [(ring[i], ring[-1 - i]) for i in range(len(ring) // 2)]
        turns.append([pair for pair in half if None not in pair])
        ring.insert(1, ring.pop())
    return turns


class Network:
    """One rank's share of the measurement of the network."""

    def __init__(self, meet: Rendezvous, options: argparse.Namespace) -> None:
        self.meet, self.options = meet, options
        name = options.interface or interface_to(meet.master)
        self.interface = name
        here = {
            "node": meet.node,
            "interface": name,
            "address": address_of(name),
            "mtu": int(text_of(NET / name / "mtu") or 0) if name else 0,
            "speed": int(text_of(NET / name / "speed") or 0) if name else 0,
            "physical": bool(name) and (NET / name / "device").exists(),
        }
        bound = here["address"]
        self.tcp = socket.create_server((bound, 0), backlog=256)
        self.tcp.settimeout(WAIT_S)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.udp.bind((bound, 0))
        here.update(tcp=self.tcp.getsockname()[1], udp=self.udp.getsockname()[1])
        self.members = meet.share(here)
        meet.report("members", {"members": self.members})
        missing = [m["node"] for m in self.members if not m["address"]]
        if missing:
            sys.exit(0)  # nothing to measure: the line above names the nodes without the interface

    def run(self) -> None:
        """Each ordered pair of nodes, disjoint pairs at the same time."""
        threading.Thread(target=self.echo, daemon=True).start()
        rates = {}
        for turn in rounds(self.meet.ranks):
            rates.update(self.directed(turn))
            rates.update(self.directed([(b, a) for a, b in turn]))
        # What was slow in parallel with others is measured alone: a pair that is fast then shares a
        # link with others, one that is slow then is slow.
        best = sorted(rates.values(), reverse=True)
        expected = self.options.expect or (best[len(best) // 4] if best else 0)
        slow = [pair for pair, rate in sorted(rates.items()) if rate < expected * SLOW]
        for pair in slow[: 2 * self.meet.ranks]:
            self.directed([pair], alone=True)

    def directed(self, pairs: list, *, alone: bool = False) -> dict:
        """Latency and MTU, then throughput of pairs (sender, receiver); gives Gb/s of each."""
        mine = next((p for p in pairs if self.meet.rank in p), None)
        self.meet.share()
        sender = mine is not None and mine[0] == self.meet.rank
        probe, flow = None, None
        if mine is not None:
            probe = self.probe(mine) if sender else self.answer()
        probes = self.meet.share(probe)
        if mine is not None:
            flow = self.send(mine) if sender else self.receive()
        flows = self.meet.share(flow)
        for a, b in pairs:
            names = {"from": self.members[a]["node"], "to": self.members[b]["node"]}
            record = {**names, "alone": alone, **flows[b], **flows[a], **probes[a]}
            self.meet.report("flow", record)
        return {(a, b): flows[b]["gbps"] for a, b in pairs}

    def to(self, rank: int) -> socket.socket:
        """A connection from the data address to another rank's."""
        peer = self.members[rank]
        source = (self.members[self.meet.rank]["address"], 0)
        return socket.create_connection((peer["address"], peer["tcp"]), WAIT_S, source)

    def send(self, pair: tuple) -> dict:
        """Fill the streams for the time that was asked for."""
        before, data = counters("tx"), memoryview(os.urandom(CHUNK))
        streams = [self.to(pair[1]) for _ in range(self.options.streams)]
        end = time.monotonic() + WARM_S + self.options.seconds
        again: list = []

        def fill(stream: socket.socket) -> None:
            stream.settimeout(STUCK_S)
            with contextlib.suppress(OSError):  # what came until then was counted
                while time.monotonic() < end:
                    stream.sendall(data)
                stream.shutdown(socket.SHUT_WR)
                stream.recv(1)  # nothing comes: the other side has it all, and so have the counters
            info = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
            again.append(struct.unpack_from("I", info, RETRANSMITTED)[0])
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            stream.close()

        together(fill, streams)
        return {"retransmits": sum(again), "tx": moved(before, counters("tx"))}

    def receive(self) -> dict:
        """Count what comes after the streams have warmed up."""
        before = counters("rx")
        streams = [self.tcp.accept()[0] for _ in range(self.options.streams)]
        start = time.monotonic()
        counted: list = []

        def drain(stream: socket.socket) -> None:
            buffer, total, early, last = bytearray(CHUNK), 0, 0, start
            stream.settimeout(STUCK_S)
            with contextlib.suppress(OSError):
                while got := stream.recv_into(buffer):
                    last, total = time.monotonic(), total + got
                    if last - start < WARM_S:
                        early = total
            counted.append((total, total - early, last))
            stream.close()

        together(drain, streams)
        spent = max(last for _, _, last in counted) - start - WARM_S
        late = sum(size for _, size, _ in counted)
        return {
            "gbps": late * 8 / max(spent, 1e-3) / 1e9,
            "bytes": sum(total for total, _, _ in counted),
            "rx": moved(before, counters("rx")),
        }

    def probe(self, pair: tuple) -> dict:
        """Round trips of one byte, and the largest packet that passes unfragmented."""
        trips = []
        with self.to(pair[1]) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(self.options.trips):
                start = time.perf_counter()
                connection.sendall(b"x")
                connection.recv(1)
                trips.append((time.perf_counter() - start) * 1e6)
        trips.sort()
        return {
            "rtt_us": statistics.median(trips),
            "rtt_p99_us": trips[int(len(trips) * 0.99)],
            "path_mtu": self.path_mtu(self.members[pair[1]]),
        }

    def answer(self) -> dict:
        """Return each byte until the other side closes."""
        connection = self.tcp.accept()[0]
        with connection:
            connection.settimeout(WAIT_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while connection.recv(1):
                connection.sendall(b"y")
        return {}

    def path_mtu(self, peer: dict) -> int:
        """The largest IPv4 packet with the do-not-fragment bit that arrives; 0: none does."""
        mine = self.members[self.meet.rank]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((mine["address"], 0))
            probe.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
            probe.connect((peer["address"], peer["udp"]))
            probe.settimeout(0.2)

            def passes(size: int) -> bool:
                for turn in range(3):  # a lost packet is not a small MTU
                    with contextlib.suppress(OSError):  # too long for this interface, or no answer
                        word = struct.pack("II", size, turn)
                        probe.send(word.ljust(size - HEADERS, b"\0"))
                        while probe.recv(64)[:8] != word:
                            pass
                        return True
                return False

            if passes(mine["mtu"]):
                return mine["mtu"]
            good, bad = 0, mine["mtu"]
            for size in (576, 1280, 1420, 1500, 9000):
                if size < bad and size > good:
                    good, bad = (size, bad) if passes(size) else (good, size)
            while good and bad - good > 1:
                middle = (good + bad) // 2
                good, bad = (middle, bad) if passes(middle) else (good, middle)
            return good

    def echo(self) -> None:
        """Acknowledge each packet to its sender, by its first eight bytes."""
        while True:
            with contextlib.suppress(OSError):
                data, peer = self.udp.recvfrom(1 << 16)
                self.udp.sendto(data[:8], peer)


def together(work, streams: list) -> None:
    """One thread for each stream: the interpreter's lock is free while the kernel copies."""
    threads = [threading.Thread(target=work, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def moved(before: dict, after: dict) -> dict:
    """Bytes that each interface carried meanwhile."""
    return {n: after[n] - before.get(n, 0) for n in after if after[n] > before.get(n, 0)}


def options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--interface", default="", help="left out: the one that leads to rank 0")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each stream")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument(
        "--expect", type=float, default=0, help="expected Gb/s; 0: what others reach"
    )
    parser.add_argument("--trips", type=int, default=300, help="round trips for the latency")
    return parser.parse_args()


def main() -> None:
    """Measure what was asked for."""
    asked, meet = options(), Rendezvous(WAIT_S, SMALL)
    Network(meet, asked).run()
    meet.share()


if __name__ == "__main__":
    main()
