"""A page with something in each of its views: a busy cluster over recorded answers.

``busy`` is the page of a user without rights, ``owned`` that of who runs ``corral ui``.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.api import TemplateFile, TemplateFolder
from corral.doctor.logs.diagnosis import explain
from corral.prove.model import Judgement, Verdict
from corral.spec.load import load_or_raise
from corral.web.routes import owner
from corral.web.slurm.efficiency import GpuUse
from tests.browser.desk import Desk, DeskRest, served
from tests.browser.helper_double import helping, spec
from tests.browser.test_history import Past
from tests.browser.test_mine import Past as PastJobs
from tests.browser.test_operations import EXAMPLE, LOG, proof_of
from tests.unit.web.test_schemas import FAKE_PLAN

HOUR = 3600
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=pretrain-7b
#SBATCH --nodes=2 --gpus-per-node=8 --time=24:00:00
srun torchrun --nproc-per-node=8 train.py --config configs/pretrain-7b-long-context.yaml --epochs 90
"""
CURVES = (("gpu", 1.0), ("gpu_memory", 1.4e11), ("watts", 650.0), ("celsius", 70.0))
LONG_NAME = "finetune-llama-3-70b-instruct-on-the-internal-support-tickets-v12"
NODES = 24


def _number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


class BusyMetrics(Past):
    """Prometheus of the busy cluster: each job's and node's curves of eight GPUs."""

    async def nodes(self) -> dict[str, dict[str, float]]:
        return {f"gpu{n:03}": {"celsius": 58.0 + n, "watts": 2400.0 + n} for n in range(NODES)}

    async def job(self, job: Any) -> dict[str, Any]:
        now = time.time()
        curves = [
            {
                "what": what,
                "name": f"gpu003 GPU {gpu}",
                "points": [
                    [now - 7200 + 60 * n, scale * (0.7 + 0.2 * math.sin(n / 9 + gpu))]
                    for n in range(120)
                ],
            }
            for what, scale in CURVES
            for gpu in range(8)
        ]
        return {"from": "prometheus", "curves": curves}

    async def gpu_use(self, nodes: Any) -> GpuUse:
        shares = {(node, gpu): 0.9 for node in nodes for gpu in range(8)}
        return GpuUse(shares | {("gpu003", 7): 0.01}, {}, 600.0)

    async def busy(self, jobs: Any, days: int) -> dict[int, float]:
        return {2101: 8 * 36000 * 0.81, 2103: 4 * 28800 * 0.02}


def _jobs(rest: DeskRest) -> None:
    """Of each kind: running, pending, failed, an array, with long names."""
    now = int(time.time())
    given = {"account": "vision", "qos": "high", "node_count": _number(2), "group_name": "team"}
    rest.add(
        3001,
        **{"name": "pretrain-7b", "nodes": "gpu[003-004]", "cpus": _number(384), **given},
        gres_detail=["gpu:h200:8(IDX:0-7)", "gpu:h200:8(IDX:0-7)"],
        tres_req_str="cpu=384,mem=1T,node=2,billing=384,gres/gpu=16",
        tres_alloc_str="cpu=384,mem=1T,node=2,gres/gpu=16",
        start_time=_number(now - 2 * HOUR),
        submit_time=_number(now - 3 * HOUR),
        eligible_time=_number(now - 3 * HOUR),
        time_limit=_number(24 * 60),
        current_working_directory="/shared/kim/projects/pretrain/2026-11/long-context",
        standard_output="/shared/kim/projects/pretrain/2026-11/long-context/slurm-3001.out",
        submit_line="sbatch --nodes=2 --gpus-per-node=8 --time=24:00:00 train.sh",
        comment="second half of the run",
    )
    pending = {"job_state": ["PENDING"], "nodes": "", "start_time": _number(0)}
    rest.add(3002, name=LONG_NAME, state_reason="AssocGrpGRES", **pending, **given)
    rest.add(3003, name="eval", user_name="ada", state_reason="Priority", **pending)
    ended = {"end_time": _number(now - 300), "start_time": _number(now - 4000)}
    failed = {"exit_code": {"status": ["ERROR"], "return_code": _number(1), "signal": {}}}
    out = {"standard_output": "/shared/kim/slurm-3004.out"}
    rest.add(3004, name="train", nodes="gpu005", job_state=["FAILED"], **ended, **failed, **out)
    rest.add(3005, name="tokenize", nodes="gpu006", job_state=["COMPLETED"], **ended, **out)
    rest.add(3006, name="notebook", user_name="ada", nodes="gpu007", job_state=["TIMEOUT"], **ended)
    for task in range(6):
        states = ("RUNNING", "COMPLETED", "FAILED")
        more = ended if task % 3 else {}
        rest.add(
            3101 + task,
            **{"array": 3100, "task": task, "name": "sweep-lr", "nodes": f"gpu00{task}"},
            **{"job_state": [states[task % 3]], "standard_output": "/shared/kim/sweep-%a.out"},
            **more,
        )
    rest.add(
        3100, array=3100, tasks="6-127%8", name="sweep-lr", state_reason="Resources", **pending
    )
    for n in range(40):
        rest.add(
            4000 + n,
            **{"name": f"train-{n}", "user_name": "ada" if n % 2 else "kim"},
            **{"nodes": f"gpu{n % NODES:03}", "start_time": _number(now - 500 * n - 60)},
        )


