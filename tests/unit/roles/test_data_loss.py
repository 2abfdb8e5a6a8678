"""A plan names what is lost with a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.apply.journal import Journal, declared_before
from corral.apply.session import Session
from corral.roles.data_loss import lost_with
from corral.spec.models import ClusterSpec, Storage
from corral.spec.sections.services import Services
from tests.unit.roles.test_cluster import people


def spec(**changes: object) -> ClusterSpec:
    return people().model_copy(update=changes)


def test_the_controller_holds_queue_history_and_keys() -> None:
    spec = people()
    text = lost_with([spec], "ctl")
    assert "job queue" in text
    assert "job ids begin at 1 again" in text
    assert "keys and tokens" in text
    assert ("accounting history" in text) == spec.slurm.accounting
    assert lost_with([spec], "a0") == ""


@pytest.mark.parametrize("accounting", [False, True])
@pytest.mark.parametrize("mlflow", [False, True])
def test_only_what_is_declared_is_lost(accounting: bool, mlflow: bool) -> None:
    slurm = people().slurm.model_copy(update={"accounting": accounting})
    text = lost_with([spec(slurm=slurm, services=Services(mlflow=mlflow))], "ctl")
    assert ("accounting" in text) == accounting
    assert ("MLflow" in text) == mlflow


def test_a_file_server_holds_its_files() -> None:
    served = Storage(mount="/data", kind="nfs", server="a0", path="/srv/data")
    text = lost_with([spec(storage=(served,))], "a0")
    assert text == "the files of /data that it serves from /srv/data"


def renamed() -> ClusterSpec:
    """As before, with another name for the machine that is the controller."""
    spec = people()
    groups = tuple(
        g.model_copy(update={"nodes": g.nodes.replace("ctl", "head")}) for g in spec.groups
    )
    return spec.model_copy(update={"groups": groups, "controller": "head"})


def test_a_controller_that_is_renamed_is_removed_with_all_it_holds(tmp_path: Path) -> None:
    """Under its old name the file knows it no longer: what it was is in the journal."""
    old, new = people(), renamed()
    journal = tmp_path / "journal.jsonl"
    Journal(journal, "r").write("spec", {"spec": old.model_dump(mode="json")})
    # The first round of `up` records the new file; the second still removes the old machine.
    Journal(journal, "r").write("spec", {"spec": new.model_dump(mode="json")})
    Journal(journal, "r").write("spec", {"spec": {"corral": "v0"}})
    text = lost_with([new, *declared_before(journal)], "ctl")
    assert text == lost_with([old], "ctl")
    assert "job queue" in text
    assert lost_with([new], "ctl").startswith("unknown")


def test_a_server_that_serves_no_longer_still_holds_its_files() -> None:
    served = Storage(mount="/data", kind="nfs", server="a0", path="/srv/data")
    text = lost_with([people(), spec(storage=(served,))], "a0")
    assert text == "the files of /data that it serves from /srv/data"


def test_an_owned_machine_with_another_name_is_not_restored() -> None:
    """It is the same machine: undoing what its former name held would undo the cluster."""
    session = Session(renamed(), ())
    roster = "ctl 10.0.0.10 22 root\na9 10.0.0.99 22 root\n"
    assert list(session.strays(roster)) == ["a9"]
