"""Job files that are kept for all: root's alone fill forms, and broken ones are listed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.api import TemplateFile, TemplateFolder
from corral.api.page import job_templates
from corral.api.page.job_templates import (
    LONGEST_TEAM,
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

# All is root's here, but what has kims-, zoes- or eves- in its name: who runs the tests may be
# anybody. Zoe is of the group of all files, eve is not.
STAT = """#!/bin/sh
for path; do :; done
user=root uid=0
[ "$path" != . ] || path=$PWD
case ${path##*/} in
  kims-*) user=kim uid=1000 ;;
  zoes-*) user=zoe uid=1001 ;;
  eves-*) user=eve uid=1002 ;;
esac
real=$({stat} "$@") || exit 1
case $* in
  *"%u %U %a"*) echo "$uid $user ${real##* }" ;;
  *%u*) echo "$uid" ;;
  *%U*) echo "$user" ;;
  *) echo "$real" ;;
esac
"""


ID = """#!/bin/sh
[ "$1 $2" = "-G zoe" ] && echo "5 {gid}" || echo 5
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
        (self.bin / "id").write_text(ID.replace("{gid}", str(self.folder.stat().st_gid)))
        for name in ("stat", "id"):
            (self.bin / name).chmod(0o755)

    def add(self, name: str, text: str = "command: [hostname]\n", mode: int = 0o644) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(mode)

    def team(self, account: str, mode: int) -> Path:
        (self.folder / account).mkdir()
        (self.folder / account).chmod(mode)
        return self.folder / account

    def listed(self, *accounts: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}
        argv = ["sh", "-c", str(templates_script(str(self.mount), accounts))]
        return subprocess.run(argv, env=env, capture_output=True, text=True)

    def read(self, *accounts: str) -> tuple[list[TemplateFile], bool]:
        listed = self.listed(*accounts)
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


def test_a_team_keeps_templates_in_a_folder_that_root_gave_it(shared: Shared) -> None:
    shared.add("all.yaml")
    folder = shared.team("kims-team", 0o775)
    for name in ("kims-a.yaml", "zoes-b.yaml", "eves-c.yaml", "root.yml"):
        shared.add(f"kims-team/{name}")
    shared.add("kims-team/kims-open.yaml", mode=0o646)
    (folder / "kims-link.yaml").symlink_to("/etc/passwd")
    os.mkfifo(folder / "kims-pipe.yaml")
    shared.add("kims-team/kims-big.yaml", "#" * (LONGEST_TEMPLATE + 1))
    shared.team("others", 0o755)
    shared.add("others/x.yaml")
    files, more = shared.read("kims-team", "none", "../templates", ".", "-x")
    assert not more
    good = [(f.account, f.name, f.owner) for f in files if not f.trouble]
    assert good == [
        ("", "all.yaml", "root"),
        ("kims-team", "kims-a.yaml", "kim"),
        ("kims-team", "root.yml", "root"),
        ("kims-team", "zoes-b.yaml", "zoe"),
    ]
    assert {f.name: f.trouble for f in files if f.trouble} == {
        "eves-c.yaml": "it belongs to eve, who is not of the team",
        "kims-open.yaml": "others than the team may write to it",
        "kims-big.yaml": f"it is larger than {LONGEST_TEMPLATE} bytes",
        **dict.fromkeys(("kims-link.yaml", "kims-pipe.yaml"), "it is not a plain file"),
    }
    folder.chmod(0o755)  # its owner alone writes there
    files, _ = shared.read("kims-team")
    assert [f.name for f in files if f.account and not f.trouble] == ["kims-a.yaml", "root.yml"]