def _rest() -> DeskRest:
    rest = DeskRest()
    rest.nodes(
        NODES,
        **{"gres": "gpu:h200:8", "gres_used": "gpu:h200:5(IDX:0-4)"},
        boot_time=_number(int(time.time()) - 40 * 86400),
        last_busy=_number(int(time.time()) - 2 * HOUR),
        operating_system="Linux 6.12.9-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.12.9-1",
    )
    states = (["IDLE", "DRAIN"], ["DOWN"], ["MIXED"], ["ALLOCATED"])
    nodes = rest.bodies["nodes"]["body"]["nodes"]
    for node, state in zip(nodes[1:], states, strict=False):
        node["state"] = state
        if state[-1] in ("DRAIN", "DOWN"):
            node |= {
                "reason": "health.xid: GPU 1: Xid 79, the GPU has fallen off the bus",
                "reason_set_by_user": "root",
                "reason_changed_at": _number(int(time.time()) - 5000),
            }
    _jobs(rest)
    PastJobs(rest)
    like = rest.bodies["past"]["body"]["jobs"][0]
    rest.bodies["past"]["body"]["jobs"] += [
        {**copy.deepcopy(like), "job_id": 2500 + n, "name": f"old-{n}"} for n in range(30)
    ]
    return rest


@contextmanager
def busy(folder: Path, **settings: Any) -> Iterator[Desk]:
    """The controller's page, with what people's own folders hold."""
    socket = folder / "helper.sock"
    with helping(socket) as helper:
        logs = folder / "job"
        logs.mkdir()
        lines = (
            f"epoch 3 step {n:5} loss {2.1 - n / 9000:.4f} lr 3.0e-04 1180 img/s\n"
            for n in range(0, 9000, 50)
        )
        (logs / "batch.log").write_text("".join(lines))
        bad = folder / "bad"
        bad.mkdir()
        error = 'Traceback (most recent call last):\n  File "/shared/train.py", line 3\n'
        (bad / "batch.log").write_text(f"epoch 1\n{error}ValueError: no such file\n")
        helper.folders |= {3001: logs, 3005: logs, 3101: logs, 3004: bad, 3103: bad}
        helper.scripts |= {3001: SCRIPT, 3004: SCRIPT}
        helper.expected = {"start_at": int(time.time()) + 2 * HOUR, "nodes": "gpu[008-009]"}
        broken = TemplateFile("broken.yaml", "command: [a]\nnodse: 4\n")
        good = TemplateFile("train.yaml", "command: [python, train.py]\nnodes: 2\ntime: 2h\n")
        helper.templates = TemplateFolder("/shared/corral/templates", (good, broken))
        with served(_rest(), as_user=str(socket), service=True, spec=spec(), **settings) as desk:
            desk.app.state.corral.figures = BusyMetrics()
            yield desk


@contextmanager
def owned(patch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """The page of who runs ``corral ui``; Corral's own use cases are played."""

    async def doctor(*_: Any) -> Any:
        return explain(LOG)

    async def plan(*_: Any) -> Any:
        return FAKE_PLAN

    now = time.time()
    records = [
        {
            **{"at": now - n * HOUR, "run": f"r{n // 3}", "by": "kim"},
            **{
                "what": ("plan", "change-done", "stage-done")[n % 3],
                "text": "slurm.conf is written",
            },
            "node": "" if n % 3 else "gpu001",
        }
        for n in range(30)
    ]
    proof = proof_of(
        Judgement(Verdict.PASS, "3 nodes answered"),
        Judgement(Verdict.FAIL, "GPU 3 of gpu001 is missing", hint="`nvidia-smi` on gpu001"),
    )
    patch.setattr(owner.api, "doctor", doctor, raising=False)
    patch.setattr(owner.api, "plan", plan, raising=False)
    patch.setattr(owner.api, "last_proof", lambda _: proof.as_dict(), raising=False)
    patch.setattr(owner.api, "history", lambda *_: records, raising=False)
    made = load_or_raise(EXAMPLE).model_dump(mode="json")
    with served(_rest(), spec=made, source=str(EXAMPLE)) as desk:
        desk.app.state.corral.figures = BusyMetrics()
        yield desk
