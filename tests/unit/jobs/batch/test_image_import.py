"""Images of a registry: what is taken, where it goes, and that the key is in no text."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from corral.api.lifecycle import image_import
from corral.api.lifecycle.image_import import KEY, key_of
from corral.errors import Code, CorralError
from corral.jobs.batch.image_import import checked_key, import_of, script


@pytest.mark.parametrize(
    ("text", "name", "image", "path"),
    [
        ("docker://reg.example/team/box:1", "", "reg.example#team/box:1",
         "/shared/images/team+box+1.sqsh"),
        ("docker://reg.example#team/box:1", "box", "reg.example#team/box:1",
         "/shared/images/box.sqsh"),
        ("docker://10.0.0.5:5000/box", "/data/b.sqsh", "10.0.0.5:5000#box", "/data/b.sqsh"),
        ("docker://ubuntu:24.04", "", "ubuntu:24.04", "/shared/images/ubuntu+24.04.sqsh"),
    ],
)  # fmt: skip
def test_where_an_image_goes(text: str, name: str, image: str, path: str) -> None:
    request = import_of(text, "/shared", name=name)
    assert (request.image, request.path) == (image, path)


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("ubuntu", {}),
        ("docker://a b", {}),
        ("docker://x/$(id)", {}),
        ("docker://reg.example/box", {"name": "../up"}),
        ("docker://reg.example/box", {"name": "/data/a b"}),
        ("docker://reg.example/box", {"login": "a b"}),
        ("docker://ubuntu", {"login": "me"}),
    ],
)
def test_what_is_refused(text: str, more: dict[str, str]) -> None:
    with pytest.raises(CorralError) as caught:
        import_of(text, "/shared", **more)  # pyright: ignore[reportArgumentType]
    assert caught.value.code is Code.USAGE


def test_the_job_writes_the_key_for_that_registry_alone(tmp_path: Path) -> None:
    """The real shell text, with srun and enroot that report what they were given."""
    at_port = import_of("docker://10.0.0.5:5000/box", "/shared", login="anna")
    assert at_port.registry == "10.0.0.5"  # as Enroot looks for it
    for name, text in {
        "srun": 'echo "srun $*" >>"$D/calls"; for a; do last=$a; done; exec sh -c "$last"',
        "enroot": 'echo "enroot $*" >>"$D/calls"; stat -c %a "$ENROOT_CONFIG_PATH/.credentials"; '
        'cat "$ENROOT_CONFIG_PATH/.credentials"; echo "$ENROOT_CONFIG_PATH" >"$D/where"; : >"$3"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    request = import_of("docker://reg.example/box:1", str(tmp_path), login="$oauthtoken")
    done = subprocess.run(
        ["sh", "-c", str(script(request, "main"))],
        input=checked_key("k-1"),
        capture_output=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "D": str(tmp_path)},
        check=True,
    )
    assert done.stdout.decode() == "600\nmachine reg.example login $oauthtoken password k-1\n"
    calls = (tmp_path / "calls").read_text()
    assert "k-1" not in calls
    assert "enroot import -o" in calls
    assert "docker://$oauthtoken@reg.example#box:1" in calls
    assert not Path((tmp_path / "where").read_text().strip()).exists()
    assert Path(request.path).exists()
    assert not Path(f"{request.path}.part").exists()


ENROOT = """
case "$3" in "$D"/images/.corral-import.*/image.sqsh) ;; *) echo "wrote $3" >&2; exit 9 ;; esac
[ "$(stat -c %a "${3%/*}")" = 700 ] || exit 8
[ ! -e "$3" ] && echo image > "$3"
"""


def imported(tmp_path: Path, name: str = "box") -> subprocess.CompletedProcess[str]:
    for program, text in {
        "srun": 'for a; do last=$a; done; exec sh -c "$last"',
        "enroot": ENROOT,
    }.items():
        (tmp_path / program).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / program).chmod(0o755)
    request = import_of("docker://reg.example/box:1", str(tmp_path), name=name)
    return subprocess.run(
        ["sh", "-c", str(script(request, "main"))],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "D": str(tmp_path)},
    )


def test_names_that_another_user_may_have_taken_are_not_written_through(tmp_path: Path) -> None:
    """All users write to the folder of images: a link under the name it had while it was made."""
    images = tmp_path / "images"
    images.mkdir()
    images.chmod(0o1777)
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "away").mkdir()
    for name in ("box.sqsh.part", "box.sqsh"):
        (images / name).symlink_to("../mine")
    done = imported(tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (images / "box.sqsh").is_symlink()
    assert (images / "box.sqsh").read_text() == "image\n"
    (images / "other.sqsh").mkdir()
    assert imported(tmp_path, "other").returncode != 0
    assert list((images / "other.sqsh").iterdir()) == []
    assert [p.name for p in images.iterdir() if p.name.startswith(".")] == []


def test_images_that_others_can_rename_are_not_written_to(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    images.chmod(0o777)
    done = imported(tmp_path)
    assert done.returncode != 0
    assert "without the sticky bit" in done.stderr
    assert list(images.iterdir()) == []


def test_keys() -> None:
    assert key_of("", {KEY: " abc "}) == "abc"
    for bad in ("a b", "a\nb", "", "é", "$(id)"):
        with pytest.raises(CorralError) as caught:
            checked_key(bad)
        assert not bad or bad not in str(caught.value)


@pytest.mark.parametrize(
    ("output", "hint"),
    [
        ("enroot-aufs2ovlfs: failed to set capabilities: Operation not permitted", "enroot+caps"),
        ("[INFO] Authenticating with user: anna", "wants a login"),
        ("curl: (6) Could not resolve host: reg.example", "do not reach the registry"),
        ("No space left on device", "last lines"),
    ],
)
def test_output_of_enroot_is_read(output: str, hint: str) -> None:
    request = import_of("docker://reg.example/box", "/shared")
    error = image_import._failed(request, 1, f"srun: starting\n{output}\n")
    assert hint in error.hint
    assert output in error.tail
