"""Jobs in containers: how an image and a mount are named, what is mounted, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import CorralError
from corral.jobs.batch.containers import mounts_of, words
from corral.jobs.batch.image_names import image_of, mount_of
from corral.jobs.limits import against_image
from corral.jobs.model import JobSpec, parse_job
from corral.spec.load import load_or_raise

EXAMPLES = Path(__file__).parents[4] / "examples"

IMAGES = {
    "/shared/pytorch.sqsh": "/shared/pytorch.sqsh",
    "ubuntu": "ubuntu",
    "ubuntu:24.04": "ubuntu:24.04",
    "docker://ubuntu:24.04": "ubuntu:24.04",
    "pytorch/pytorch:2.9-cuda13": "pytorch/pytorch:2.9-cuda13",
    "nvcr.io/nvidia/pytorch:26.04-py3": "nvcr.io#nvidia/pytorch:26.04-py3",
    "docker://nvcr.io#nvidia/pytorch:26.04-py3": "nvcr.io#nvidia/pytorch:26.04-py3",
    "registry:5000/a/b": "registry:5000#a/b",
    "localhost/a": "localhost#a",
    "me@registry.example#a/b@sha256:00": "me@registry.example#a/b@sha256:00",
}


@pytest.mark.parametrize("written", IMAGES)
def test_an_image_as_enroot_names_it(written: str) -> None:
    assert image_of(written) == IMAGES[written]
    assert image_of(IMAGES[written]) == IMAGES[written]


@pytest.mark.parametrize(
    "written", ["", "./a.sqsh", "a.sqsh", "/a b.sqsh", "/a/../b.sqsh", "a b", "-x", "a;b", "$(id)"]
)
def test_no_image(written: str) -> None:
    with pytest.raises(CorralError):
        parse_job({"script": "train.py", "container": written})


@given(st.text(max_size=40))
def test_what_is_taken_for_an_image_is_one_plain_word(text: str) -> None:
    try:
        image = image_of(text)
    except ValueError:
        return
    assert not set(image) & set(" \t\n'\"\\$`;&|<>(),*?!")
    assert not image.startswith("-")


@pytest.mark.parametrize(
    ("written", "taken"),
    [("/a:/b", "/a:/b"), ("/a:/b:ro", "/a:/b:ro"), ("/a", "/a:/a"), ("/a::ro", "/a:/a:ro")],
)
def test_a_mount(written: str, taken: str) -> None:
    assert mount_of(written) == taken


@pytest.mark.parametrize("written", ["", "a:/b", "/a:b", "/a:/b:x", "/a,/c:/b", "/a:/b:ro:z", "/"])
def test_no_mount(written: str) -> None:
    with pytest.raises(CorralError) as caught:
        parse_job({"script": "train.py", "container": "ubuntu", "mounts": [written]})
    assert "mount" in caught.value.message


def test_shared_storage_is_mounted_where_it_is_and_data_read_only() -> None:
    job = JobSpec(
        script="train.py", container="ubuntu", data=("/shared/set", "/raid/set"), mounts=("/x:/y",)
    )
    mounts = mounts_of(job, ["/shared", "/home"], ["/var/tmp:/var/tmp"])
    assert mounts == (
        "/shared:/shared",
        "/home:/home",
        "/var/tmp:/var/tmp",
        "/raid/set:/raid/set:ro",
        "/x:/y",
    )
    other = job.model_copy(update={"mounts": ("/mine:/home:ro",)})
    assert "/home:/home" not in mounts_of(other, ["/shared", "/home"])


def test_gpus_are_asked_of_enroot_only_where_there_are_some() -> None:
    job = JobSpec(script="train.py", container="ubuntu")
    assert "NVIDIA" not in words(job, ())
    assert "NVIDIA_VISIBLE_DEVICES" in words(job.model_copy(update={"gpus_per_node": 1}), ())
    assert words(JobSpec(script="train.py", gpus_per_node=1), ("/a:/a",)) == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"mounts": ["/a:/b"]},
        {"container": "ubuntu", "environment": "uv.lock"},
    ],
)
def test_what_does_not_go_together(fields: dict[str, object]) -> None:
    with pytest.raises(CorralError) as caught:
        parse_job({"script": "train.py", **fields})
    assert "container" in caught.value.message


def test_a_cluster_without_pyxis_names_what_works_there() -> None:
    laptop = load_or_raise(EXAMPLES / "laptop.yaml")
    job = JobSpec(script="train.py", container="ubuntu")
    (refused,) = against_image(job, laptop)
    assert "Pyxis" in refused.reason
    assert "requirements.txt" in refused.instead
    software = laptop.software.model_copy(update={"containers": "pyxis"})
    assert not against_image(job, laptop.model_copy(update={"software": software}))
    assert not against_image(JobSpec(script="train.py"), laptop)
