"""Job files that are kept for all: root's alone fill forms, and broken ones are listed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.api import TemplateFile, TemplateFolder
from corral.api.page.job_templates import (
    LONGEST_TEMPLATE,
    MOST_TEMPLATES,
    read_templates,
    templates_script,
)
from corral.errors import CorralError
from corral.spec.models import ClusterSpec
from corral.web import as_user, schemas
from corral.web.slurm.slurmrest import Login
from corral.web.users.user_commands import ByHelper
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.routes.test_form import USER
from tests.unit.web.shapes import held
from tests.unit.web.users.test_owner import spec

# All is root's here, but what has kims- in its name: who runs the tests may be anybody.
STAT = """#!/bin/sh
for path; do :; done
user=root uid=0
case $path in *kims-*) user=kim uid=1000 ;; esac
real=$({stat} "$@") || exit 1
case $* in
  *"%u %U %a"*) echo "$uid $user ${real##* }" ;;
  *%u*) echo "$uid" ;;
  *%U*) echo "$user" ;;
  *) echo "$real" ;;
esac
"""


class Shared:
    """A shared folder, and the program that lists its templates, run on it."""

    def __init__(self, folder: Path) -> None:
        self.mount = folder / "shared"
        self.folder = self.mount / "corral/templates"
        self.folder.mkdir(parents=True)
        for made in (self.folder, self.folder.parent, self.mount):
            made.chmod(0o755)
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.bin / "stat").write_text(STAT.replace("{stat}", str(shutil.which("stat"))))
        (self.bin / "stat").chmod(0o755)

    def add(self, name: str, text: str = "command: [hostname]\n", mode: int = 0o644) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(mode)

    def listed(self) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}
        argv = ["sh", "-c", str(templates_script(str(self.mount)))]
        return subprocess.run(argv, env=env, capture_output=True, text=True)

    def read(self) -> tuple[list[TemplateFile], bool]:
        listed = self.listed()
        assert listed.returncode == 0, listed.stderr
        return read_templates(listed.stdout)


@pytest.fixture
def shared(hostile_tmp_path: Path) -> Shared:
    return Shared(hostile_tmp_path)


def test_files_of_others_are_named_and_not_read(shared: Shared, tmp_path: Path) -> None:
    shared.add("b c.yaml", "command: [a, \u00fc]\n")
    shared.add("a\n file x.yml")
    shared.add("kims-own.yaml")
    shared.add("group.yaml", mode=0o664)
    shared.add("all.yaml", mode=0o646)
    shared.add("big.yaml", "#" * (LONGEST_TEMPLATE + 1))
    shared.add("notes.txt")
    (tmp_path / "secret").write_text("key\n")
    (shared.folder / "link.yaml").symlink_to(tmp_path / "secret")
    (shared.folder / "gone.yaml").symlink_to("nowhere")
    os.mkfifo(shared.folder / "pipe.yaml")
    (shared.folder / "folder.yaml").mkdir()
    files, more = shared.read()
    assert not more
    assert {f.name: f.text for f in files if not f.trouble} == {
        "b c.yaml": "command: [a, \u00fc]\n",
        "a\n file x.yml": "command: [hostname]\n",
    }
    assert {f.name: f.trouble for f in files if f.trouble} == {
        "kims-own.yaml": "it belongs to kim and must be root's",
        "group.yaml": "others than root may write to it",
        "all.yaml": "others than root may write to it",
        "big.yaml": f"it is larger than {LONGEST_TEMPLATE} bytes",
        **dict.fromkeys(
            ("link.yaml", "gone.yaml", "pipe.yaml", "folder.yaml"), "it is not a plain file"
        ),
    }


def test_a_folder_that_others_could_replace_is_refused(shared: Shared) -> None:
    shared.add("a.yaml")
    for folder in (shared.folder, shared.folder.parent):
        folder.chmod(0o775)
        refused = shared.listed()
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "others may write to it" in refused.stderr
        folder.chmod(0o755)
    shared.mount.chmod(0o777)
    assert "without the sticky bit" in shared.listed().stderr
    shared.mount.chmod(0o1777)
    assert len(shared.read()[0]) == 1
    kims = shared.mount / "kims-folder"
    shared.folder.rename(kims)
    shared.folder.symlink_to(kims)
    assert "must be a folder of root" in shared.listed().stderr
    shared.folder.unlink()
    assert shared.read() == ([], False)  # there is no folder


def test_more_files_than_are_read_are_not_left_out_silently(shared: Shared) -> None:
    for number in range(MOST_TEMPLATES + 1):
        shared.add(f"{number:03}.yaml")
    files, more = shared.read()
    assert (len(files), more) == (MOST_TEMPLATES, True)


FOLDER = "/shared/corral/templates"
FILES = (
    TemplateFile("train.yaml", "script: train.py\nargs: [--lr, 1e-3]\nnodes: 4\ntime: 12h\n"),
    TemplateFile("broken.yaml", "command: [a]\nnodse: 4\nnodes: x\n"),
    TemplateFile("yaml.yaml", "command: [a\n"),
    TemplateFile("kims.yaml", trouble="it belongs to kim and must be root's"),
    TemplateFile("mine.yaml", "command: [a]\nuser: root\nenvironment: lock.txt\nfolder: none\n"),
)


class Keeping:
    """A user's own commands: the folder."""

    def __init__(self, folder: TemplateFolder) -> None:
        self.folder = folder

    async def templates(self, login: Any) -> TemplateFolder:
        return self.folder


