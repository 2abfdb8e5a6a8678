# Installed as: the job's folder, next to network.py and storage.py (api/evidence/collective_bench,
# api/evidence/node_bench)
# Started by: network.py, storage.py
# Runs as: the user who starts the benchmark
# pyright: basic
# It runs under the node's own Python, not under Corral's.
"""Joins a job's ranks through rank 0, so that each has what all of them measured.

Standard library of Python >= 3.8 only; nothing of Corral, for the node does not have it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

MARK = os.environ.get("CORRAL_REPORT", "@@corral-")
COME_S = 120  # rank 0 is waited for so long
PORT = "29400"


class Rendezvous:
    """All ranks, joined through rank 0.

    Args:
        wait_s: a rank that sends nothing for so long is an error and not a hanging job.
        segment: bytes of a TCP segment at most; 0: as the path takes them.
    """

    def __init__(self, wait_s: float, segment: int = 0) -> None:
        self.rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
        self.ranks = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))
        self.node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
        self.master = os.environ.get("MASTER_ADDR", "127.0.0.1")
        self.port = int(os.environ.get("MASTER_PORT", PORT))
        self.wait_s, self.segment = wait_s, segment
        if self.rank:
            self.files = [self.file(self.connected())]
        else:
            self.files = (
                [self.file(connection) for connection in self.accepted()] if self.ranks > 1 else []
            )

    def socket(self) -> socket.socket:
        """A TCP socket with small segments where they are asked for."""
        connection = socket.socket()
        if self.segment:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, self.segment)
        return connection

    def accepted(self) -> list:
        """All other ranks' connections, on rank 0."""
        with self.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", self.port))
            listener.listen(self.ranks)
            listener.settimeout(self.wait_s)
            return [listener.accept()[0] for _ in range(self.ranks - 1)]

    def connected(self) -> socket.socket:
        """The connection to rank 0, on any other."""
        end = time.monotonic() + COME_S
        while True:
            connection = self.socket()
            connection.settimeout(5)
            try:
                connection.connect((self.master, self.port))
            except OSError:
                connection.close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)  # rank 0 is not there yet
            else:
                return connection

    def file(self, connection: socket.socket):
        """Lines over a connection."""
        connection.settimeout(self.wait_s)
        return connection.makefile("rw", encoding="utf-8", newline="\n")

    def share(self, mine: object = None) -> list:
        """What each rank brought, by rank; nobody goes on before all have."""
        if self.rank:
            (file,) = self.files
            self.write(file, [self.rank, mine])
            return self.read(file)
        values: list = [mine] + [None] * (self.ranks - 1)
        for file in self.files:
            rank, value = self.read(file)
            values[rank] = value
        for file in self.files:
            self.write(file, values)
        return values

    @staticmethod
    def read(file) -> list:
        """One line; an end of the other side is an error here."""
        line = file.readline()
        if not line:
            sys.exit("another rank ended early; its own log shows why")
        return json.loads(line)

    @staticmethod
    def write(file, value: object) -> None:
        """One line."""
        file.write(json.dumps(value) + "\n")
        file.flush()

    def report(self, kind: str, record: dict) -> None:
        """One line of the result, from rank 0."""
        if self.rank == 0:
            sys.stdout.write(f"{MARK}{kind} {json.dumps(record)}\n")
            sys.stdout.flush()
