"""The backup that the controller makes on a timer."""

from __future__ import annotations

from corral.spec.values import AbsolutePath, AgeRecipient, Interval, Model, about


class ScheduledBackup(Model):
    """Archives of ``corral backup``, made by the controller itself."""

    every: Interval = about("none", "How often; off: never.", default="off")
    folder: AbsolutePath = about(
        "none",
        "Where the archives go, a folder of root's on the controller: on storage that the loss of "
        "the controller does not take along.",
        default="/var/backups/corral",
    )
    to: tuple[AgeRecipient, ...] = about(
        "none",
        "For whom they are encrypted: public keys of age or SSH. Their private keys stay away from "
        "the cluster.",
        default=(),
    )
    keep: int = about(
        "none", "How many are kept; older ones are removed.", default=14, ge=1, le=1000
    )
    artifacts: bool = about(
        "none", "Also the files of MLflow's runs, not their names alone.", default=False
    )
