"""The nodes' image: its script, and which of Google's images is kept."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from corral.errors import Code, CorralError
from corral.events import Emit, Event
from corral.hosts.process import Ended
from corral.providers.gcp import recovery
from corral.providers.gcp.blueprint.cluster import IMAGE_GROUPS, Phase, deployment_of, export
from corral.providers.gcp.deployment import MARKS, Making
from corral.providers.gcp.gcluster import Gcluster
from corral.providers.gcp.image import LABEL, Image, finished, image_of, newest, script_of
from corral.providers.gcp.provider import GcpProvider
from corral.providers.gcp.toolkit_run import Run
from tests.unit.providers.gcp.test_blueprint import mega

if TYPE_CHECKING:
    from corral.providers.gcp.google import Google


def test_it_is_in_the_exported_files(tmp_path: Path) -> None:
    script = tmp_path / "more.sh"
    script.write_text("apt-get install -y nvtop\n")
    made = export(mega(image_script=str(script)), "")
    assert "apt-get install -y nvtop" in made.files["blueprint.yaml"]
    assert script_of(mega()) == ""


def test_a_changed_script_is_a_changed_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    script = tmp_path / "more.sh"
    script.write_text("true\n")
    making = Making(mega(image_script=str(script)), "v1.95.0")
    assert not making.changed  # nothing was made from here
    making.folder.mkdir(parents=True)
    (making.folder / "marks.json").write_text('{"deployed": "another"}')
    assert making.changed
    script.unlink()
    with pytest.raises(CorralError, match="cannot be read: No such file"):
        assert making.changed


@pytest.mark.parametrize("data", [b"", b" \n", b"a\0b", b"a\r\n", b"\xff\xfe", b"#" * 70000])
def test_what_is_not_a_script_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "more.sh").write_bytes(data)
    with pytest.raises(CorralError, match="is not a shell script") as caught:
        script_of(mega(image_script=str(tmp_path / "more.sh")))
    assert caught.value.code is Code.NOT_GOOD


def image(name: str, made: float = 10.0, **more: Any) -> Image:
    plain = Image(name, made, "READY", "0a1b", "mega", "", deprecated=False)
    return plain._replace(**more)


def test_the_family_means_the_newest_that_is_of_use() -> None:
    old, new = image("old"), image("new", 20.0)
    assert newest(()) is None
    assert newest((new, old)) == new
    assert newest((old, new._replace(deprecated=True))) == old
    assert newest((new._replace(status="FAILED"), new._replace(status="DELETING"))) is None


def test_an_image_is_read_as_google_describes_it() -> None:
    source = "https://www.googleapis.com/compute/v1/projects/p/zones/z/disks/packer-0a1b2c"
    assert image_of({"name": "x", "status": "READY"}) == Image(
        "x", 0.0, "READY", "", "", "", deprecated=False
    )
    read = image_of(
        {
            "name": "x",
            "status": "PENDING",
            "sourceDisk": source,
            "creationTimestamp": "1970-01-01T00:00:09.000-00:00",
            "labels": {LABEL: "0a1b", "ghpc_deployment": "mega"},
            "deprecated": {"state": "OBSOLETE"},
        }
    )
    disk = "projects/p/zones/z/disks/packer-0a1b2c"
    assert read == Image("x", 9.0, "PENDING", "0a1b", "mega", disk, deprecated=True)


def test_an_image_that_google_makes_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pending, notes = image("a", status="PENDING"), list[Event]()
    answers = [[pending], [pending], [image("a")]]

    async def images() -> list[Image]:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    assert asyncio.run(finished(images, ("mega",), notes.append, 0.0)) == [image("a")]
    assert [note.message for note in notes] == ["Google is making image a: waiting for it"]
    answers[:] = [[pending]]
    # Another deployment's may take as long as it likes.
    assert asyncio.run(finished(images, ("mega-image",), notes.append, 0.0)) == [pending]
    monkeypatch.setattr("corral.providers.gcp.image.PENDING_S", -1.0)
    with pytest.raises(CorralError, match="image a is still PENDING"):
        asyncio.run(finished(images, ("mega",), notes.append, 0.0))


@pytest.mark.parametrize(
    ("label", "mark", "kept"),
    [("same", "", True), ("other", "same", False), ("", "same", True), ("", "", False)],
)
def test_an_image_is_kept_by_its_label_or_by_the_note_of_an_earlier_corral(
    label: str, mark: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    spec = mega()
    making, digest = Making(spec, "v1.95.0"), deployment_of(spec).image
    making.folder.mkdir(parents=True)
    # Then the note had all 64 digits.
    noted = {"image": digest + "f" * 32} if mark else {}
    (making.folder / MARKS).write_text(json.dumps(noted))
    labels = {"same": digest, "other": "0a1b", "": ""}
    skipped: list[tuple[str, ...]] = []

    async def images() -> list[Image]:
        return [image("old", 1.0, source=digest), image("new", source=labels[label])]

    async def deploy(_: Gcluster, phase: Phase, emit: Emit, **more: Any) -> bool:
        skipped.append(more["skip"])
        return True

    monkeypatch.setattr(Gcluster, "deploy", deploy)
    asyncio.run(making.make(images, lambda _: None))
    assert skipped == [IMAGE_GROUPS if kept else ()]


class Disks:
    """Google with an image, and disks that killed runs may have left."""

    there: ClassVar = {
        "packer-00000a": {"creationTimestamp": "1970-01-01T00:20:00Z"},
        "packer-00000b": {"creationTimestamp": "1970-01-01T00:20:00Z"},
        "packer-00000c": {"creationTimestamp": "1970-01-01T00:20:00Z", "users": ["a machine"]},
        "packer-00000d": {"creationTimestamp": "1970-01-01T05:00:00Z"},
    }

    async def images(self, family: str) -> list[Image]:
        place = "projects/my-project/zones/us-central1-c/disks/packer-00000"
        # Another deployment's image, and of another place, show nothing about a disk.
        return [
            *(image(name, disk=place + name) for name in "acd"),
            image("x", deployment="other", disk=place + "b"),
            image("y", disk="projects/other/zones/us-central1-c/disks/packer-00000b"),
        ]

    async def image_disks(self, zone: str) -> list[dict[str, Any]]:
        return [{"name": name, **disk} for name, disk in self.there.items()]

    async def deployed(self, zone: str, deployment: str) -> list[dict[str, Any]]:
        return []


def test_a_disk_of_a_killed_run_is_deleted_where_this_clusters_image_is_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    provider = GcpProvider(mega(), cast("Google", Disks()))
    deleted: list[tuple[str, ...]] = []
    notes: list[Event] = []

    async def ran(argv: tuple[str, ...], **_: object) -> Ended:
        deleted.append(argv)
        return Ended(0, b"", b"")

    monkeypatch.setattr(recovery, "run", ran)
    asyncio.run(provider._clear(notes.append))  # pyright: ignore[reportPrivateUsage]
    assert deleted == []
    runs = provider._making.program.runs  # pyright: ignore[reportPrivateUsage]
    runs._record("mega", Run(1100.0, status=-9, ended=1300.0))  # pyright: ignore[reportPrivateUsage]
    asyncio.run(provider._clear(notes.append))  # pyright: ignore[reportPrivateUsage]
    where = ("--project=my-project", "--zone=us-central1-c", "--quiet")
    assert deleted == [("gcloud", "compute", "disks", "delete", "packer-00000a", *where)]
    named = "gcloud compute disks delete packer-00000b --project=my-project"
    assert [named in note.message for note in notes] == [False, True]


class Slow(Disks):
    """Google still makes an image; nothing else of the cluster is left."""

    async def images(self, family: str) -> list[Image]:
        return [image("slow", status="PENDING", deployment="mega")]


class Elsewhere(Disks):
    """The record of the killed run is on another machine, or lost."""

    def __getattr__(self, name: str) -> Any:
        async def none(*_: object) -> list[Any]:
            return []

        return none


def test_machines_are_removed_before_an_image_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them cost money for half an hour, and stayed when that was not enough."""
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr("corral.providers.gcp.image.PENDING_S", -1.0)
    removed: list[str] = []

    async def remove(making: Making, emit: Emit) -> tuple[str, ...]:
        removed.extend(making.deployments)
        return ()

    monkeypatch.setattr(Making, "remove", remove)
    provider = GcpProvider(mega(), cast("Google", Slow()))
    runs = provider._making.program.runs  # pyright: ignore[reportPrivateUsage]
    asyncio.run(runs.settle(lambda _: None))  # makes the folder
    runs._record("mega", Run(1100.0, status=-9, ended=1300.0))  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(CorralError, match="image slow is still PENDING"):
        asyncio.run(provider.destroy(lambda _: None))
    assert "mega" in removed


def test_a_disk_that_corral_may_not_delete_comes_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command was to try again, and failed on the same disk for good."""
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))

    async def remove(making: Making, emit: Emit) -> tuple[str, ...]:
        return ()

    monkeypatch.setattr(Making, "remove", remove)
    provider = GcpProvider(mega(), cast("Google", Elsewhere()))
    with pytest.raises(CorralError, match="3 things of mega are left") as caught:
        asyncio.run(provider.destroy(lambda _: None))
    named = "disk packer-00000a (gcloud compute disks delete packer-00000a --project=my-project"
    assert caught.value.tail.startswith(named)
    assert "tries again" not in caught.value.hint
    assert "the command printed with each disk deletes it" in caught.value.hint
