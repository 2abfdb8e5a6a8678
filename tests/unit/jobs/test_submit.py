"""Submission: files on shared storage, sbatch as the user, and all that keeps it from there."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from corral import agents
from corral.errors import Code, CorralError
from corral.jobs import control
from corral.jobs.batch.script import Place
from corral.jobs.explanation import NOT_OF_A_SHELL, attach, running_on, shell, shell_script
from corral.jobs.handle import JobHandle
from corral.jobs.model import JobSpec
from corral.jobs.submit import (
    ExpectedStart,
    dry_run,
    expected_of_script,
    expected_start,
    read_expected,
    send_script,
    submit,
)
from corral.slurm.rest.write import Submission
from corral.spec.models import ClusterSpec, Storage
from corral.spec.sections.people import User
from tests.unit.jobs.conftest import FakeSlurm


def spec(slurm: FakeSlurm) -> ClusterSpec:
    """The laptop's cluster with its storage in a folder of this test."""
    storage = Storage(mount="/shared", kind="provider").model_copy(
        update={"mount": str(slurm.shared)}
    )
    declared = ClusterSpec.model_validate(
        {
            "corral": "v1",
            "name": "laptop",
            "groups": [
                {
                    "name": "cpu",
                    "provider": "embedded",
                    "nodes": "node[0-2]",
                    "gpu": {"type": "slot", "count": 2},
                }
            ],
            "partitions": [{"name": "main", "groups": ["cpu"], "default": True}],
        }
    )
    return declared.model_copy(update={"storage": (storage,)})


def send(slurm: FakeSlurm, **fields: object) -> JobHandle:
    job = JobSpec.model_validate(fields)
    return asyncio.run(submit(slurm.fleet, "node0", spec(slurm), job))


def refused(slurm: FakeSlurm, **fields: object) -> CorralError:
    with pytest.raises(CorralError) as caught:
        send(slurm, **fields)
    assert slurm.rejected() == ""
    return caught.value


def made(slurm: FakeSlurm) -> list[Path]:
    return [p for p in slurm.shared.rglob("*") if not p.is_dir()]


def test_files_and_number(slurm: FakeSlurm, hostile_tmp_path: Path) -> None:
    """The script's folder and name are hostile, its content is not text."""
    name = "-rf 'x'; $(touch corral-canary)\n\".py"
    script, content = hostile_tmp_path / name, b"#!/usr/bin/env python3\n\0\xff'\"\n@@corral 9"
    script.write_bytes(content)
    job = send(slurm, script=str(script), args=("--epochs", "it's"), nodes=3, gpus_per_node=1)
    assert slurm.rejected() == ""
    folder = Path(job.folder)
    assert (job.id, job.user, job.logs) == (42, "corral", 3)
    assert (folder / "code" / name).read_bytes() == content
    assert json.loads((folder / "job.json").read_text())["job"]["nodes"] == 3
    text = (folder / "job.sh").read_text()
    assert "#SBATCH --mem=2000M" in text
    assert "#SBATCH --gres=gpu:1" in text
    link = slurm.shared / "corral/jobs/corral/42"
    assert link.readlink() == folder
    assert folder.stat().st_mode & 0o077 == 0


