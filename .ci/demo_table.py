"""The one table that ``./demo`` ends with, made from what the commands reported as JSON.

    demo_table.py FOLDER CLUSTER_FILE
    demo_table.py nodes CLUSTER_FILE      prints how many nodes train

FOLDER holds ``phases`` (name, begin, end, status in tab-separated lines) and the verbs' answers:
up.json, status.json, and train.log with what the ranks printed. Ends with status 1 unless every
phase succeeded, no check failed, and the model was trained by all ranks.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from corral.cli.evidence.prove import proof_view
from corral.plurals import plural
from corral.prove.model import Proof
from corral.spec.load import load_or_raise
from corral.spec.nodes import nodes_of
from corral.spec.slurm.hostlist import fold

NO_TORCH = "this node has no PyTorch"  # as examples/train_digits.py prints it
CORRAL = (".venv/bin/" if os.geteuid() == 0 else "sudo .venv/bin/") + "corral"
PAGE_PORT = 8765
NEXT = """
next:  {corral} run -c {name} examples/train_digits.py --nodes {nodes} --gpus-per-node {gpus}
page:  http://127.0.0.1:{port}, while this runs: {corral} ui -c {name} --port {port}
       ./demo --down removes cluster and node image"""
AFTER_FAILURE = """
next:  read the hint of the error above, then ./demo again: it goes on from there
       ./demo --down removes what is there"""


@dataclass(frozen=True)
class Phase:
    """When a phase ran (unix seconds) and how it ended."""

    begin: float
    end: float
    status: int


def phases_of(folder: Path) -> dict[str, Phase]:
    """The phases that ran. ``corral up`` proves too; when that began is in its proof."""
    phases: dict[str, Phase] = {}
    for line in (folder / "phases").read_text().splitlines():
        name, begin, end, status = line.split("\t")
        # bash writes EPOCHREALTIME with the decimal sign of the locale.
        phases[name] = Phase(*(float(t.replace(",", ".")) for t in (begin, end)), int(status))
    proof = answer(folder, "up").get("proof")
    if proof:
        up = phases["up"]
        phases["up"] = Phase(up.begin, proof["at"], 0)
        phases["prove"] = Phase(proof["at"], up.end, 0)  # the proof itself reports how it went
    return phases


def answer(folder: Path, verb: str) -> dict[str, Any]:
    """What a verb reported, {} when it printed nothing."""
    file = folder / f"{verb}.json"
    text = file.read_text().strip() if file.exists() else ""
    return json.loads(text.splitlines()[-1]) if text else {}


def came_of_up(folder: Path) -> str:
    """Which nodes take jobs now."""
    status = answer(folder, "status")
    nodes = status.get("nodes", [])
    usable = [node["node"] for node in nodes if node["usable"]]
    if not usable or len(usable) < len(nodes):
        raise ValueError(f"{len(usable)} of {len(nodes)} nodes take jobs")
    return f"{len(usable)} nodes take jobs: {fold(usable)}, Slurm {status['slurm']}"


def came_of_prove(folder: Path) -> str:
    """How many checks passed."""
    proof = answer(folder, "up")["proof"]
    counts = Counter(result["verdict"] for result in proof["results"])
    asked = counts.total() - counts["skip"]  # what the cluster has none of is skipped
    passed = f"{counts['pass']} of {asked} checks passed"
    more = [f"{counts[v]} {word}" for v, word in (("warn", "warned"), ("skip", "skipped"))]
    if not proof["good"]:
        raise ValueError(f"{passed}, {counts['fail']} failed")
    return ", ".join([passed, *(m for m in more if not m.startswith("0 "))])


def came_of_train(folder: Path, ranks: int, *, real_gpus: bool) -> str:
    """How good the model is, as rank 0 prints it in its last line."""
    lines = re.findall(r"^0: RESULT (\{.*\})$", (folder / "train.log").read_text(), flags=re.M)
    result = json.loads(lines[-1]) if lines else {}
    if result.get("world_size") != ranks:
        raise ValueError(f"the model was not trained by {plural(ranks, 'rank')}")
    text = f"accuracy {result['accuracy']:.1%} on digits it never saw, PyTorch DDP over "
    text += plural(ranks, "node")
    # NCCL computes on GPUs, gloo on CPUs.
    if real_gpus and result["backend"] != "nccl":
        text += "; on CPUs, though the job had GPUs: the node image's PyTorch has no CUDA"
    return text


JUDGES: dict[str, Callable[[Path], str]] = {
    "install": lambda _: "packages of the distribution",
    "venv": lambda _: ".venv from requirements.lock",
    "image": lambda folder: str(answer(folder, "image")["reference"]),
    "up": came_of_up,
    "prove": came_of_prove,
}


def why_not(folder: Path, name: str, status: int) -> str:
    """Why a phase failed, as far as this table knows."""
    log = folder / "train.log"
    if name == "train" and log.exists() and NO_TORCH in log.read_text():
        return f"{NO_TORCH}: see docs/guide/rehearse.md, On Ubuntu"
    return f"failed with status {status}, see above"


def row(
    folder: Path, name: str, phase: Phase | None, judge: Callable[[Path], str]
) -> tuple[bool, str, str]:
    """One phase: is it good, what came of it, its seconds."""
    if phase is None:
        return False, "[dim]not reached[/dim]", ""
    try:
        if phase.status:
            raise ValueError(why_not(folder, name, phase.status))
        good, text = True, judge(folder)
    except (ValueError, KeyError, OSError) as error:
        good, text = False, f"[bold red]{escape(str(error))}[/bold red]"
    return good, text, f"{phase.end - phase.begin:.1f}"


def main(folder: Path, cluster_file: str) -> int:
    """Print the table; 1 when anything is not good."""
    phases = phases_of(folder)
    spec = load_or_raise(Path(cluster_file))
    nodes, gpu = nodes_of(spec), spec.groups[0].gpu
    judge = partial(came_of_train, ranks=len(nodes), real_gpus=spec.groups[0].computing_gpus > 0)
    judges = JUDGES | {"train": judge}
    title = f"corral: {cluster_file}"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.ROUNDED)
    table.add_column("phase")
    table.add_column("what came of it")
    table.add_column("seconds", justify="right")
    rows = {name: row(folder, name, phases.get(name), judges[name]) for name in judges}
    for name, (_, text, seconds) in rows.items():
        table.add_row(name, text, seconds)
    good = all(fine for fine, _, _ in rows.values())
    verdict = "[green]good[/green]" if good else "[bold red]NOT good[/bold red]"
    seconds = max(p.end for p in phases.values()) - min(p.begin for p in phases.values())
    table.add_section()
    table.add_row("", verdict, f"{seconds:.1f}")
    console = Console(width=None if sys.stdout.isatty() else 100)
    proof = answer(folder, "up").get("proof")
    if proof and not proof["good"]:
        console.print(*proof_view(Proof.from_dict(proof)), sep="\n")
    console.print(table)
    todo = AFTER_FAILURE
    if good:
        todo = NEXT.format(
            corral=CORRAL,
            name=spec.name,
            nodes=min(len(nodes), 2),
            gpus=gpu.count if gpu else 0,
            port=PAGE_PORT,
        )
    console.print(todo, highlight=False)
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1] == "nodes":
        print(len(nodes_of(load_or_raise(Path(sys.argv[2])))))
        sys.exit()
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
