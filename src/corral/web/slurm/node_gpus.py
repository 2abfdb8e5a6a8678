"""The GPUs of one node: whose job has each, what it does, and its errors. Pure.

Whose it is comes from Slurm's list of what each job was given (``gres_detail``), what it does from
the metrics. What neither has is None: unknown, which is not the same as nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from corral import api
from corral.inspect.rules import ecc_faults
from corral.inspect.xids import job_xids
from corral.slurm.records import Job, Node
from corral.slurm.tres import indices
from corral.spec.slurm.hostlist import expand, hosts

_VALUES: Final = {
    "corral_gpu_utilization_ratio": "use",
    "corral_gpu_memory_used_bytes": "memory",
    "corral_gpu_memory_total_bytes": "memory_total",
    "corral_gpu_celsius": "celsius",
    "corral_gpu_watts": "watts",
    "corral_gpu_ecc_uncorrected": "ecc",
    "DCGM_FI_DEV_XID_ERRORS": "xid",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "ecc",
}
MOST: Final = 64


def jobs_on(node: str, jobs: Iterable[Job]) -> list[Job]:
    """Jobs that have a part of a node now."""
    return [
        job for job in jobs if job.nodes and not job.ended and not job.waiting and _on(node, job)
    ]


def _on(node: str, job: Job) -> bool:
    several = "[" in job.nodes or "," in job.nodes
    return job.nodes == node or (several and node in hosts(job.nodes))


def given(node: str, job: Job) -> list[int] | None:
    """The GPUs of a node that a job was given; None where Slurm's answer does not have it."""
    names = list(expand(job.nodes))
    if node not in names or len(job.gres_detail) != len(names):
        return None
    return indices(job.gres_detail[names.index(node)])


def gpus_of(
    node: Node, jobs: Sequence[Job], readings: Sequence[api.Reading]
) -> list[dict[str, Any]]:
    """Each GPU of a node.

    Args:
        node: as Slurm reports it.
        jobs: those on it.
        readings: of its metrics; none where there are no metrics.
    """
    lists = [(job, given(node.name, job) if job.gpus else []) for job in jobs]
    known = all(indices is not None for _, indices in lists)
    values = _values(readings)
    count = max([node.gpus, *(int(index) + 1 for index in values if index.isdecimal())])
    rows: list[dict[str, Any]] = []
    for index in range(min(count, MOST)):
        measured = values.get(str(index), {})
        mine = [job for job, indices in lists if indices is not None and index in indices]
        mine = mine or [job for job in jobs if str(job.id) in measured.get("", ())]
        row: dict[str, Any] = dict.fromkeys(_VALUES.values())
        row |= {name: value for name, value in measured.items() if name}
        row["index"] = index
        row["jobs"] = [_named(job) for job in mine] if mine or known else None
        row["faulty"] = _faulty(row["xid"], row["ecc"])
        rows.append(row)
    return rows


def _faulty(xid: float | None, uncorrected: float | None) -> bool:
    """Whether what the metrics have of a GPU's errors is a fault of the GPU, not of its job."""
    return bool((xid and xid not in job_xids()) or ecc_faults(uncorrected, None))


def _gravity(xid: float) -> tuple[bool, bool, float]:
    """By which the one Xid that is shown is chosen: a fault of the GPU before a job's own."""
    return xid > 0 and xid not in job_xids(), xid > 0, xid


def _put(own: dict[str, Any], name: str, value: float) -> None:
    """Add a figure of a GPU; of errors, which NVIDIA's exporter may have too, the worst stays."""
    if name == "xid":
        value = max(own.get(name, 0.0), value, key=_gravity)
    elif name == "ecc":
        value = max(own.get(name, 0.0), value)
    own[name] = value


def _named(job: Job) -> dict[str, Any]:
    return {"id": job.id, "label": job.label, "name": job.name, "user": job.user}


def _values(readings: Iterable[api.Reading]) -> dict[str, dict[str, Any]]:
    """Values by GPU and name; under "" the jobs with a process there."""
    values: dict[str, dict[str, Any]] = {}
    for reading in readings:
        gpu = reading.labels.get("gpu", "")
        own = values.setdefault(gpu, {})
        if reading.name in _VALUES:
            _put(own, _VALUES[reading.name], reading.value)
        elif reading.name == "corral_gpu_xids":
            code = reading.labels.get("xid", "")
            _put(own, "xid", float(code) if code.isdecimal() else 0.0)
        elif reading.name == "corral_gpu_job":
            own.setdefault("", set[str]()).add(reading.labels.get("jobid", ""))
    return values