def test_a_command_takes_nothing_of_this_machine_along(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text("")
    (project / "uv.lock").write_text("")
    monkeypatch.chdir(project)
    job = send(slurm, command=("hostname", "-f", "it's $HOME"), nodes=3)
    assert slurm.rejected() == ""
    folder = Path(job.folder)
    assert (job.id, job.name, job.logs) == (42, "hostname", 3)
    assert not (folder / "code").exists()
    text = (folder / "job.sh").read_text()
    assert """sh -c "$corral_rank" rank hostname -f 'it'"'"'s $HOME'""" in text
    assert 'cd "$corral_folder"' in text
    assert json.loads((folder / "job.json").read_text())["job"]["command"][0] == "hostname"


def test_a_command_with_its_folder(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (project / "bin").mkdir(parents=True)
    (project / "bin" / "show").write_text("#!/bin/sh\n")
    (project / "bin" / "show").chmod(0o755)
    monkeypatch.chdir(project / "bin")
    folder = Path(send(slurm, command=("./show",), folder=str(project)).folder)
    assert os.access(folder / "code" / "bin" / "show", os.X_OK)
    assert f"cd {folder}/code/bin || corral_fail" in (folder / "job.sh").read_text()
    assert f"cd {slurm.shared}/corral/jobs/corral/JOB/code/bin || corral_fail" in dry_run(
        JobSpec(command=("./show",), folder=str(project)), spec(slurm)
    )
    error = refused(slurm, command=("true",), folder=str(tmp_path / "none"))
    assert error.code is Code.NOT_FOUND
    assert "does not exist" in error.message


def test_account_and_qos_are_asked_of_accounting(slurm: FakeSlurm) -> None:
    slurm.put("config", "AccountingStorageEnforce = associations,limits,qos\n")
    slurm.put("associations", "lab|normal,high\n")
    slurm.put("qos", "normal\nhigh\n")
    assert send(slurm, command=("true",), account="lab", qos="high").id == 42
    error = refused(slurm, command=("true",), account="lba", qos="high")
    assert (error.code, error.hint) == (Code.USAGE, "did you mean lab?")
    assert "did you mean high?" in refused(slurm, command=("true",), qos="hgih").hint
    assert slurm.rejected() == ""


def would_start(slurm: FakeSlurm, **fields: object) -> ExpectedStart:
    job = JobSpec.model_validate({"command": ("true",), **fields})
    return asyncio.run(expected_start(slurm.fleet, "node0", spec(slurm), job))


def test_when_a_job_would_start_is_asked_with_its_own_script(slurm: FakeSlurm) -> None:
    line = "to start at 1795958114 using 2 processors on nodes node[0-1] in partition main"
    slurm.put("expected", f"sbatch: Job 43 {line}\n")
    assert would_start(slurm, nodes=2, time="2h") == ExpectedStart(1795958114, "node[0-1]")
    script = (slurm.folder / "tested").read_text()
    assert script.startswith("#!/bin/sh\n")
    assert "#SBATCH --nodes=2\n" in script and "#SBATCH --time=" in script
    assert made(slurm) == []
    assert slurm.rejected() == ""


def test_the_expected_start_of_a_script_by_sbatch_with_its_options(slurm: FakeSlurm) -> None:
    script = "#!/bin/sh\n#SBATCH --mem=1G\nhostname\n"
    sent = Submission(script, "", "/shared", partition="main")
    asked = expected_of_script(slurm.fleet, "node0", "corral", sent)
    slurm.put("expected", "sbatch: Job 43 to start at 1795958114 using 2 processors on nodes n1\n")
    assert asyncio.run(asked) == ExpectedStart(1795958114, "n1")
    assert (slurm.folder / "tested").read_text() == script
    slurm.put("refuse", "sbatch: error: Memory specification can not be satisfied\n")
    with pytest.raises(CorralError) as caught:
        asyncio.run(expected_of_script(slurm.fleet, "node0", "corral", sent))
    assert caught.value.fields == {"mem": "Memory specification can not be satisfied"}
    assert "Memory specification can not be satisfied" in caught.value.message
    assert slurm.rejected() == ""


def test_a_script_is_submitted_by_sbatch_and_a_refusal_is_at_its_option(slurm: FakeSlurm) -> None:
    script = "#!/bin/sh\n#SBATCH --export=NONE --wait\nhostname\n"
    job = Submission(script, "", "/shared")
    assert asyncio.run(send_script(slurm.fleet, "node0", "corral", job)) == 42
    assert (slurm.folder / "sent").read_text() == script.replace(" --wait", "")
    slurm.put("refuse", "sbatch: error: Batch job submission failed: Invalid qos specification\n")
    with pytest.raises(CorralError) as caught:
        asyncio.run(send_script(slurm.fleet, "node0", "corral", job))
    assert list(caught.value.fields) == ["qos"]
    assert slurm.rejected() == ""


def test_whom_a_directory_names_submits_and_others_are_refused(slurm: FakeSlurm) -> None:
    """Slurm's programs of this test know one user; the cluster file here names another."""
    others = spec(slurm).model_copy(update={"users": (User(name="eve", uid=2001),)})
    job = JobSpec(command=("true",), user="corral")
    with pytest.raises(CorralError, match="no user called"):
        asyncio.run(submit(slurm.fleet, "node0", others, job))
    assert asyncio.run(submit(slurm.fleet, "node0", others, job, user_known=True)).id == 42


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Job 7 to start at 12 using 1 processors on n1 in partition p", ExpectedStart(12, "n1")),
        ("Job 7 to start at Unknown using 1 processors on nodes n1", ExpectedStart(None, "n1")),
        ("", ExpectedStart()),
    ],
)
def test_answers_of_other_releases(text: str, expected: ExpectedStart) -> None:
    assert read_expected(text) == expected


