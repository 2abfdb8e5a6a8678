"""Services beside Slurm."""

from __future__ import annotations

from corral.spec.kinds import Model, TrackingUri, about


class Services(Model):
    """What runs beside Slurm for the people who use the cluster."""

    mlflow: bool = about(
        "restart",
        "An MLflow tracking server on the controller; jobs get its address and a run of their own.",
        default=False,
    )
    mlflow_uri: TrackingUri | None = about(
        "none",
        "Address of a tracking server you have already; jobs get it instead. Its password or token "
        "goes by the environment (--env MLFLOW_TRACKING_TOKEN), not into this file.",
        default=None,
    )
