"""The use cases without async: what ``import corral`` gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from corral.api.config import clusters, files
from corral.api.evidence import proof
from corral.api.evidence.bench import Known
from corral.api.evidence.collective_bench import Benched, Wanted, run_bench
from corral.api.lifecycle import converge
from corral.api.operations import diagnosis, overview, repair
from corral.api.operations import nodes as machines
from corral.api.sync import sync
from corral.api.workload import batch
from corral.api.workload.handle import Job
from corral.doctor.drain_reason import WhyDrained
from corral.doctor.model import Report
from corral.doctor.pending_reason import WhyPending
from corral.errors import CorralError
from corral.events import Emit, ignore
from corral.plan.model import Plan
from corral.prove.model import Proof
from corral.spec.models import ClusterSpec


class Cluster:
    """One cluster: plan, apply, prove, run jobs, look after its nodes, remove it.

    Every method is the use case of the same name in ``corral.api``, run to its end; it raises
    ``corral.CorralError``. Works where an event loop runs already (notebooks) as well.

    Args:
        spec: what is declared.
        emit: receives the events while a method runs.
    """

    def __init__(self, spec: ClusterSpec, emit: Emit = ignore) -> None:
        self.spec = spec
        self._emit = emit

    def __repr__(self) -> str:
        return f"<corral.Cluster {self.name}>"

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.spec.name

    def rehearsal(self) -> Cluster:
        """The same cluster on containers of this machine; the real one is not touched."""
        return Cluster(files.rehearsal(self.spec)[0], self._emit)

    def plan(self) -> Plan:
        """What ``up`` would change; changes nothing."""
        return sync(converge.plan(self.spec, self._emit))

    def apply(self, plan: Plan) -> None:
        """Do exactly what a plan contains; refuses a plan that is no longer true."""
        sync(converge.apply(self.spec, plan, self._emit))

    def up(self, approve: Callable[[Plan], bool] | None = None) -> bool:
        """Plan and apply until nothing is left to do; prove it with ``prove``.

        Args:
            approve: asked with each plan that is not empty; False stops before it is applied.

        Returns:
            True when the cluster is as declared, False when ``approve`` answered no.
        """
        return sync(converge.up(self.spec, self._emit, approve))

    def prove(self, only: Sequence[str] = ()) -> Proof:
        """Check with evidence that the cluster works; ``only`` names checks or groups of them."""
        return sync(proof.prove(self.spec, self._emit, only=only))

    def status(self) -> overview.Status:
        """Nodes, services and queue as they are now, and what is wrong."""
        return sync(overview.status(self.spec))

    def exec(
        self, command: Sequence[str], nodes: str = "", *, timeout: float = 600.0
    ) -> tuple[machines.Outcome, ...]:
        """Run a command as root on nodes (a hostlist, "" for all), all at once."""
        return sync(machines.execute(self.spec, command, nodes, timeout=timeout))

    def drain(self, nodes: str, reason: str) -> dict[str, str]:
        """Let nodes take no new jobs; gives Slurm's state of each."""
        return sync(machines.drain(self.spec, nodes, reason))

    def resume(self, nodes: str) -> dict[str, str]:
        """Let drained nodes take jobs again; gives Slurm's state of each."""
        return sync(machines.resume(self.spec, nodes))

    def doctor(self, nodes: str = "") -> Report:
        """What is broken, why, and what to do; ``nodes`` is a hostlist, "" for all."""
        return sync(diagnosis.doctor(self.spec, nodes))

    def mend(self, approve: Callable[[Plan], bool] | None = None) -> repair.Mended:
        """Put right what the doctor finds and what is safe to put right."""
        return sync(repair.mend(self.spec, self._emit, approve))

    def why_drained(self, node: str) -> WhyDrained:
        """Why a node takes no jobs."""
        return sync(repair.explain_drained(self.spec, node))

    def why_pending(self, job_id: int | str) -> WhyPending:
        """Why a job is pending."""
        return sync(repair.explain_pending(self.spec, job_id))

    def run(
        self,
        job: str | batch.JobSpec,
        *,
        on_line: batch.OnLine = lambda _: None,
        **fields: Any,
    ) -> batch.JobOutcome | batch.ArrayOutcome:
        """Run a script as a job and wait for its end.

        Args:
            job: a script of this machine, or one on the cluster's shared storage; or a JobSpec.
            on_line: called with each line that a rank prints, as it comes.
            **fields: more fields of ``JobSpec``: nodes, gpus_per_node, time, env, args, ...
        """
        return sync(batch.run(self.spec, _job(job, fields), self._emit, on_line=on_line))

    def submit(self, job: str | batch.JobSpec, **fields: Any) -> Job:
        """Hand a job to Slurm and leave it alone; what is given as with ``run``."""
        handle = sync(batch.submit(self.spec, _job(job, fields), self._emit))
        return Job(self.spec, handle, self._emit)

    def jobs(self, *, ended: bool = False) -> tuple[batch.JobInfo, ...]:
        """Pending and running jobs, newest first; with ``ended`` also those of the last days."""
        return sync(batch.jobs(self.spec, ended=ended))

    def logs(self, job_id: batch.JobRef) -> tuple[batch.RankLine, ...]:
        """What a job printed so far."""
        lines: list[batch.RankLine] = []
        sync(batch.logs(self.spec, job_id, self._emit, on_line=lines.append))
        return tuple(lines)

    def follow(
        self, job_id: batch.JobRef, on_line: batch.OnLine = lambda _: None
    ) -> batch.JobOutcome | batch.ArrayOutcome:
        """Wait until a job that Corral submitted has ended."""
        return sync(batch.logs(self.spec, job_id, self._emit, on_line=on_line, follow=True))

    def cancel(self, *job_ids: batch.JobRef) -> dict[batch.JobRef, batch.JobOutcome | CorralError]:
        """End jobs; gives how each stood then, or why it could not be done."""
        return sync(batch.cancel(self.spec, job_ids))

    def bench(self, known: Known | None = None, **fields: Any) -> Benched:
        """Measure collectives through Slurm, judge them, and keep the result.

        Args:
            known: what to compare with; None: what the declared data network should reach.
            **fields: of ``Wanted``: collectives, nodes, smallest, largest, type, ...
        """
        wanted = Wanted(**fields)
        return sync(run_bench(self.spec, wanted, known, self._emit))

    def down(self) -> tuple[str, ...]:
        """Remove all that Corral made for the cluster; gives what was removed."""
        return sync(converge.down(self.spec, self._emit))


def open(path_or_name: str | os.PathLike[str], emit: Emit = ignore) -> Cluster:
    """A cluster by its file, or by its name when it was brought up from here.

    Args:
        path_or_name: a path when it holds a slash, ends in .yaml or .yml or is a file; else a name.
        emit: receives the events while the cluster's methods run.

    Raises:
        CorralError: the file has errors or is not there; no such cluster is known.
    """
    text = os.fspath(path_or_name)
    if clusters.looks_like_file(text):
        return Cluster(files.load(Path(text)), emit)
    return Cluster(clusters.spec_of(text), emit)


def _job(job: str | batch.JobSpec, fields: dict[str, Any]) -> batch.JobSpec:
    if isinstance(job, batch.JobSpec):
        if not fields:
            return job
        given = {name: getattr(job, name) for name in job.model_fields_set}
        return batch.job_spec({**given, **fields})
    return batch.job_spec({"script": job, **fields})
