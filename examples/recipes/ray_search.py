"""Ray over the nodes of a job: one `ray start` a node, work on all of them, and all of it ends.

    corral run ray_search.py -N3 -G1 --ranks-per-node 1 --python /shared/venv

Slurm starts one rank a node. Rank 0 is Ray's head, at MASTER_ADDR; the others join it. Rank 0 then
searches a learning rate by tasks of Ray. Slurm ends Ray with the job's step: `ray stop` would end
all of your Ray on a node, that of other jobs too. Ends with status 1 when a node is missing.

Whoever reaches Ray's ports runs programs as you: requests need a token, which rank 0 writes into
the job's folder, for you alone. Needs Ray 2.52 or later: older ones have no tokens.
"""

import json
import math
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TOKEN = Path(os.environ["CORRAL_JOB_FOLDER"]) / "ray.token"
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(TOKEN))  # read by the import

import ray  # noqa: E402

RAY = Path(sys.executable).with_name("ray")
RANK, NODES = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
HEAD = (socket.gethostbyname(os.environ["MASTER_ADDR"]), int(os.environ["MASTER_PORT"]))
JOIN_S = 120
POLL_S = 0.5


def start(*words: str) -> None:
    """Ray on this node, with what the job has of it."""
    cpus = len(os.sched_getaffinity(0))
    gpus = os.environ.get("SLURM_GPUS_ON_NODE", "0")
    own = ("--num-cpus", str(cpus), "--num-gpus", gpus, "--disable-usage-stats")
    subprocess.run([RAY, "start", *own, *words], check=True, stdout=subprocess.DEVNULL)


def write_token() -> None:
    """A new one, also when Slurm starts the job again."""
    new = TOKEN.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    new.replace(TOKEN)


def listens() -> bool:
    """Whether Ray's head answers."""
    try:
        socket.create_connection(HEAD, timeout=5).close()
    except OSError:
        return False
    return True


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until it is true, and whether it became so."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


@ray.remote
def trial(rate: float) -> tuple[float, float, str]:
    """Gradient descent on a parabola: what a training of yours would be."""
    weight = 10.0
    for _ in range(50):
        weight -= rate * 2 * weight
    time.sleep(0.5)
    return (abs(weight) if math.isfinite(weight) else math.inf), rate, socket.gethostname()


def head() -> int:
    address, port = HEAD
    write_token()
    start("--head", f"--node-ip-address={address}", f"--port={port}", "--include-dashboard=false")
    ray.init(address=f"{address}:{port}", log_to_driver=False)
    joined = until(lambda: sum(n["Alive"] for n in ray.nodes()) == NODES, JOIN_S)
    rates = [10 ** (-i / 4) for i in range(4 * NODES)]
    spread = trial.options(scheduling_strategy="SPREAD")
    results = ray.get([spread.remote(rate) for rate in rates])
    loss, rate, _ = min(results)
    nodes = sorted({name for *_, name in results})
    print(f"RESULT {json.dumps({'nodes': nodes, 'rate': rate, 'loss': loss})}", flush=True)
    ray.shutdown()
    return 0 if joined else 1


def worker() -> int:
    address, port = HEAD
    if not until(listens, JOIN_S):
        print(f"Ray's head at {address}:{port} does not answer", file=sys.stderr)
        return 1
    start(f"--address={address}:{port}")
    until(lambda: not listens(), math.inf)
    return 0


status = head() if RANK == 0 else worker()
sys.exit(status)