def test_what_is_refused_names_its_field(slurm: FakeSlurm) -> None:
    slurm.put("refuse", "sbatch: error: Batch job submission failed: Invalid qos specification\n")
    with pytest.raises(CorralError) as caught:
        would_start(slurm)
    assert caught.value.code is Code.SLURM_REFUSED
    assert caught.value.fields == {"qos": "Batch job submission failed: Invalid qos specification"}
    fields: list[dict[str, object]] = [
        {"partition": "mian"},
        {"nodes": 9},
        {"gpus_per_node": 3},
        {"mem": "900G"},
    ]
    for more in fields:
        error = refused(slurm, command=("true",), **more)
        assert list(error.fields) == [*more], more
        assert error.hint in error.fields[next(iter(more))]


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        (("Batch job submission failed: Job dependency problem",), ["after"]),
        (("Batch job submission failed: Circular job dependency",), ["after"]),
        # A job_submit plugin's own words.
        (("put each dependency into the image", "Batch job submission failed: No way"), []),
        (
            (
                "Memory specification can not be satisfied",
                "Batch job submission failed: Requested node configuration is not available",
            ),
            ["mem"],
        ),
    ],
)
def test_a_message_is_known_by_its_beginning(
    slurm: FakeSlurm, lines: tuple[str, ...], fields: list[str]
) -> None:
    slurm.put("refuse", "".join(f"sbatch: error: {line}\n" for line in lines))
    with pytest.raises(CorralError) as caught:
        would_start(slurm)
    assert [*caught.value.fields] == fields


def attached(slurm: FakeSlurm, ref: str, **more: str) -> str:
    return str(asyncio.run(attach(slurm.fleet, "node0", spec(slurm), ref, **more)))


def test_a_shell_inside_a_job(slurm: FakeSlurm) -> None:
    slurm.queue("RUNNING", nodes="node[0-1]")
    script = attached(slurm, "42")
    assert "srun --jobid=42 --overlap --pty --nodes=1 --ntasks=1" in script
    assert "--nodelist=node0" in script
    assert "--nodelist=node1" in attached(slurm, "42", node="node1")
    assert slurm.rejected() == ""


@pytest.mark.parametrize(
    ("state", "ref", "more", "expected"),
    [
        ("RUNNING", "42", {"node": "node2"}, (Code.NOT_FOUND, "does not run on node2")),
        ("RUNNING", "42", {"user": "ada"}, (Code.USAGE, "job 42 is corral's, not ada's")),
        ("PENDING", "42", {}, (Code.NOT_GOOD, "not running but PENDING (Resources)")),
        ("COMPLETED", "42", {}, (Code.NOT_GOOD, "not running but COMPLETED")),
        ("RUNNING", "42; id", {}, (Code.USAGE, "is not a job number")),
    ],
)
def test_jobs_that_no_shell_can_be_in(
    slurm: FakeSlurm, state: str, ref: str, more: dict[str, str], expected: tuple[Code, str]
) -> None:
    slurm.queue(state, reason="Resources" if state == "PENDING" else "None", nodes="node[0-1]")
    with pytest.raises(CorralError) as caught:
        attached(slurm, ref, **more)
    assert caught.value.code is expected[0]
    assert expected[1] in caught.value.message
    assert caught.value.hint


def test_hints_name_the_verb(slurm: FakeSlurm) -> None:
    slurm.queue("RUNNING", nodes="node[0-1]")
    work = running_on(slurm.fleet, "node0", "42", user="ada", node="", verb="forward")
    with pytest.raises(CorralError) as caught:
        asyncio.run(work)
    assert caught.value.hint.startswith("corral forward --user corral 42")


