"""Marks of a killed Terraform, read from its messages; what is not ours is left alone."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
from pathlib import Path

import pytest

from corral.errors import CorralError
from corral.events import Event
from corral.providers.gcp import recovery
from corral.providers.gcp.recovery import (
    SKEW_S,
    Forgotten,
    Lock,
    Origin,
    OriginOf,
    forgotten_of,
    is_ours,
    lock_of,
    made_then,
    recover,
)
from corral.providers.gcp.toolkit_run import Window

# Terraform 1.13 with -no-color, between lines of gcluster v1.95.0.
LOCKED = """\
2026-11-22T03:57:33Z: Testing if deployment group /x/mega/primary requires adding or changing
2026-11-22T03:57:40Z: exit status 1

Error: Error acquiring the state lock

Error message: writing
"gs://my-terraform-state/mega/primary/default.tflock" failed:
googleapi: Error 412: At least one of the pre-conditions you specified did not
hold., conditionNotMet
Lock Info:
  ID:        1763784000123456
  Path:      gs://my-terraform-state/mega/primary/default.tflock
  Operation: OperationTypeApply
  Who:       {who}
  Version:   1.13.4
  Created:   2026-11-22 03:57:33.123456789 +0000 UTC
  Info:      

"""  # noqa: W291
EXISTS = """\
╷
│ Error: Error creating Network: googleapi: Error 409: The resource 'projects/my-project/global/networks/mega-gpunet-3' already exists, alreadyExists
│ 
│   with module.gpunets.module.vpcs["3"].google_compute_network.network,
│   on modules/net/main.tf line 18, in resource "google_compute_network" "network":
│   18: resource "google_compute_network" "network" {
╵
╷
│ Error: Error creating Instance: googleapi: Error 409: Resource 'projects/my-project/locations/us-central1-c/instances/mega-homefs' already exists
│ 
│   with module.homefs.google_lustre_instance.lustre_instance,
│   on main.tf line 3, in resource "google_lustre_instance" "lustre_instance":
╵
╷
│ Error: Error waiting for instance to create: quota
│ 
│   with module.other.google_compute_instance.x,
╵
"""  # noqa: E501, W291
CREATED = 1795319853.0


def test_the_lock_is_read() -> None:
    assert lock_of(LOCKED.format(who="me@desk")) == Lock("1763784000123456", "me@desk", CREATED)
    framed = "".join(f"│ {line}\n" for line in LOCKED.format(who="me@desk").splitlines())
    assert lock_of(framed) == lock_of(LOCKED.format(who="me@desk"))
    assert lock_of(EXISTS) is None
    assert lock_of(LOCKED.format(who="me@desk").replace("2026-11-22 03", "2026-99-22 03")) is None


def test_what_exists_is_read_with_its_address() -> None:
    network, lustre = forgotten_of(EXISTS)
    assert network.address == 'module.gpunets.module.vpcs["3"].google_compute_network.network'
    assert network.id == "projects/my-project/global/networks/mega-gpunet-3"
    assert network.kind == "google_compute_network"
    assert lustre.kind == "google_lustre_instance"
    assert Forgotten('google_compute_network.n["a"]', "x").kind == "google_compute_network"
    assert Forgotten("null_resource.n", "x").kind == ""


ME = f"{pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}"
KILLED = (Window(1000.0, 2000.0),)
THEN = Origin(1500.0)
MACHINE = """\
Error: Error creating instance: googleapi: Error 409: The resource 'projects/my-project/zones/z-a/instances/mega-controller' already exists, alreadyExists

  with module.slurm.google_compute_instance_from_template.controller,
"""  # noqa: E501


@pytest.mark.parametrize(
    ("who", "window", "ours"),
    [
        (ME, Window(CREATED - 5, CREATED + 5), True),
        (ME, Window(CREATED + 0.7, CREATED + 5), True),  # the lock's time has no fraction here
        (ME, Window(CREATED - 50, CREATED - 5), True),  # what it printed last was before the lock
        (ME, Window(CREATED + 5, CREATED + 9), False),  # an older one
        (ME, Window(CREATED - 500, CREATED - SKEW_S - 1), False),  # taken by hand since
        (ME.partition("@")[0] + "@elsewhere", Window(CREATED - 5, CREATED + 5), False),
        ("somebody@" + socket.gethostname(), Window(CREATED - 5, CREATED + 5), False),
    ],
)
def test_whose_lock_it_is(who: str, window: Window, ours: bool) -> None:
    lock = lock_of(LOCKED.format(who=who))
    assert lock is not None
    assert is_ours(lock, [window]) is ours
    assert not is_ours(lock, [])


@pytest.mark.parametrize(
    ("made", "then"), [(939, False), (941, True), (2059, True), (2061, False), (9e9, False)]
)
def test_what_was_made_while_a_killed_run_worked(made: float, then: bool) -> None:
    assert made_then(made, KILLED) is then
    assert made_then(made, [Window(0.0, 1.0), *KILLED]) is then
    assert not made_then(made, [])


class Recovery:
    """What a recovery ran and reported.

    Args:
        group: folder of the deployment group.
        refuses: what ``terraform import`` prints as it fails.
    """

    def __init__(self, group: Path, refuses: str = "") -> None:
        self.group = group
        self.refuses = refuses
        self.ran: list[str] = []
        self.notes: list[str] = []

    async def command(self, argv: tuple[str, ...], folder: Path | None, limit: float = 0) -> None:
        self.ran.append(" ".join(argv[:2]))
        if self.refuses and argv[1] == "import":
            raise CorralError(recovery.Code.PROVIDER_FAILED, "no", tail=self.refuses)

    def note(self, event: Event) -> None:
        self.notes.append(event.message)

    def of(self, output: str, origin: Origin | None, killed: tuple[Window, ...] = KILLED) -> bool:
        async def origin_of(type: str, id: str) -> Origin | None:
            return origin

        ask: OriginOf = origin_of
        return asyncio.run(recover(output, self.group, killed, ask, self.note))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recovery:
    group = tmp_path / "mega" / "primary"
    group.mkdir(parents=True)
    recovery_ = Recovery(group)
    monkeypatch.setattr(recovery, "_command", recovery_.command)
    return recovery_


def test_what_a_killed_run_made_is_adopted(here: Recovery) -> None:
    assert here.of(EXISTS, THEN)
    assert here.ran == ["terraform import"] * 2


@pytest.mark.parametrize(
    ("killed", "origin"),
    [
        ((), THEN),  # a run that failed otherwise
        (KILLED, Origin(900.0)),
        (KILLED, Origin(9000.0)),  # made since, by somebody else
        (KILLED, Origin(1500.0, "other")),
    ],
)
def test_what_no_killed_run_made_stays_and_is_named(
    killed: tuple[Window, ...], origin: Origin, here: Recovery
) -> None:
    assert not here.of(EXISTS, origin, killed)
    assert here.ran == []
    assert "projects/my-project/global/networks/mega-gpunet-3" in here.notes[0]
    assert "terraform import" in here.notes[0]
    assert str(here.group) in here.notes[0]


def test_what_is_unknown_stays(here: Recovery) -> None:
    assert not here.of(EXISTS, None)
    assert not asyncio.run(recover(EXISTS, here.group, KILLED, None, here.note))
    assert here.ran == []


def test_a_machine_that_cannot_be_adopted_is_deleted_by_its_label_alone(here: Recovery) -> None:
    here.refuses = "Error: resource google_compute_instance_from_template doesn't support import"
    assert here.of(MACHINE, Origin(1500.0, "mega"))
    assert here.ran == ["terraform import", "gcloud compute"]
    here.ran.clear()
    with pytest.raises(CorralError, match="no label of deployment mega") as raised:
        here.of(MACHINE, THEN)
    assert here.ran == ["terraform import"]
    assert "gcloud compute instances delete mega-controller" in raised.value.hint
    here.ran.clear()
    assert not here.of(MACHINE, Origin(9000.0, "mega"))
    assert here.ran == []


def test_a_lock_is_released_unless_a_terraform_works_there(
    here: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = (Window(CREATED - 5, CREATED + 5),)
    output = LOCKED.format(who=ME)
    working: list[bool] = [False]
    monkeypatch.setattr(recovery, "terraform_in", lambda folder: working[0])
    assert here.of(output, None, killed)
    assert here.ran == ["terraform force-unlock"]
    here.ran.clear()
    working[0] = True
    assert not here.of(output, None, killed)
    working[0] = False
    assert not here.of(output, None, ())
    assert here.ran == []
    assert "terraform force-unlock -force 1763784000123456" in here.notes[-1]