def asked(folder: TemplateFolder, user: str = USER) -> dict[str, Any]:
    async def work() -> dict[str, Any]:
        async with Page(FakeRest(), spec=spec()) as page:
            page.app.state.corral.own = Keeping(folder)
            await page.login(user)
            return (await page.get("jobs/templates")).json()

    return asyncio.run(work())


def test_a_template_is_a_filled_form_or_its_fault() -> None:
    answer = asked(TemplateFolder(FOLDER, FILES))
    held(schemas.JobTemplates, answer)
    assert (answer["folder"], answer["trouble"]) == (FOLDER, "")
    train, broken, unread, kims, mine = answer["templates"]
    assert train == {
        "name": "train.yaml",
        "form": {
            "script": f"{FOLDER}/train.py",
            "args": ["--lr", "1e-3"],
            "nodes": 4,
            "time": "12h",
        },
        "notes": {},
        "fault": "",
    }
    assert f"{FOLDER}/broken.yaml:2:1: nodse: no such field; did you mean nodes?" in broken["fault"]
    assert "broken.yaml:3:8: nodes" in broken["fault"]
    assert "yaml.yaml:" in unread["fault"]
    assert kims["fault"] == "it belongs to kim and must be root's"
    assert not any(each["form"] for each in (broken, unread, kims))
    # Nobody becomes another user, nor takes files of the page's machine, by a template.
    assert mine["form"] == {"command": ["a"]}
    assert "user root" in mine["notes"]["options"]
    assert "lock.txt" in mine["notes"]["options"]


def test_a_refused_folder_is_stated() -> None:
    words = f"{FOLDER} belongs to kim and must be a folder of root"
    answer = asked(TemplateFolder(FOLDER, trouble=words))
    assert (answer["trouble"], answer["templates"]) == (words, [])


def test_who_cannot_submit_by_form_gets_no_templates() -> None:
    answer = asked(TemplateFolder(FOLDER, FILES), user="lee")
    held(schemas.JobTemplates, answer)
    assert answer == {"folder": "", "trouble": "", "templates": []}


def test_what_the_helper_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = TemplateFolder(FOLDER, FILES, "x")
    sent: list[dict[str, Any]] = []

    async def kept(*_: Any, here: bool) -> TemplateFolder:
        assert here
        return folder

    async def replies(*_: Any, do: str) -> AsyncIterator[dict[str, Any]]:
        assert do == "templates"
        for reply in sent:
            yield reply

    async def work() -> TemplateFolder:
        request = as_user.Request(token="t", do="templates")
        await as_user._act(request, ClusterSpec.model_validate(spec()), Login("kim", "t"), None)
        return await ByHelper("/nowhere").templates(Login("kim", "t"))

    monkeypatch.setattr(api, "job_templates", kept)
    monkeypatch.setattr(as_user, "_answer", sent.append)
    monkeypatch.setattr(ByHelper, "_ask", replies)
    assert asyncio.run(work()) == folder
    assert len(sent) == len(FILES) + 1  # none is a line of 4 MiB
    assert api.templates_of(folder.as_dict()) == folder
    for broken in ({}, {"path": "a", "trouble": "", "files": [{"name": "a"}]}, {"files": 3}):
        with pytest.raises(CorralError):
            api.templates_of(broken)
