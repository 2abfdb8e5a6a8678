"""The judging half of storage.mounts and access.adopt: healthy passes, each fault is named."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.framing import Section, Sections
from corral.hosts.local import Local
from corral.hosts.transport import Result
from corral.inspect.question import MachineState
from corral.prove.checks.access import judge_adopted, judge_closed
from corral.prove.checks.storage import Folder, judge_node, questions, roots_files

CUT = CorralError(Code.UNREACHABLE, "no route to host", node="node1")
CLIENT = Folder("/shared", ("10.0.0.10:/srv/a", "node0:/srv/a"), squash=True)
SERVER = Folder("/shared", local="/srv/a")
EXISTING = Folder("/data")
UNREAD = "stat: cannot read file system information for"


def output(*lines: str) -> Result:
    return Result("node1", 0, "".join(f"{line}\n" for line in lines), "")


def seen(folder: Folder, answer: str, *, source: str = "", root: str = "") -> MachineState:
    """What a node answered about one folder."""
    sections = {
        "shared-mounts": f"{folder.mount} {'mounted' if source else 'folder'} {answer}",
        "mount-sources": f"{folder.mount} {source}",
        "same-folders": "",
        "shared": "",
    }
    if root:
        sections[f"root:{folder.mount}"] = root
    return MachineState("node1", sections)


def local(state: MachineState, folder: Folder) -> MachineState:
    return replace(state, sections={**state.sections, "same-folders": folder.mount})


ROOT = Folder("/shared", ("s:/a",), squash=False)
HEALTHY: dict[str, tuple[Folder, MachineState]] = {
    "a client": (CLIENT, seen(CLIENT, "nfs", source="10.0.0.10:/srv/a", root="65534")),
    "a client by name": (CLIENT, seen(CLIENT, "nfs", source="node0:/srv/a", root="refused")),
    "root is root": (ROOT, seen(ROOT, "nfs", source="s:/a", root="0")),
    "the server": (SERVER, local(seen(SERVER, "ext2/ext3", source="/dev/vda1"), SERVER)),
    "somebody else's": (EXISTING, seen(EXISTING, "ext2/ext3")),
}


@pytest.mark.parametrize("what", HEALTHY)
def test_a_folder_that_is_right_has_no_problem(what: str) -> None:
    folder, state = HEALTHY[what]
    assert judge_node((folder,), state) == []


BROKEN: dict[str, tuple[Folder, MachineState, str]] = {
    "nothing mounted": (
        CLIENT,
        seen(CLIENT, "ext2/ext3", root="0"),
        "is not mounted, not 10.0.0.10:/srv/a",
    ),
    "another server": (
        CLIENT,
        seen(CLIENT, "nfs", source="10.9.9.9:/srv/a", root="65534"),
        "is 10.9.9.9:/srv/a, not 10.0.0.10:/srv/a",
    ),
    "stale": (
        CLIENT,
        seen(CLIENT, f"{UNREAD} '/shared': Stale file handle failed", source="10.0.0.10:/srv/a"),
        "is a stale handle",
    ),
    "hung": (
        CLIENT,
        seen(CLIENT, "no answer within 20 s, failed", source="10.0.0.10:/srv/a"),
        "does not answer: its server is down or unreachable",
    ),
    "root may not write where it should be root": (
        ROOT,
        seen(ROOT, "nfs", source="s:/a", root="refused"),
        "squashes root (refused), and root_squash is declared false",
    ),
    "nobody looked whether root is root": (
        ROOT,
        seen(ROOT, "nfs", source="s:/a"),
        "squashes root (no output), and root_squash is declared false",
    ),
    "absent": (
        EXISTING,
        seen(EXISTING, f"{UNREAD} '/data': No such file or directory failed"),
        f"cannot be read: {UNREAD} '/data': No such file or directory",
    ),
    "root is root": (
        CLIENT,
        seen(CLIENT, "nfs", source="node0:/srv/a", root="0"),
        "does not squash root, and root_squash is declared",
    ),
    "root is nobody": (
        ROOT,
        seen(ROOT, "nfs", source="s:/a", root="65534"),
        "squashes root (65534), and root_squash is declared false",
    ),
    "the server's own": (
        SERVER,
        seen(SERVER, "ext2/ext3"),
        "is not /srv/a of this machine",
    ),
    "no answer at all": (CLIENT, MachineState("node1"), "cannot be read: no output"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_folder_that_is_wrong_is_named_with_its_fault(what: str) -> None:
    folder, state, problem = BROKEN[what]
    assert judge_node((folder,), state) == [f"node1: {folder.mount} {problem}"]


def test_each_folder_of_a_node_is_judged_by_its_own_lines() -> None:
    sections = {
        "shared-mounts": "/data folder ext2/ext3\n/shared mounted nfs",
        "mount-sources": "/data \n/shared 10.9.9.9:/srv/a",
        "root:/shared": "65534",
    }
    problems = judge_node((EXISTING, CLIENT), MachineState("node1", sections))
    assert problems == ["node1: /shared is 10.9.9.9:/srv/a, not 10.0.0.10:/srv/a"]


def test_a_file_of_roots_is_made_only_where_the_folder_answers() -> None:
    """A write to a server that is silent waits for it, and may be done when it is back."""
    silent = seen(CLIENT, "no answer within 20 s, failed", source="node0:/srv/a")
    assert roots_files("t", (CLIENT,), silent) == ()
    (question,) = roots_files("t", (CLIENT, SERVER), seen(CLIENT, "nfs", source="node0:/srv/a"))
    assert "/shared/.corral-prove-root-t-node1" in question.shell


def test_a_node_that_is_away_is_a_problem_of_its_own() -> None:
    away = ["node1 cannot be reached (no route to host)"]
    assert judge_node((CLIENT,), MachineState("node1", error=CUT)) == away
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


def observed(folders: tuple[Folder, ...]) -> MachineState:
    """This machine, asked by the real script."""
    fleet = Fleet({"node1": Local("node1")})
    return asyncio.run(MachineState.ask(fleet, "node1", questions(folders), timeout=60))


@pytest.mark.skipif(os.geteuid() != 0, reason="root's own folders")
@pytest.mark.parametrize(("mode", "good"), [(0o755, True), (0o1777, True), (0o777, False)])
def test_the_folder_of_jobs_is_nobodys_to_replace(tmp_path: Path, mode: int, good: bool) -> None:
    (tmp_path / "corral").mkdir()
    tmp_path.chmod(mode)
    for jobs in (True, False):
        folders = (Folder(str(tmp_path), jobs=jobs),)
        problems = judge_node(folders, observed(folders))
        assert bool(problems) == (jobs and not good)
        assert all("without the sticky bit" in problem for problem in problems)


def test_the_folder_of_this_machine_is_the_same_as_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    same = Folder(str(tmp_path), local=f"{tmp_path}/other/..")
    other = Folder(str(tmp_path), local=f"{tmp_path}/other")
    assert judge_node((same,), observed((same,))) == []
    (problem,) = judge_node((other,), observed((other,)))
    assert problem.endswith(f"is not {tmp_path}/other of this machine")


def test_what_is_mounted_there_is_known_by_its_source() -> None:
    """/proc is mounted on all machines of the tests."""
    right, wrong = Folder("/proc", ("proc",)), Folder("/proc", ("server:/srv",))
    state = observed((right,))
    assert judge_node((right,), state) == []
    assert judge_node((wrong,), state) == ["node1: /proc is proc, not server:/srv"]
