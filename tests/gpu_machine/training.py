"""Rows with ``train_gpt``: compared with torchrun, requeued, profiled; the page's figures."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.gpu_machine.lab import PYTHON, Lab
from tests.gpu_machine.machine import Done, ran

SCRIPT = "examples/train_gpt/train.py"
MODEL = (
    *("--layers", "12", "--heads", "12", "--width", "768", "--context", "1024"),
    *("--batch", "32", "--accumulate", "1", "--report-every", "50"),
)
"""86 million parameters, 32,768 tokens a step."""
PORT = 8765


def options(steps: int, corpus: str, checkpoint: int = 100_000) -> list[str]:
    """Arguments of the training."""
    words = ["--steps", str(steps), "--checkpoint-every", str(checkpoint), "--corpus", corpus]
    return [*MODEL, *words]


def tokens(text: str) -> dict[str, Any]:
    """The training's result: tokens/s and losses."""
    matched = re.findall(r"RESULT (\{.*\})", text)
    result = json.loads(matched[-1]) if matched else {}
    return {k: result.get(k) for k in ("tokens_per_second", "test_loss", "steps", "parameters")}


def bare(lab: Lab, name: str, gpu: int, steps: int) -> Done:
    """The machine's own torchrun, without any container."""
    folder = lab.machine.kit / f"bare/{gpu}-{time.time():.0f}"
    env = os.environ | {
        "CUDA_VISIBLE_DEVICES": str(gpu),
        "PYTHONPATH": str(lab.machine.kit / "tree/src"),
        "NCCL_NVLS_ENABLE": "0",
        "OMP_NUM_THREADS": "8",
        "PYTHONUNBUFFERED": "1",
    }
    corpus = str(lab.machine.shared(name) / "text")
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    argv += [str(lab.machine.kit / "tree" / SCRIPT), *options(steps, corpus)]
    return ran([*argv, "--folder", str(folder)], 240, env)


def job(lab: Lab, name: str, steps: int, *words: str, checkpoint: int = 100_000) -> Done:
    """The same by ``corral run``, followed to its end."""
    python = ("--python", PYTHON) if lab.gpus else ()
    argv = ["corral", "run", f"/kit/tree/{SCRIPT}", "--cluster", f"/root/{name}.yaml", "-G", "1"]
    argv += ["--launcher", "torchrun", *python, *words, "--"]
    return lab.machine.inside(*argv, *options(steps, "/shared/text", checkpoint), timeout=500)


def rounds(lab: Lab, name: str) -> None:
    """Three rounds in turn, one training on each GPU at once; a short pair before that."""
    if not lab.gpus:
        return
    row, nodes = f"{name}-train", lab.nodes(name)

    def both(kind: str, steps: int, label: str) -> None:
        def trained(number: int) -> Done:
            if kind == "bare":
                return bare(lab, name, number, steps)
            return job(lab, name, steps, "--nodelist", nodes[number], "--name", f"{label}-{number}")

        with ThreadPoolExecutor(len(nodes)) as pool:
            for number, done in enumerate(pool.map(trained, range(len(nodes)))):
                lab.record.command(row, f"{label} {kind} on GPU {number}", done)
                lab.record.add(row, f"{label} {kind} {number}", **tokens(done.text))

    for kind in ("bare", "run"):
        both(kind, 60, "warm-up")
    for number, order in enumerate((("bare", "run"), ("run", "bare"), ("bare", "run")), 1):
        for kind in order:
            both(kind, lab.steps, f"round-{number}")
        with contextlib.suppress(Exception):
            figures(lab, name, f"round-{number}")


