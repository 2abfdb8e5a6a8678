"""A plan says what is gone for good with a machine."""

from __future__ import annotations

import pytest

from corral.roles.lost import lost_with
from corral.spec.models import ClusterSpec, Storage
from corral.spec.services import Services
from tests.unit.roles.test_cluster import people


def spec(**changes: object) -> ClusterSpec:
    return people().model_copy(update=changes)


def test_the_controller_holds_queue_history_and_keys() -> None:
    one = people()
    text = lost_with(one, "ctl")
    assert "job queue" in text
    assert "job ids begin at 1 again" in text
    assert "keys and tokens" in text
    assert ("accounting history" in text) == one.slurm.accounting
    assert lost_with(one, "a0") == ""


@pytest.mark.parametrize("accounting", [False, True])
@pytest.mark.parametrize("mlflow", [False, True])
def test_only_what_is_declared_is_lost(accounting: bool, mlflow: bool) -> None:
    slurm = people().slurm.model_copy(update={"accounting": accounting})
    text = lost_with(spec(slurm=slurm, services=Services(mlflow=mlflow)), "ctl")
    assert ("accounting" in text) == accounting
    assert ("MLflow" in text) == mlflow


def test_a_file_server_holds_its_files() -> None:
    served = Storage(mount="/data", kind="nfs", server="a0", path="/srv/data")
    text = lost_with(spec(storage=(served,)), "a0")
    assert text == "the files of /data that it serves from /srv/data"