def test_a_shell_in_a_job_that_slurm_does_not_know(slurm: FakeSlurm) -> None:
    with pytest.raises(CorralError) as caught:
        attached(slurm, "42")
    assert caught.value.code is Code.NOT_FOUND
    slurm.put("down", "slurm_load_jobs error: Unable to contact slurm controller")
    with pytest.raises(CorralError) as caught:
        attached(slurm, "42")
    assert caught.value.code is Code.COMMAND_FAILED
    assert "Unable to contact" in caught.value.tail


def test_an_array_has_no_shell_but_its_parts(slurm: FakeSlurm) -> None:
    slurm.queue("RUNNING", nodes="node0")
    slurm.put("job.sed", (slurm.folder / "job.sed").read_text().replace("%i|42", "%i|42_3"))
    with pytest.raises(CorralError) as caught:
        attached(slurm, "42")
    assert (caught.value.code, caught.value.hint) == (
        Code.USAGE,
        "name one part: corral attach 42_3",
    )
    assert "--jobid=42 " in attached(slurm, "42_3")


def test_a_shell_has_what_the_job_asks_for() -> None:
    place = Place("", "", "main", 4, mem="8G")
    script = shell_script(
        JobSpec(script="shell", gpus_per_node=2, account="lab", after=("12:any",), exclusive=True),
        place,
    )
    assert "--account=lab --dependency=afterany:12 --exclusive srun --pty" in script
    assert '"${SHELL:-/bin/bash}" -l' in script
    command = shell_script(JobSpec(command=("nvidia-smi", "-q", "a b")), place)
    assert command.endswith("nvidia-smi -q 'a b'")
    assert "--job-name=nvidia-smi" in command


def test_found_again_by_its_number(slurm: FakeSlurm, tmp_path: Path) -> None:
    script = tmp_path / "train-it.py"
    script.write_text("pass")
    job = send(slurm, script=str(script))
    slurm.put("owner", "corral\n")
    by_number = asyncio.run(control.find(slurm.fleet, "node0", spec(slurm), 42))
    assert by_number == job


def test_a_foreign_link_under_a_jobs_number_is_not_followed(
    slurm: FakeSlurm, tmp_path: Path
) -> None:
    script = tmp_path / "a.py"
    script.write_text("pass")
    send(slurm, script=str(script))
    slurm.put("owner", "ada\n")  # the job 42 of Slurm is ada's; the link is corral's
    with pytest.raises(CorralError) as caught:
        asyncio.run(control.find(slurm.fleet, "node0", spec(slurm), 42))
    assert caught.value.code in (Code.NOT_FOUND, Code.COMMAND_FAILED)


def test_a_script_on_shared_storage_stays_there(slurm: FakeSlurm) -> None:
    mount = str(slurm.shared / "elsewhere")  # not a folder of this machine
    cluster = spec(slurm)
    storage = cluster.storage[0].model_copy(update={"mount": mount})
    job = JobSpec(script=f"{mount}/train.py")
    with pytest.raises(CorralError) as caught:
        asyncio.run(
            submit(slurm.fleet, "node0", cluster.model_copy(update={"storage": (storage,)}), job)
        )
    assert "is not mounted" in caught.value.message
    assert made(slurm) == []
    (slurm.shared / "elsewhere").mkdir()
    (slurm.shared / "elsewhere" / "tran.py").write_text("pass")
    with pytest.raises(CorralError) as caught:
        asyncio.run(
            submit(slurm.fleet, "node0", cluster.model_copy(update={"storage": (storage,)}), job)
        )
    assert f"no script {mount}/train.py" in caught.value.message
    assert caught.value.hint == f"did you mean {mount}/tran.py?"