def page(lab: Lab, name: str) -> None:
    """``corral ui`` and a token for its API."""
    log = lab.record.folder / "ui.log"
    lab.machine.start(log, "corral", "ui", f"/root/{name}.yaml", "--json", "--port", str(PORT))
    made = lab.machine.inside(
        *("corral", "ui", "token", "create", "record", "-c", f"/root/{name}.yaml", "--json")
    )
    token = json.loads(made.stdout)["token"]
    lab.keep(token=token)
    for _ in range(40):
        time.sleep(0.5)
        if get(lab, "/api/cluster")["status"] == 200:
            break
    lab.record.add(f"{name}-page", "corral ui", answer=str(get(lab, "/api/cluster"))[:300])


def get(lab: Lab, path: str) -> dict[str, Any]:
    """An answer of the page's API."""
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}")  # our own page
    request.add_header("Authorization", f"Bearer {lab.kept['token']}")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return {"status": answer.status, "body": json.loads(answer.read())}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": error.read().decode(errors="replace")[:500]}
    except (OSError, ValueError) as error:
        return {"status": 0, "body": str(error)}


def figures(lab: Lab, name: str, label: str = "end") -> None:
    """The page's answers about the cluster, its nodes and all jobs, with their curves."""
    listed = lab.machine.node(name, "node0", "sacct -a -n -X -P -o JobID,JobName,State,Elapsed")
    jobs = [line.split("|")[0] for line in listed.stdout.splitlines() if line]
    paths = ["/api/cluster", "/api/nodes", "/api/jobs", "/api/jobs/past", "/api/figures"]
    paths += ["/api/figures?layout=columns", "/api/figures/history?span=hour", "/api/mine"]
    paths += ["/api/mine/hours", "/api/mine/efficiency?days=30", "/api/session"]
    for node in lab.nodes(name):
        paths += [f"/api/nodes/{node}", f"/api/nodes/{node}/figures"]
    for number in jobs:
        paths += [f"/api/jobs/{number}{end}" for end in ("", "/figures", "/use")]
    answers = {path: get(lab, path) for path in paths}
    kept = {"at": time.time(), "jobs": listed.stdout, "answers": answers}
    (lab.record.folder / f"{name}-api-{label}.json").write_text(json.dumps(kept))
    good = sum(answer["status"] == 200 for answer in answers.values())
    points = {
        number: [len(c.get("points") or c.get("values") or []) for c in curves]
        for number in jobs
        if isinstance(body := answers[f"/api/jobs/{number}/figures"]["body"], dict)
        and (curves := body.get("curves"))
    }
    lab.record.add(f"{name}-figures", label, answers=len(answers), good=good, points=points)


def requeue(lab: Lab, name: str) -> None:
    """A job with checkpoints is requeued once, and followed to its end."""
    if not lab.gpus:
        return
    row = f"{name}-requeue"
    words = ("--requeue", "--name", "again")
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        followed = pool.submit(job, lab, name, 500, *words, checkpoint=100)
        number = ""
        while time.monotonic() - began < 25 or not number:
            time.sleep(1)
            number = lab.machine.node(name, "node0", "squeue -h -n again -o %i").stdout.strip()
            if time.monotonic() - began > 60:
                break
        done = lab.machine.node(name, "node0", f"scontrol requeue {number}")
        lab.record.command(row, f"requeue of {number}, {time.monotonic() - began:.0f} s", done)
        for _ in range(20):
            time.sleep(1)
            state = lab.machine.node(name, "node0", f"squeue -h -j {number} -o '%T %r'").stdout
            if state.startswith("PENDING"):
                script = f"scontrol update JobId={number} StartTime=now"
                lab.record.command(row, state.strip(), lab.machine.node(name, "node0", script))
                break
        lab.record.command(row, "corral run", followed.result())
    words = f"sacct -D -n -X -P -j {number} -o JobID,State,Elapsed,ExitCode"
    lab.record.command(row, "sacct", lab.machine.node(name, "node0", words))


def profile(lab: Lab, name: str) -> None:
    """A few steps with PyTorch's profiler."""
    if not lab.gpus:
        return
    done = job(lab, name, 40, "--profile", "torch", "--name", "traced")
    lab.record.command(f"{name}-profile", "--profile torch", done)
