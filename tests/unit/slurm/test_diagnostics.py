"""What sdiag and sshare print, and that text and JSON are read into one record."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from dataclasses import fields
from pathlib import Path

from corral.slurm import diagnostics
from corral.slurm.policy import COUNTED, Cycle, Reservation, Scheduler, Share
from corral.slurm.rest import policy
from corral.slurm.text import readable_reservation

RECORDED = Path(__file__).parents[2] / "recorded"
SDIAG = (RECORDED / "commands/24.11/sdiag.txt").read_text()
SSHARE = (RECORDED / "commands/24.11/sshare.txt").read_text()
SOURCE = Path(__file__).parents[3] / "src/corral"


def known(record: Scheduler | Cycle | Share) -> set[str]:
    """Fields that an answer filled."""
    return {f.name for f in fields(record) if getattr(record, f.name) not in (None, (), {})}


def test_text_fills_what_json_fills() -> None:
    """Of one release; why cycles ended and who asked is read from JSON alone."""
    body = json.loads((RECORDED / "rest/24.11/v0.0.42/diag.json").read_text())["body"]
    of_json, of_text = policy.scheduler(body, 42), diagnostics.scheduler(SDIAG)
    assert known(of_json) - known(of_text) == {"by_user"}
    assert known(of_json.main) - known(of_text.main) <= {"exits"}
    assert known(of_json.backfill) - known(of_text.backfill) <= {"exits"}
    assert set(of_text.jobs or ()) == set(of_json.jobs or ()) == set(COUNTED)
    assert (of_text.since, of_text.main.longest, of_text.backfill.last_depth) == (
        1795874469,
        867,
        1,
    )


def test_shares_of_text() -> None:
    shares = {(share.account, share.user): share for share in diagnostics.shares(SSHARE)}
    assert shares["corral", ""] == Share("corral", part=0.5, effective=0.0)
    assert shares["corral", "corral"] == Share(
        "corral", "corral", part=1.0, effective=0.0, factor=0.0
    )


def test_a_reservation_of_text() -> None:
    line = (
        "ReservationName=soon StartTime=2099-01-31T08:00:00 EndTime=2099-01-31T12:00:00 "
        "Duration=04:00:00 Nodes=n[0-1] NodeCnt=2 CoreCnt=4 Features=(null) PartitionName=(null) "
        "Flags=MAINT,SPEC_NODES Users=root,-eve Accounts=(null) Licenses=(null)"
    )
    assert readable_reservation(line) == Reservation(
        "soon",
        nodes="n[0-1]",
        node_count=2,
        cores=4,
        users=("root", "-eve"),
        flags=("MAINT", "SPEC_NODES"),
        start_local="2099-01-31T08:00:00",
        end_local="2099-01-31T12:00:00",
        length=14400,
    )
    assert readable_reservation("No reservations in the system") is None


MODULES = ("slurm/records.py", "slurm/policy.py", "slurm/steps.py", "slurm/states")
DECLARED = {"spec/models.py", "spec/nodes.py", "spec/sections"}
"""The cluster file's own things of the same names: what is declared, read from no Slurm."""
OTHERS = {
    "Call": {
        "jobs/function/call.py",  # of a function, pickled
        "providers/cloud/calls.py",  # of a cloud's API
        "testing/clouds/world.py",  # of a simulated cloud's
    },
    "Job": {"api/workload/handle.py"},  # what a notebook holds of a job it submitted
    "Limit": {"state/slurm/accounts.py"},  # declared limits of an account
    "Member": {
        "api/operations/overview.py",  # a machine of the cluster with Slurm's record
        "prove/measure/network.py",  # of a ring that is measured
        "providers/containers/bundle.py",  # a file of an archive
        "state/slurm/accounts.py",  # a declared user of an account
        "state/slurm/members.py",  # a declared node
    },
    "Node": {"prove/measure/gpu.py"},  # figures of one machine
    "Phase": {"providers/gcp/blueprint/cluster.py"},
    "Share": {"roles/role.py", "prove/measure/storage.py"},  # of a stage; of a measurement
    "Step": {"state/slurm/accounts.py"},  # a change
}


def classes(where: Path) -> set[str]:
    files = sorted(where.rglob("*.py")) if where.is_dir() else [where]
    return {
        node.name
        for file in files
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    }


def test_a_thing_of_slurms_has_one_record() -> None:
    """A second class of a record's name is one of something else, and listed as such."""
    records = {name for module in MODULES for name in classes(SOURCE / module)}
    assert {"Node", "Job", "Share", "Reservation", "Scheduler", "Step"} <= records
    places: dict[str, set[str]] = defaultdict(set)
    for file in sorted(SOURCE.rglob("*.py")):
        name = str(file.relative_to(SOURCE))
        if not name.startswith((*MODULES, *DECLARED)):
            for same in classes(file) & records:
                places[same].add(name)
    assert dict(places) == OTHERS
