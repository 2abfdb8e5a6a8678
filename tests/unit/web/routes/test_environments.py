"""Container images and Python environments of the form: what is listed, and as whom."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.api import Environments
from corral.api.page import job_environments as listing
from corral.api.page.job_environments import Image, environments_script, read_environments
from corral.errors import CorralError
from corral.spec.models import ClusterSpec
from corral.web import as_user, schemas
from corral.web.slurm.slurmrest import Login
from corral.web.users.user_commands import ByHelper
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.routes.test_form import USER
from tests.unit.web.shapes import held
from tests.unit.web.users.test_owner import spec


def listed(*mounts: Path, home: Path, programs: str = "/nowhere") -> Environments:
    argv = ["sh", "-c", str(environments_script([str(mount) for mount in mounts]))]
    env = {**os.environ, "HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    return read_environments(done.stdout)


def venv(folder: Path) -> str:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to("/bin/sh")
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return str(folder)


def image(file: Path, size: int) -> Image:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    return Image(str(file), size)


def conda(folder: Path) -> str:
    for name in ("conda-meta", "bin"):
        (folder / name).mkdir(parents=True)
    (folder / "bin/python").symlink_to("/bin/sh")
    return str(folder)


def test_images_and_environments_of_the_home_and_of_mounts(tmp_path: Path) -> None:
    mount, other = tmp_path / "shared", tmp_path / "data"
    home = mount / "home/kim"
    images = (
        image(home / "images/own.sqsh", 2),
        image(mount / "images/torch.sqsh", 5),
        image(other / "containers/a.sqsh", 1),
    )
    pythons = (
        venv(home / "venvs/mine"),
        conda(home / ".conda/envs/made"),
        conda(home / "miniconda3/envs/base"),
        venv(home / ".venv"),
        venv(mount / "envs/torch"),
        venv(other / ".venv"),
    )
    # No environment: without a Python. No image: a folder, a link to nothing.
    (mount / "envs/empty").mkdir()
    (mount / "envs/empty/pyvenv.cfg").write_text("")
    (mount / "images/folder.sqsh").mkdir()
    (mount / "images/gone.sqsh").symlink_to("nowhere")
    # A folder of any other name may have any number of entries.
    venv(mount / "project")
    venv(home / "project/.venv")
    image(mount / "loose.sqsh", 1)
    assert listed(mount, other, home=home) == Environments(images, pythons)
    assert listed(other, mount, home=home).images == (images[0], images[2], images[1])


def test_a_home_that_nodes_may_not_have_is_left_out(tmp_path: Path) -> None:
    mount, home = tmp_path / "shared", tmp_path / "shared-not/kim"
    mount.mkdir()
    image(home / "images/own.sqsh", 2)
    venv(home / "envs/x")
    assert listed(mount, home=home) == Environments()
    assert listed(tmp_path / "unmounted", home=home) == Environments()


def test_more_than_a_person_reads_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_ENVIRONMENTS", 3)
    home = tmp_path / "home/kim"
    own = image(home / "images/z.sqsh", 1)
    for number in range(4):
        image(tmp_path / f"images/{number}.sqsh", 1)
    environments = listed(tmp_path, home=home)
    assert (len(environments.images), environments.images[0]) == (3, own)
    assert environments.cut


def test_storage_that_is_slow_is_listed_as_far_as_it_got(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "LISTING_S", 1.0)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "stat").write_text("#!/bin/sh\nexec sleep 600\n")
    (programs / "stat").chmod(0o755)
    own = venv(tmp_path / "home/envs/x")
    image(tmp_path / "images/slow.sqsh", 1)
    slow = listed(tmp_path, home=tmp_path / "home", programs=str(programs))
    assert slow == Environments((), (own,), cut=True)


def test_only_paths_that_a_job_takes_are_offered(
    tmp_path: Path, hostile_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile_tmp_path.parent)
    mount = tmp_path / "shared"
    good = image(mount / "images/good.sqsh", 1)
    for name in ("a b", "two\nlines", "é", hostile_tmp_path.name):
        image(mount / f"images/{name}.sqsh", 1)
        venv(mount / f"envs/{name}")
    environments = listed(mount, hostile_tmp_path, home=mount / "home")
    assert environments == Environments((good,), ())
    job = api.job_spec({"command": ["true"], "container": good.path})
    assert job.container == good.path


@pytest.mark.parametrize(
    "line", ["image L3M= ", "image L3M= x", "image ? 3", "python =", "python /w=="]
)
def test_a_line_that_cannot_be_read_is_left_out(line: str) -> None:
    """Such as of an image that is removed while it is listed: it has no size."""
    assert read_environments(f"{line}\npython L3NoYXJlZC9lbnY=\n") == Environments(
        (), ("/shared/env",)
    )


ENVIRONMENTS = Environments(
    (Image("/shared/torch.sqsh", 5 << 30),), ("/shared/envs/torch",), cut=True
)


def asked(user: str, times: int = 1) -> tuple[dict[str, Any], int]:
    """The last answer, and how often the machines were asked."""
    calls: list[str] = []

    class Own:
        async def known(self, login: Login) -> bool:
            return False  # whom the file does not name

        async def environments(self, login: Login) -> Environments:
            assert login.user == user
            calls.append(login.user)
            return ENVIRONMENTS

    async def work() -> dict[str, Any]:
        async with Page(FakeRest(), spec=spec()) as page:
            page.app.state.corral.own = Own()
            await page.login(user)
            answers = [(await page.get("jobs/environments")).json() for _ in range(times)]
            return answers[-1]

    answer = asyncio.run(work())
    held(schemas.JobEnvironments, answer)
    return answer, len(calls)


def test_who_submits_by_form_gets_them_and_nobody_else() -> None:
    assert asked(USER) == (json.loads(json.dumps(ENVIRONMENTS.as_dict())), 1)
    assert asked("lee") == ({"images": [], "pythons": [], "cut": False}, 0)


def test_they_are_kept_for_the_next_form() -> None:
    assert asked(USER, times=3)[1] == 1


def test_without_containers_no_image_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Answer:
        stdout = "image L3NoYXJlZC90LnNxc2g= 7\npython L3NoYXJlZC9lbnY=\n"
        ok = True

    class Fleet:
        async def run(self, *_: Any, **__: Any) -> Answer:
            return Answer()

    class Reached:
        async def __aenter__(self) -> tuple[Fleet, str]:
            return Fleet(), "node0"

        async def __aexit__(self, *_: object) -> None: ...

    monkeypatch.setattr(listing, "reached", lambda *_, **__: Reached())
    monkeypatch.setattr(listing, "check", lambda result, _: result)
    plain = ClusterSpec.model_validate(spec())
    software = plain.software.model_copy(update={"containers": "pyxis"})
    able = plain.model_copy(update={"software": software})
    image_there = (Image("/shared/t.sqsh", 7),)
    for cluster, images in ((plain, ()), (able, image_there)):
        environments = asyncio.run(api.job_environments(cluster, "kim"))
        assert (environments.images, environments.pythons) == (images, ("/shared/env",))


def test_what_the_helper_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []

    async def kept(*_: Any, here: bool) -> Environments:
        assert here
        return ENVIRONMENTS

    async def replies(*_: Any, do: str) -> AsyncIterator[dict[str, Any]]:
        assert do == "environments"
        for reply in sent:
            yield reply

    async def work() -> Environments:
        request = as_user.Request(token="t", do="environments")
        await as_user._act(request, ClusterSpec.model_validate(spec()), Login("kim", "t"), None)
        return await ByHelper("/nowhere").environments(Login("kim", "t"))

    monkeypatch.setattr(api, "job_environments", kept)
    monkeypatch.setattr(as_user, "_answer", sent.append)
    monkeypatch.setattr(ByHelper, "_ask", replies)
    assert asyncio.run(work()) == ENVIRONMENTS
    for broken in ({}, {"images": 3, "pythons": [], "cut": False}, {"images": [{}]}):
        with pytest.raises(CorralError):
            api.environments_of(broken)
