"""What machines are asked, by the real shell: nothing that cannot be answered is waited for."""

from __future__ import annotations

import subprocess
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from corral.doctor.machine_report import Ask, questions
from corral.inspect import machine, slurm, storage
from corral.inspect.machine import AT_ONCE, ports
from corral.inspect.question import Question, inquiry


def answers(asked: tuple[Question[object], ...], folder: Path) -> dict[str, str]:
    """What this machine answers, with the programs of the folder before its own."""
    env = {"PATH": f"{folder}:/usr/bin:/bin"}
    question = inquiry(asked)
    done = subprocess.run(
        ["sh", "-c", question.script],
        env=env,
        capture_output=True,
        check=True,
        text=True,
        timeout=20,
    )
    return question.answers(done.stdout, "here", "asking")


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ("Slurmctld(primary) at node0 is UP", ["ping", "nodes"]),
        ("Slurmctld(primary) at a is DOWN\nSlurmctld(backup) at b is UP", ["ping", "nodes"]),
        ("Slurmctld(primary) at node0 is DOWN", ["ping"]),
        ("scontrol: fatal: Could not establish a configuration source", ["ping"]),
    ],
)
def test_a_dead_slurmctld_is_asked_once(tmp_path: Path, answer: str, asked: list[str]) -> None:
    """Each command asked for 15 s more: reading a cluster without slurmctld took 48 s."""
    fake = (
        '#!/bin/sh\nd=${0%/*}; echo "$*" >>$d/asked; '
        "case $* in *show*) ;; *) cat $d/answer;; esac\n"
    )
    for name in ("scontrol", "squeue", "sacctmgr"):
        (tmp_path / name).write_text(fake)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "answer").write_text(answer)
    names = {"ping", "nodes", "batch", "jobs"}
    controller = questions(Ask(("node0",), (), controller=True))
    printed = answers(tuple(q for q in controller if q.name in names), tmp_path)
    assert printed["ping"] == answer
    lines = (tmp_path / "asked").read_text().split("\n")
    words = {"ping": "ping", "nodes": "show nodes"}
    assert [
        question for question, word in words.items() if any(word in line for line in lines)
    ] == asked
    assert bool(printed["batch"]) == ("nodes" in asked)


def test_shared_folders_are_asked_at_once_and_the_kernel_reports_mounts(
    tmp_path: Path,
) -> None:
    """Each of a silent server's took 15 s, one after the other."""
    # Nobody's answer comes before all have been asked.
    together = "echo >>$d/asked; until [ $(wc -l <$d/asked) -ge 3 ]; do :; done"
    fakes = {"timeout": f'd=${{0%/*}}; shift 3; {together}; exec "$@"', "mountpoint": "exit 9"}
    for name, text in fakes.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    asked = storage.mounts(("/proc", "/no/such", str(tmp_path)))
    printed = asked.parse(answers((asked,), tmp_path)["shared-mounts"])
    assert printed["/proc"].mounted
    assert printed["/proc"].file_system == "proc"
    absent = printed["/no/such"]
    assert (absent.mounted, absent.file_system) == (False, "")
    assert "/no/such" in absent.error
    assert not printed[str(tmp_path)].mounted
    assert printed[str(tmp_path)].file_system


def test_names_are_looked_up_at_once(tmp_path: Path) -> None:
    """Each that only a dead DNS might know takes 10 s."""
    fake = (
        "#!/bin/sh\nd=${0%/*}; echo >>$d/asked; until [ $(wc -l <$d/asked) -ge 3 ]; do :; done\n"
        "[ $4 != d ] || exit 124\n"
        "[ $4 = c ] || printf '10.0.0.1 STREAM %s\\n10.0.0.1 DGRAM\\n' $4\n"
    )
    (tmp_path / "timeout").write_text(fake)
    (tmp_path / "timeout").chmod(0o755)
    asked = machine.names(("b", "a", "c", "d"))
    printed = asked.parse(answers((asked,), tmp_path)["names"])
    there = machine.Resolved((IPv4Address("10.0.0.1"),))
    late = machine.Resolved(late=True)
    assert printed == {"a": there, "b": there, "c": machine.Resolved(), "d": late}


def test_ports_are_tried_at_once(tmp_path: Path) -> None:
    """Each that a firewall drops takes 5 s: of thirty machines that are off nothing came."""
    fake = (
        '#!/bin/sh\nd=${0%/*}; echo "$4 $5 $6" >>$d/asked; a=$5\n'
        "until [ $(wc -l <$d/asked) -ge 3 ]; do :; done; [ $a != 192.0.2.9 ]\n"
    )
    (tmp_path / "timeout").write_text(fake)
    (tmp_path / "timeout").chmod(0o755)
    targets = [("192.0.2.8", 6817), ("192.0.2.9", 6818), ("2001:db8::1", 6818)]
    assert answers((ports(targets),), tmp_path)["ports"].splitlines() == [
        "192.0.2.8:6817 open",
        "192.0.2.9:6818 closed",
        "2001:db8::1:6818 open",
    ]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert ": </dev/tcp/$0/$1 2001:db8::1 6818" in asked


def test_more_ports_than_at_once_are_all_tried(tmp_path: Path) -> None:
    (tmp_path / "timeout").write_text("#!/bin/sh\n")
    (tmp_path / "timeout").chmod(0o755)
    asked = ports([("192.0.2.8", n) for n in range(1, 2 * AT_ONCE + 3)])
    assert len(answers((asked,), tmp_path)["ports"].splitlines()) == 2 * AT_ONCE + 2


def test_the_first_shared_folder_is_checked_where_the_controller_itself_serves_it() -> None:
    """It is not a mount there, and another folder was read in its place."""
    served = Ask(("node0",), (), ("/other",), controller=True, shared="/srv/corral", keeper="kim")
    (printed,) = (
        str(question.shell) for question in questions(served) if question.name == "shared"
    )
    assert "held /srv/corral" in printed
    assert "id -u kim" in printed
    assert "/srv/corral/corral/envs" in printed
    assert "/other" not in printed


def test_questions_have_names_of_their_own_and_parsers_take_any_text() -> None:
    asked = questions(
        Ask(
            ("node0",),
            ("slurmctld", "slurmd"),
            ("/shared",),
            controller=True,
            mesh=True,
            shared="/shared",
            containers=True,
        )
    )
    names = [question.name for question in asked]
    assert len(set(names)) == len(names)
    assert names[0] == "clock"
    for question in (*asked, slurm.CONFIG, ports([])):
        for text in ("", "\n \n", "a", "a b c\n= =", "\0\x85\u2028", "1.5"):
            question.parse(text)
