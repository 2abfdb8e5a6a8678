"""Rules about services beside Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.spec.findings import Level
from corral.spec.rules.view import Problem, Rule, View


def tracking_twice(view: View) -> Iterator[Problem]:
    """A tracking server of the cluster's and one of the user's."""
    services = view.spec.services
    if services.mlflow and services.mlflow_uri:
        message = "jobs can log to one tracking server only"
        hint = "leave out mlflow to use the server you have, or mlflow_uri to get one here"
        yield Problem(("services", "mlflow_uri"), message, hint)


RULES: Final = (
    Rule("mlflow-twice", Level.ERROR, "A tracking server of the cluster's own and another one.",
         ("services.mlflow", "services.mlflow_uri"), tracking_twice),
)  # fmt: skip
