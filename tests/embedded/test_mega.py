"""A3 Mega: corral drives gcluster over a simulated Google Cloud, and uses what came of it.

CORRAL_TEST_GCLUSTER_V1_95_0 and _V1_39_0 name real gcluster programs, which then take the place
of the simulated one; below them Terraform and Packer stay simulated.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.embedded.mega import world as worlds
from tests.embedded.mega.google import TOKEN, Server
from tests.embedded.mega.project import Mega, images_of, mega, mega_at, no_image, server

from corral import api
from corral.errors import Code, CorralError
from corral.events import Event, Kind
from corral.providers.gcp.deployment import Making
from corral.providers.gcp.provider import GcpProvider
from corral.providers.gcp.recovery import Origin

__all__ = ["mega", "server"]

RELEASES = ("v1.95.0", "v1.39.0")


@pytest.mark.parametrize("program", ["simulated", "real"])
@pytest.mark.parametrize("release", RELEASES)
def test_phases_in_order_and_back(
    release: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    mega = mega_at(tmp_path, monkeypatch, release, server)
    if program == "real":
        mega.real()
    spec = mega.spec()
    events: list[Event] = []
    making = Making(spec, release)
    asyncio.run(making.make(no_image, events.append))
    done = [e.node for e in events if e.kind is Kind.NODE_DONE]
    notes = [e.message for e in events if e.kind is Kind.NOTE]
    assert any("added, 0 changed" in n for n in notes)
    assert "image made in 25 minutes 3 seconds" in notes
    world = worlds.read(tmp_path)
    assert set(world["instances"]) >= {"mega-controller", "mega-a3mega-0", "mega-a3mega-1"}
    assert len(world["networks"]) == 9
    if release == "v1.39.0":
        assert done == [
            "mega-base/primary",
            "mega-image/build-script",
            "mega-image/slurm-build",
            "mega-cluster/cluster",
        ]
        # The base's Lustre got its address only then, and the cluster's phase mounts it there.
        assert "sharedfs is at 172.16.0.7: written into the next phases" in notes
        text = (making.folder / "deployment-image-cluster.yaml").read_text()
        assert "server_ip_sharedfs: 172.16.0.7" in text
        assert "0.0.0.0" not in text  # noqa: S104
        expanded = making.folder / "mega-cluster/.ghpc/artifacts/expanded_blueprint.yaml"
        assert "172.16.0.7" in expanded.read_text()
    else:
        assert done == [f"mega/{g}" for g in ("primary", "build-script", "slurm-build", "cluster")]
    assert not making.changed
    events.clear()
    gone = asyncio.run(making.remove(events.append))
    world = worlds.read(tmp_path)
    assert not world["instances"]
    assert not world["networks"]
    back = [e.node for e in events if e.kind is Kind.NODE_DONE]
    assert back == [group for group in reversed(done) if not group.endswith("slurm-build")]
    names = ["mega-cluster", "mega-image", "mega-base"] if release == "v1.39.0" else ["mega"]
    assert list(gone) == [f"deployment {name}" for name in names]


def test_a_failure_keeps_what_was_made_and_the_same_goes_on(mega: Mega) -> None:
    spec = mega.spec()
    making = Making(spec, mega.release)
    message = (
        "Error waiting for instance to create: The zone 'projects/my-project/zones/us-central1-c' "
        "does not have enough resources available to fulfill the request."
    )
    mega.change(fail={"mega/cluster": message})
    with pytest.raises(CorralError, match="does not have enough resources") as caught:
        asyncio.run(making.make(no_image, lambda _: None))
    assert caught.value.code is Code.PROVIDER_FAILED
    assert "in mega/cluster" in caught.value.message
    assert "a reservation, flex-start, or another zone" in caught.value.hint
    assert "mega-sys-net" in worlds.read(mega.folder)["networks"]
    built = len(worlds.read(mega.folder)["images"])
    mega.change(fail={})

    # The phase failed after its image was made, which is kept.
    for _ in range(2):
        asyncio.run(making.make(images_of(mega), lambda _: None))
        assert len(worlds.read(mega.folder)["images"]) == built == 1
    assert "--skip build-script,slurm-build" in mega.calls("gcluster")[-1]


def test_another_release_on_path_is_refused(mega: Mega, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_TEST_MEGA_RELEASE", "v1.96.1")
    with pytest.raises(CorralError, match=r"v1\.96\.1, and the cluster file is for v1\.95\.0"):
        asyncio.run(api.up(mega.spec()))
    (mega.folder / "bin" / "gcluster").unlink()
    monkeypatch.setenv("PATH", f"{mega.folder / 'bin'}:/usr/bin:/bin")
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.up(mega.spec()))
    assert caught.value.code is Code.MISSING_TOOL
    assert not mega.calls("terraform")


@pytest.mark.parametrize(
    ("world", "reason"),
    [
        ({"zones": {"us-central1-c": ["c2-standard-8"]}}, "does not offer a3-megagpu-8g"),
        ({"zones": {}}, "there is no zone us-central1-c"),
        ({"project": "another"}, "there is no project my-project"),
        ({"reservations": {}}, "there is no reservation my-reservation"),
        ({"reservations": {"my-reservation": {"machine": "a3-highgpu-8g", "count": 2, "used": 0,
                                              "status": "READY"}}}, "holds a3-highgpu-8g"),
        ({"reservations": {"my-reservation": {"machine": worlds.MACHINE, "count": 2, "used": 1,
                                              "status": "READY"}}}, "has 1 machines left, 2 are"),
        ({"quotas": {"NETWORKS": 5, "SUBNETWORKS": 100}}, "NETWORKS of the project: 5 of 5 left"),
        ({"region_quotas": {"C2_CPUS": 8}}, "C2_CPUS of us-central1: 8 of 8 left, 20"),
        ({"nobody": True}, "no credentials for Google Cloud"),
    ],
)  # fmt: skip
def test_google_is_asked_first_and_nothing_is_made(
    mega: Mega, world: dict[str, object], reason: str
) -> None:
    mega.change(**world)
    with pytest.raises(CorralError, match=reason):
        asyncio.run(api.up(mega.spec()))
    assert not mega.calls("terraform")
    assert mega.server.methods <= {"GET"}
    if "nobody" not in world:
        plan = asyncio.run(api.plan(mega.spec()))
        assert reason.replace("\\", "") in plan.machines[0].summary


def test_what_is_left_is_listed(mega: Mega) -> None:
    asyncio.run(Making(mega.spec(), mega.release).make(no_image, lambda _: None))
    mega.change(sticky=["mega-gpunet-3"], disks={"mega-controller-save": "mega"})
    with pytest.raises(CorralError, match="2 things of mega are left") as caught:
        asyncio.run(api.down(mega.spec()))
    assert caught.value.tail == "disk mega-controller-save\nnetwork mega-gpunet-3"
    mega.change(sticky=[], disks={}, networks={})
    gone = asyncio.run(api.down(mega.spec()))
    assert gone[0] == "deployment mega"
    assert gone[1].startswith("mega: kept image slurm-mega-")


def test_an_interrupt_reaches_terraform_and_is_waited_for(mega: Mega) -> None:
    """Killed, it would keep its lock on the state and forget what it was making."""
    mega.change(slow=1.0)

    async def interrupted() -> None:
        making = asyncio.create_task(
            Making(mega.spec(), mega.release).make(no_image, lambda _: None)
        )
        while not mega.world()["networks"]:  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.02)
        making.cancel()
        await making

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    world = worlds.read(mega.folder)
    assert list(world["networks"]) == ["mega-sys-net"]
    assert world["locks"] == {}
    state = world["made"]["mega/primary"].values()
    assert {"networks": "mega-sys-net"} in state
    assert not (mega.folder / "gcluster.pid").exists()


def test_what_a_killed_terraform_left_is_left_where_nobody_knows_whose_it_is(mega: Mega) -> None:
    lock = {
        "ID": "17",
        "Path": "gs://x",
        "Who": "somebody@elsewhere",
        "Version": "1.13.4",
        "Operation": "OperationTypeApply",
        "Info": "",
        "Created": "2026-11-22 03:57:33.123456789 +0000 UTC",
    }
    mega.change(locks={"mega/primary": lock})
    making = Making(mega.spec(), mega.release)
    for _ in range(2):  # the second time a run has failed before
        with pytest.raises(CorralError, match="Error acquiring the state lock") as caught:
            asyncio.run(making.make(no_image, lambda _: None))
        assert "force-unlock ID" in caught.value.hint
    mega.change(locks={}, networks={"mega-sys-net": "another"})
    with pytest.raises(CorralError, match="already exists"):
        asyncio.run(making.make(no_image, lambda _: None, old))
    assert not any("import" in call for call in mega.calls("terraform"))


async def old(type: str, id: str) -> Origin:
    return Origin(1.0)


def test_the_token_is_stored_nowhere(mega: Mega) -> None:
    asyncio.run(Making(mega.spec(), mega.release).make(no_image, lambda _: None))
    asyncio.run(GcpProvider(mega.spec()).read_machines())
    for path in (p for p in mega.folder.rglob("*") if p.is_file()):
        assert TOKEN not in path.read_text(errors="replace"), path
