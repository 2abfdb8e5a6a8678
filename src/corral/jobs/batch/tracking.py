"""A job's run at the tracking server: what it carries, and the shell that begins and ends it.

The run is made by the batch script itself, so that it is there before the first rank, whatever the
script does, and is the same one after a requeue. A server that does not answer never stops a job.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from corral.hosts.quote import NOTHING, Script, piece, sh
from corral.jobs.limits import user_of
from corral.jobs.model import JobSpec
from corral.roles.services.mlflow import uri
from corral.spec.models import ClusterSpec
from corral.spec.nodes import digest

FILE: Final = "track.json"


@dataclass(frozen=True, slots=True)
class Tracking:
    """Where a job's run is, and what it carries in addition to what Slurm reports.

    Attributes:
        uri: the tracking server, "" for no tracking.
        experiment: MLflow's experiment.
        tags: what a run can be found by.
        params: the job's own parameters.
    """

    uri: str = ""
    experiment: str = ""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    params: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def begin(self) -> Script:
        """Shell before the ranks: creates the run, or continues it."""
        if not self.uri:
            return NOTHING
        return piece("jobs/batch/track-begin.sh", uri=self.uri, experiment=self.experiment)

    @property
    def sample(self) -> Script:
        """Shell of each rank: the first one on a node has the node sampled."""
        return piece("jobs/batch/track-sample.sh") if self.uri else NOTHING

    @property
    def end(self) -> Script:
        """Shell after the ranks."""
        return sh('corral_tracked "$corral_status"\n') if self.uri else NOTHING

    @property
    def files(self) -> dict[str, bytes]:
        """What is sent with the job."""
        if not self.uri:
            return {}
        about = {"tags": dict(self.tags), "params": dict(self.params)}
        return {FILE: json.dumps(about, indent=1).encode()}


UNTRACKED: Final = Tracking()


def tracking_of(job: JobSpec, spec: ClusterSpec, git: Mapping[str, str] | None = None) -> Tracking:
    """What a job's run carries; nothing where the cluster has no tracking.

    Args:
        job: the job.
        spec: the cluster.
        git: tags about the code (``corral.jobs.upload.git.commit_tags``).
    """
    address = uri(spec)
    if not address:
        return UNTRACKED
    tags = {
        "mlflow.source.name": job.script or shlex.join(job.command),
        "mlflow.source.type": "JOB",
        "mlflow.user": user_of(job, spec),
        "corral.cluster": spec.name,
        "corral.spec_digest": digest(spec),
        **(git or {}),
    }
    params = {
        "corral.nodes": str(job.nodes),
        "corral.gpus_per_node": str(job.gpus_per_node),
        "corral.args": " ".join(job.args),
    }
    return Tracking(
        address,
        job.title,
        {key: value for key, value in tags.items() if value},
        {key: value for key, value in params.items() if value},
    )
