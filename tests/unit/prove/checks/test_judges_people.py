"""The judging half of storage.mounts and access.adopt: healthy passes, each fault is named."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.hosts.framing import Section, Sections
from corral.hosts.transport import Result
from corral.prove.checks.access import judge_adopted, judge_closed
from corral.prove.checks.storage import Folder, judge_node, probe

CUT = CorralError(Code.UNREACHABLE, "no route to host", node="node1")
CLIENT = Folder("/shared", ("10.0.0.10:/srv/a", "node0:/srv/a"), squash=True)
SERVER = Folder("/shared", local="/srv/a")
EXISTING = Folder("/data")
UNREAD = "stat: cannot read file system information for"


def output(*lines: str) -> Result:
    return Result("node1", 0, "".join(f"{line}\n" for line in lines), "")


HEALTHY: dict[str, tuple[Folder, Result]] = {
    "a client": (
        CLIENT,
        output("@ answer 0 nfs", "@ mounted 0 10.0.0.10:/srv/a", "@ root 0 65534"),
    ),
    "a client by name": (
        CLIENT,
        output("@ answer 0 nfs", "@ mounted 0 node0:/srv/a", "@ root 0 refused"),
    ),
    "root is root": (
        Folder("/shared", ("s:/a",), squash=False),
        output("@ answer 0 nfs", "@ mounted 0 s:/a", "@ root 0 0"),
    ),
    "root may not write": (
        CLIENT,
        output("@ answer 0 nfs", "@ mounted 0 node0:/srv/a", "@ root 0 refused"),
    ),
    "the server": (
        SERVER,
        output("@ answer 0 ext2/ext3", "@ mounted 0 /dev/vda1", "@ local 0"),
    ),
    "somebody else's": (EXISTING, output("@ answer 0 ext2/ext3", "@ mounted 0 ")),
}


@pytest.mark.parametrize("what", HEALTHY)
def test_a_folder_that_is_right_has_no_problem(what: str) -> None:
    folder, answer = HEALTHY[what]
    assert judge_node("node1", (folder,), answer) == []


BROKEN: dict[str, tuple[Folder, tuple[str, ...], str]] = {
    "nothing mounted": (
        CLIENT,
        ("@ answer 0 ext2/ext3", "@ mounted 0 ", "@ root 0 0"),
        "is not mounted, not 10.0.0.10:/srv/a",
    ),
    "another server": (
        CLIENT,
        ("@ answer 0 nfs", "@ mounted 0 10.9.9.9:/srv/a", "@ root 0 65534"),
        "is 10.9.9.9:/srv/a, not 10.0.0.10:/srv/a",
    ),
    "stale": (
        CLIENT,
        (
            f"@ answer 0 {UNREAD} '/shared': Stale file handle failed",
            "@ mounted 0 10.0.0.10:/srv/a",
        ),
        "is a stale handle",
    ),
    "hung": (
        CLIENT,
        ("@ answer 0 no answer within 20 s, failed", "@ mounted 0 10.0.0.10:/srv/a"),
        "does not answer: its server is down or unreachable",
    ),
    "root may not write where it should be root": (
        Folder("/shared", ("s:/a",), squash=False),
        ("@ answer 0 nfs", "@ mounted 0 s:/a", "@ root 0 refused"),
        "squashes root (refused), and root_squash is declared false",
    ),
    "absent": (
        EXISTING,
        (
            f"@ answer 0 {UNREAD} '/data': No such file or directory failed",
            "@ mounted 0 ",
        ),
        f"cannot be read: {UNREAD} '/data': No such file or directory",
    ),
    "root is root": (
        CLIENT,
        ("@ answer 0 nfs", "@ mounted 0 node0:/srv/a", "@ root 0 0"),
        "does not squash root, and root_squash is declared",
    ),
    "root is nobody": (
        Folder("/shared", ("s:/a",), squash=False),
        ("@ answer 0 nfs", "@ mounted 0 s:/a", "@ root 0 65534"),
        "squashes root (65534), and root_squash is declared false",
    ),
    "the server's own": (
        SERVER,
        ("@ answer 0 ext2/ext3", "@ mounted 0 "),
        "is not /srv/a of this machine",
    ),
    "no answer at all": (CLIENT, (), "cannot be read: no output"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_folder_that_is_wrong_is_named_with_its_fault(what: str) -> None:
    folder, lines, problem = BROKEN[what]
    assert judge_node("node1", (folder,), output(*lines)) == [f"node1: {folder.mount} {problem}"]


def test_each_folder_of_a_node_is_judged_by_its_own_lines() -> None:
    answer = output(
        "@ answer 0 ext2/ext3",
        "@ mounted 0 ",
        "@ answer 1 nfs",
        "@ mounted 1 10.9.9.9:/srv/a",
        "@ root 1 65534",
    )
    problems = judge_node("node1", (EXISTING, CLIENT), answer)
    assert problems == ["node1: /shared is 10.9.9.9:/srv/a, not 10.0.0.10:/srv/a"]


def test_a_node_that_is_away_is_a_problem_of_its_own() -> None:
    away = ["node1 cannot be reached (no route to host)"]
    assert judge_node("node1", (CLIENT,), CUT) == away
    assert judge_closed("node1", CUT, busy=False) == away
    assert judge_adopted("node1", CUT, "7", gpu=True) == away


# As sshd and pam_slurm_adopt 24.11.5 printed it on an embedded node.
REFUSED = "Access denied by pam_slurm_adopt: you have no active jobs on this node"


def closed(user: str, exempt: str = "@ in root") -> Sections:
    return Sections({"user": Section(user), "exempt": Section(exempt)})


def test_refused_by_the_module_and_root_let_in() -> None:
    assert judge_closed("node1", closed(REFUSED), busy=False) == []


@pytest.mark.parametrize(
    ("answer", "busy", "problem"),
    [
        (closed("@ in alice"), False, "node1 lets a user in who has no job there"),
        (
            closed("Connection closed by UNKNOWN port 65535"),
            False,
            "node1 refuses, but not by pam_slurm_adopt: Connection closed by UNKNOWN port 65535",
        ),
        (closed(""), False, "node1 refuses, but not by pam_slurm_adopt: no output"),
        (closed(REFUSED, REFUSED), False, "node1 locks Corral's own login user out"),
        (closed("@ in alice", ""), True, "node1 locks Corral's own login user out"),
    ],
)
def test_a_login_without_a_job_that_goes_wrong(answer: Sections, busy: bool, problem: str) -> None:
    assert judge_closed("node1", answer, busy=busy) == [problem]


def test_a_login_that_was_not_tried_is_unknown() -> None:
    for answer in (Sections(), Sections({"user": Section(REFUSED), "exempt": Section("", None)})):
        (problem,) = judge_closed("node1", answer, busy=False)
        assert problem == "node1: incomplete response: who may log in there is unknown"


def test_what_a_session_prints_is_not_another_session() -> None:
    """A user's .bashrc printed the line between the two, and what Corral's own login prints."""
    assert judge_closed("node1", closed(f"{REFUSED}\n@@exempt\n@ in root", ""), busy=True) == [
        "node1 locks Corral's own login user out"
    ]


def test_who_has_a_job_of_their_own_there_may_log_in() -> None:
    assert judge_closed("node1", closed("@ in alice"), busy=True) == []


def inside(*lines: str) -> Result:
    return output("@ in alice", *lines)


def test_a_session_within_its_job() -> None:
    one_gpu = ("@ cgroup job_7", "@ dev /dev/nvidia0 0", "@ dev /dev/nvidia1 1")
    assert judge_adopted("node1", inside(*one_gpu), "7", gpu=True) == []
    no_gpu = ("@ cgroup job_7", "@ dev /dev/nvidia0 1", "@ dev /dev/nvidia1 1")
    assert judge_adopted("node1", inside(*no_gpu), "7", gpu=False) == []


@pytest.mark.parametrize(
    ("answer", "gpu", "problem"),
    [
        (
            output(REFUSED),
            True,
            f"node1 refuses a user who has a job there: {REFUSED}",
        ),
        (inside(), True, "node1: the session is outside of the job's cgroup"),
        (
            inside("@ cgroup job_70"),
            True,
            "node1: the session is outside of the job's cgroup",
        ),
        (
            inside("@ cgroup job_7", "@ dev /dev/nvidia0 0", "@ dev /dev/nvidia1 0"),
            True,
            "node1: the session reaches 2 GPUs, its job has 1",
        ),
        (
            inside("@ cgroup job_7", "@ dev /dev/nvidia0 0"),
            False,
            "node1: the session reaches 1 GPUs, its job has 0",
        ),
    ],
)
def test_a_session_that_is_no_part_of_its_job(answer: Result, gpu: bool, problem: str) -> None:
    assert judge_adopted("node1", answer, "7", gpu=gpu) == [problem]


@pytest.mark.skipif(os.geteuid() != 0, reason="root's own folders")
@pytest.mark.parametrize(("mode", "good"), [(0o755, True), (0o1777, True), (0o777, False)])
def test_the_folder_of_jobs_is_nobodys_to_replace(tmp_path: Path, mode: int, good: bool) -> None:
    """The real script, on a folder of this machine."""
    (tmp_path / "corral").mkdir()
    tmp_path.chmod(mode)
    for jobs in (True, False):
        folders = (Folder(str(tmp_path), jobs=jobs),)
        done = subprocess.run(
            ["sh", "-c", probe("t", "node1", folders)], capture_output=True, text=True, check=True
        )
        problems = judge_node("node1", folders, Result("node1", 0, done.stdout, ""))
        assert bool(problems) == (jobs and not good)
        assert all("without the sticky bit" in problem for problem in problems)
