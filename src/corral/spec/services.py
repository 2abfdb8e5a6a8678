"""Services alongside Slurm."""

from __future__ import annotations

from typing import Literal

from corral.spec.kinds import Model, TrackingUri, about
from corral.spec.page import Page


class Services(Model):
    """What runs alongside Slurm for the people who use the cluster."""

    mlflow: bool = about(
        "restart",
        "An MLflow tracking server on the controller; each job gets its address and own run.",
        default=False,
    )
    mlflow_store: Literal["sqlite", "postgresql"] = about(
        "restart",
        "Where its runs are kept, on the controller: sqlite, one file, for a lab; postgresql for "
        "many jobs at once. What the one holds does not go over into the other.",
        default="sqlite",
    )
    mlflow_uri: TrackingUri | None = about(
        "none",
        "Address of a tracking server you have already; jobs get it instead. Its password or token "
        "goes by the environment (--env MLFLOW_TRACKING_TOKEN), not into this file.",
        default=None,
    )
    ui: bool = about(
        "restart",
        "The page as a service on the controller; people log in with their Slurm token.",
        default=False,
    )
    page: Page = about("restart", "How that page is reached.", default=Page())
    metrics: bool = about(
        "restart",
        "Prometheus on the controller with figures of nodes, GPUs, jobs and Corral, and a "
        "dashboard for Grafana.",
        default=False,
    )