def test_missing_script(slurm: FakeSlurm, tmp_path: Path) -> None:
    error = refused(slurm, script=str(tmp_path / "none.py"))
    assert error.code is Code.NOT_FOUND
    assert str(slurm.shared) not in error.message
    assert "name a file of this machine" in error.hint
    assert made(slurm) == []


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"nodes": 4}, "--nodes 3 works"),
        ({"gpus_per_node": 3}, "--nodes 2 --gpus-per-node 2 works"),
        ({"partition": "mian"}, "did you mean main"),
        ({"user": "eve"}, "users are: corral"),
        ({"cpus_per_rank": 3}, "--cpus-per-rank 2 works"),
        ({"mem": "4G"}, "--mem 4000M works"),
    ],
)
def test_refused_before_anything_is_written(
    slurm: FakeSlurm, tmp_path: Path, fields: dict[str, object], word: str
) -> None:
    script = tmp_path / "a.py"
    script.write_text("pass")
    error = refused(slurm, script=str(script), **fields)
    assert error.code is Code.USAGE
    assert word in error.hint
    assert made(slurm) == []


def test_nodes_that_are_down(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.nodes(down=1)
    script = tmp_path / "a.py"
    script.write_text("pass")
    assert "node2 (DOWN+NOT_RESPONDING)" in refused(slurm, script=str(script), nodes=3).message
    assert send(slurm, script=str(script), nodes=2).id == 42


def test_what_sbatch_refuses(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.put("refuse", "sbatch: error: Batch job submission failed: Invalid account\n")
    script = tmp_path / "a.py"
    script.write_text("pass")
    error = refused(slurm, script=str(script))
    assert error.code is Code.SLURM_REFUSED
    assert "Invalid account" in error.tail
    assert error.fields == {"account": "Batch job submission failed: Invalid account"}


def test_a_user_without_an_association_learns_what_to_do(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.put("refuse", "sbatch: error: Batch job submission failed: Invalid account or account/pa")
    script = tmp_path / "a.py"
    script.write_text("pass")
    error = refused(slurm, script=str(script))
    assert error.message == "Slurm refused the job: corral may not charge an account"
    assert "sacctmgr show associations user=corral" in error.hint
    assert "users:" in error.hint


def test_without_root_the_users_folder_must_be_there(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.put("uid", "2001\n")
    script = tmp_path / "a.py"
    script.write_text("pass")
    error = refused(slurm, script=str(script))
    assert error.code is Code.NOT_FOUND
    assert error.message.endswith("/corral/jobs/corral is not there, and only root can make it")
    assert "administrator" in error.hint
    assert made(slurm) == []
    (slurm.shared / "corral/jobs/corral").mkdir(parents=True)
    for folder in ("corral", "corral/jobs"):
        (slurm.shared / folder).chmod(0o755)
    (slurm.shared / "corral/jobs/corral").chmod(0o700)
    assert send(slurm, script=str(script)).id == 42


def test_a_folder_planted_by_a_user_is_not_used(slurm: FakeSlurm, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (slurm.shared / "corral").symlink_to(outside)
    script = tmp_path / "a.py"
    script.write_text("pass")
    error = refused(slurm, script=str(script))
    assert "belongs to mallory and must be a folder of root" in error.message
    assert "corral up" in error.hint
    assert list(outside.rglob("*")) == []


def test_a_folder_that_others_may_write_to_is_not_used(slurm: FakeSlurm, tmp_path: Path) -> None:
    (slurm.shared / "corral").mkdir()
    (slurm.shared / "corral").chmod(0o777)
    script = tmp_path / "a.py"
    script.write_text("pass")
    assert "others may write to it" in refused(slurm, script=str(script)).message
    assert list((slurm.shared / "corral").iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_storage_that_others_may_rename_in_is_not_used(
    slurm: FakeSlurm, tmp_path: Path, mode: int
) -> None:
    slurm.shared.chmod(mode)
    script = tmp_path / "a.py"
    script.write_text("pass")
    error = refused(slurm, script=str(script))
    assert f"(mode {mode:o}) without the sticky bit" in error.message
    assert f"chmod 1777 {slurm.shared}" in error.hint
    assert list(slurm.shared.iterdir()) == []
    slurm.shared.chmod(mode | 0o1000)
    assert send(slurm, script=str(script)).id == 42


def test_dry_run_needs_no_machine(slurm: FakeSlurm) -> None:
    text = dry_run(JobSpec(script="train.py", nodes=3), spec(slurm), script_known=True)
    assert "#SBATCH --nodes=3" in text
    with pytest.raises(CorralError) as caught:
        dry_run(JobSpec(script="train.py", nodes=4), spec(slurm), script_known=True)
    assert "4 nodes asked for" in caught.value.message


def test_dry_run_of_a_script_that_does_not_exist_is_refused(slurm: FakeSlurm) -> None:
    with pytest.raises(CorralError) as caught:
        dry_run(JobSpec(script="train.py"), spec(slurm))
    assert caught.value.message == "script train.py does not exist on this machine"
    command = JobSpec(command=("train.py",))
    assert "train.py" in dry_run(command, spec(slurm))


@pytest.mark.parametrize("launcher", ["auto", "torchrun"])
def test_torchrun_is_uploaded_where_it_is_asked_for(
    slurm: FakeSlurm, tmp_path: Path, launcher: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text("pass")
    folder = Path(send(slurm, script=str(script), launcher=launcher).folder)
    program = folder / "lib/corral/torchrun.py"
    assert program.exists() == (launcher == "torchrun")
    assert ("-m corral.torchrun" in (folder / "job.sh").read_text()) == program.exists()


GIVEN = {"args": ("x",), "array": "0-9", "sweep": {"lr": ("1", "2")}, "at_once": 2}
GIVEN |= {"launcher": "torchrun", "workdir": "/shared", "requeue": True, "grace": "5m"}
GIVEN |= {"checkpoints": "/shared/c", "data": ("/shared/d",), "folder": ".", "in_place": True}
GIVEN |= {"environment": "uv.lock", "python": "/opt/conda", "profile": "nsys"}


@pytest.mark.parametrize("field", sorted(NOT_OF_A_SHELL))
def test_a_shell_drops_nothing_silently(slurm: FakeSlurm, field: str) -> None:
    more = {"array": "0-9"} if field == "at_once" else {}
    asked = JobSpec.model_validate({"script": "shell", field: GIVEN[field], **more})
    with pytest.raises(CorralError, match=rf"a shell cannot have .*{field}"):
        asyncio.run(shell(slurm.fleet, "node0", spec(slurm), asked))


def of_the_directory(monkeypatch: pytest.MonkeyPatch, slurm: FakeSlurm) -> None:
    """The node knows people of a directory, and this user is not in its own files."""
    programs = slurm.folder.parent / "bin"
    (programs / "getent").write_text("#!/bin/sh\nexit 2\n")
    (programs / "getent").chmod(0o755)
    mark = slurm.folder / "directory-keys"
    mark.touch()
    text = agents.functions("jobs/user.sh", "person_of_directory")
    monkeypatch.setattr(agents, "functions", _with_mark(mark))
    assert "/usr/local/sbin/corral-directory-keys" in text


def _with_mark(mark: Path) -> Callable[..., str]:
    functions = agents.functions

    def marked(*names: str) -> str:
        text = functions(*names)
        return text.replace("/usr/local/sbin/corral-directory-keys", str(mark))

    return marked


@pytest.mark.parametrize("directory", [True, False])
def test_who_has_no_folder_is_sent_to_where_the_cluster_knows_people_from(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, directory: bool
) -> None:
    """A person of the directory who is named in the file too is nobody on the nodes."""
    if directory:
        of_the_directory(monkeypatch, slurm)
    script = tmp_path / "a.py"
    script.write_text("pass")
    slurm.put("uid", "2000")
    error = refused(slurm, script=str(script))
    assert error.code is Code.NOT_FOUND
    assert ("directory.groups" in error.hint) == directory
    assert ("under users:" in error.hint) == (not directory)


@pytest.mark.parametrize("directory", [True, False])
def test_who_has_no_association_is_sent_there_too(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, directory: bool
) -> None:
    if directory:
        of_the_directory(monkeypatch, slurm)
    script = tmp_path / "a.py"
    script.write_text("pass")
    slurm.put("refuse", "sbatch: error: Batch job submission failed: Invalid account or account/p")
    error = refused(slurm, script=str(script))
    assert error.code is Code.SLURM_REFUSED
    assert ("adds corral to a group of directory.groups" in error.hint) == directory
    assert ("names corral under users:" in error.hint) == (not directory)
