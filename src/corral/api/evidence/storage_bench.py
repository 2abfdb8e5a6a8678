"""Use case: measure the shared folders of a cluster through Slurm."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any, cast

from corral.api.evidence.node_bench import (
    ENOUGH,
    OnSubmit,
    OnText,
    Where,
    job_of,
    keep,
    measure,
    measured_before,
    usage,
)
from corral.events import Emit, ignore
from corral.prove.measure.remark import Measured
from corral.prove.measure.storage import judge_shares, medians, read_shares
from corral.spec.models import ClusterSpec


async def bench_storage(
    spec: ClusterSpec,
    where: Where | None = None,
    emit: Emit = ignore,
    *,
    mounts: tuple[str, ...] = (),
    size: int = 256 << 20,
    files: int = 500,
    on_line: OnText = lambda _: None,
    on_submit: OnSubmit = lambda _: None,
) -> Measured:
    """Measure writing, reading and names in each shared folder, from each node and from all.

    Args:
        spec: the cluster.
        where: which nodes; None: all of the default partition.
        emit: receives the job's states.
        mounts: folders; empty: all that the file declares.
        size: bytes of each node's file; no more than a quarter of what is free is taken.
        files: small files of each node.
        on_line: called with each line that the program prints.
        on_submit: called once Slurm has the job.

    Raises:
        CorralError: USAGE, no folder; COMMAND_FAILED, the job failed; PARSE_FAILED, it gave no
            result; and what ``run`` raises.
    """
    declared = tuple(storage.mount for storage in spec.storage)
    unknown = sorted(set(mounts) - set(declared))
    if unknown or not declared:
        raise usage(
            f"no shared folder {', '.join(unknown)} is declared",
            f"declared: {', '.join(declared) or 'none'}",
        )
    chosen = mounts or declared
    args = (*(f"--mount={m}" for m in chosen), f"--bytes={size}", f"--files={files}")
    asked = job_of(spec, where or Where(), "storage", args)
    ran = await measure(spec, asked, emit, on_line=on_line, on_submit=on_submit)
    shares = read_shares(ran.lines)
    usual = {mount: _usual(spec.name, mount, size) for mount in chosen}
    figures = {
        "size": size,
        "shares": [share.as_dict() for share in shares],
        "medians": {mount: medians(shares, mount) for mount in chosen},
    }
    measurement = ran.measured("storage", judge_shares(shares, usual), figures)
    return keep(spec, measurement, {"usual": usual})


def _usual(name: str, mount: str, size: int) -> dict[str, float]:
    """Rates of earlier measurements with files of the same size; empty when there are too few."""
    before = [
        cast("Mapping[str, Any]", record["figures"]["medians"][mount])
        for record in measured_before(name, "storage")
        if record["figures"].get("size") == size and mount in record["figures"].get("medians", {})
    ]
    if len(before) < ENOUGH:
        return {}
    return {rate: statistics.median(float(rates[rate]) for rates in before) for rate in before[0]}
