"""What the training logs to MLflow, where MLFLOW_TRACKING_URI is set."""

import os
from importlib import import_module
from typing import Any


def client() -> Any:
    """The module mlflow; else the few functions of it that `corral run` uploads."""
    for name in ("mlflow", "corral.track"):
        try:
            return import_module(name)
        except ImportError:
            pass
    print("MLFLOW_TRACKING_URI is set, and mlflow is not installed: not tracked", flush=True)
    return None


class Tracking:
    """One run; nothing on ranks that have no options to log.

    Corral sets MLFLOW_RUN_ID, so that this is the job's own run, also after a requeue.
    """

    def __init__(self, options: dict[str, Any] | None) -> None:
        tracked = options is not None and os.environ.get("MLFLOW_TRACKING_URI")
        self.mlflow = client() if tracked else None
        if self.mlflow is not None:
            self.mlflow.start_run()
            self.mlflow.log_params({k: str(v) for k, v in (options or {}).items()})

    def log(self, metrics: dict[str, float], step: int) -> None:
        """Numbers of this step."""
        if self.mlflow is not None:
            self.mlflow.log_metrics(metrics, step=step)

    def end(self, status: int) -> None:
        """The training is over."""
        if self.mlflow is not None:
            self.mlflow.end_run("FAILED" if status else "FINISHED")

    def pause(self) -> None:
        """The job comes again, and goes on with this run."""
        if self.mlflow is not None:
            self.mlflow.end_run("SCHEDULED")