def test_a_teams_files_leave_room_for_those_of_others(shared: Shared) -> None:
    for team in ("a", "b"):
        shared.team(team, 0o755)
    for number in range(LONGEST_TEAM // LONGEST_TEMPLATE + 2):
        shared.add(f"a/kims-{number:02}.yaml", "#" * LONGEST_TEMPLATE)
        (shared.folder / f"a/kims-{number:02}.yaml").rename(shared.folder / f"a/{number:02}.yaml")
    shared.add("all.yaml")
    shared.add("b/b.yaml")
    files, more = shared.read("a", "b")
    assert not more
    left = [f.name for f in files if "more than 1048576 bytes" in f.trouble]
    assert left == ["32.yaml", "33.yaml"]
    assert [f.name for f in files if f.account != "a" and not f.trouble] == ["all.yaml", "b.yaml"]


def test_a_large_file_hides_none_behind_it(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that is refused, nor one for which too little room is left, takes room."""
    monkeypatch.setattr(job_templates, "_TEAM_S", 600)
    shared.team("a", 0o755)
    shared.add("a/00.yaml", "#" * (LONGEST_TEAM + 1))
    for number in range(1, LONGEST_TEAM // LONGEST_TEMPLATE):
        shared.add(f"a/{number:02}.yaml", "#" * LONGEST_TEMPLATE)
    shared.add("a/40.yaml", "#" * (LONGEST_TEMPLATE - 100))
    shared.add("a/50.yaml", "#" * LONGEST_TEMPLATE)
    shared.add("a/60.yaml")
    files, _ = shared.read("a")
    assert [f.name for f in files if f.trouble] == ["00.yaml", "50.yaml"]


@pytest.mark.parametrize("asked", ["%U", "%s"])
def test_a_file_that_goes_meanwhile_ends_no_list(shared: Shared, asked: str) -> None:
    """The shell ended at an empty size."""
    for name in ("a.yaml", "b.yaml", "c.yaml"):
        shared.add(name)
    gone = f"""case "$*" in *"-c {asked} "*b.yaml) rm -f "$PWD/b.yaml" ;; esac\nreal="""
    (shared.bin / "stat").write_text(
        STAT.replace("real=", gone, 1).replace("{stat}", "/usr/bin/stat")
    )
    files, _ = shared.read()
    assert not (shared.folder / "b.yaml").exists()
    assert [f.name for f in files if not f.trouble and f.text] == ["a.yaml", "c.yaml"]


def test_a_team_that_swaps_pipes_in_takes_no_more_than_its_time(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that becomes a pipe once it was looked at: head waits for it until its limit."""
    shared.team("a", 0o755)
    for number in range(60):
        shared.add(f"a/{number:02}.yaml")
    shared.team("b", 0o755)
    shared.add("b/b.yaml")
    slow = shared.bin / "head"
    slow.write_text("#!/bin/sh\nexec sleep 1\n")
    slow.chmod(0o755)
    monkeypatch.setattr(job_templates, "_TEAM_S", 2)
    files, _ = shared.read("a", "b")
    troubles = {f.name: f.trouble for f in files}
    assert troubles["59.yaml"] == "it is not read: the files before it take more than 2 s"
    assert not troubles["b.yaml"]


def test_a_teams_folder_that_all_may_write_to_is_not_taken(shared: Shared) -> None:
    shared.team("open", 0o777)
    shared.add("open/kims-a.yaml")
    (shared.folder / "link").symlink_to(shared.folder / "open")
    files, _ = shared.read("open", "link")
    assert [(f.account, f.name, f.trouble) for f in files] == [
        ("link", "", "it is not a plain folder"),
        ("open", "", "others than its owner and group may write to it"),
    ]


FOLDER = "/shared/corral/templates"
FILES = (
    TemplateFile(
        "train.yaml", "script: train.py\nargs: [--lr, 1e-3]\nnodes: 4\ntime: 12h\n", owner="root"
    ),
    TemplateFile("broken.yaml", "command: [a]\nnodse: 4\nnodes: x\n"),
    TemplateFile("yaml.yaml", "command: [a\n"),
    TemplateFile("kims.yaml", trouble="it belongs to kim and must be root's"),
    TemplateFile("mine.yaml", "command: [a]\nuser: root\nenvironment: lock.txt\nfolder: none\n"),
)


class Keeping:
    """A user's own commands: the folder."""

    def __init__(self, folder: TemplateFolder) -> None:
        self.folder = folder

    async def templates(self, login: Any, accounts: Sequence[str]) -> TemplateFolder:
        self.accounts = accounts
        return self.folder

    async def known(self, login: Any) -> bool:
        return login.user == "kim"


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
        **{"name": "train.yaml", "account": "", "owner": "root"},
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


def test_the_teams_are_those_of_the_viewers_accounts() -> None:
    file = TemplateFile("t.yaml", "script: t.py\n", account="vision", owner="ada")

    async def work() -> tuple[Keeping, dict[str, Any]]:
        async with Page(FakeRest(), spec=spec()) as page:
            page.app.state.corral.own = own = Keeping(TemplateFolder(FOLDER, (file,)))
            await page.login("kim")
            return own, (await page.get("jobs/templates")).raise_for_status().json()

    own, answer = asyncio.run(work())
    assert own.accounts == ["idle", "vision"]
    held(schemas.JobTemplates, answer)
    (only,) = answer["templates"]
    assert (only["account"], only["owner"]) == ("vision", "ada")
    assert only["form"] == {"script": f"{FOLDER}/vision/t.py"}


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

    async def replies(*_: Any, do: str, fields: Any) -> AsyncIterator[dict[str, Any]]:
        assert (do, fields) == ("templates", {"accounts": ["vision"]})
        for reply in sent:
            yield reply

    async def work() -> TemplateFolder:
        request = as_user.Request(token="t", do="templates")
        await as_user._act(request, ClusterSpec.model_validate(spec()), Login("kim", "t"), None)
        return await ByHelper("/nowhere").templates(Login("kim", "t"), ("vision",))

    monkeypatch.setattr(api, "job_templates", kept)
    monkeypatch.setattr(as_user, "_answer", sent.append)
    monkeypatch.setattr(ByHelper, "_ask", replies)
    assert asyncio.run(work()) == folder
    assert len(sent) == len(FILES) + 1  # none is a line of 4 MiB
    assert api.templates_of(folder.as_dict()) == folder
    for broken in ({}, {"path": "a", "trouble": "", "files": [{"name": "a"}]}, {"files": 3}):
        with pytest.raises(CorralError):
            api.templates_of(broken)
