"""What machines are asked, by the real shell: nothing that cannot be answered is waited for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.doctor.look import (
    AT_ONCE,
    JOBS,
    STEPS,
    Ask,
    marked,
    ports_script,
    script,
    sections,
)
from corral.hosts.quote import join


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
    """Each command asked for 15 s more: a look at a cluster without slurmctld took 48 s."""
    fake = '#!/bin/sh\nd=${0%/*}; echo "$1 $2" >>$d/asked; [ $1 = show ] || cat $d/answer\n'
    for name in ("scontrol", "squeue", "sacctmgr"):
        (tmp_path / name).write_text(fake)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "answer").write_text(answer)
    text = str(script(Ask(("node0",), (), controller=True)))
    text = (
        "set -u; mark=; "
        + text[text.index("echo @@$mark@ping") : text.index("echo @@$mark@slurmconf")]
    )
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", text], env=env, capture_output=True, check=True, text=True)
    told = sections(done.stdout, "")
    assert told["ping"] == answer
    lines = (tmp_path / "asked").read_text().split("\n")
    assert [one for one in ("ping", "nodes") if any(one in line for line in lines)] == asked
    assert ("nodes" in told) == ("batch" in told) == ("nodes" in asked)


def test_shared_folders_are_asked_at_once_and_the_kernel_says_what_is_mounted(
    tmp_path: Path,
) -> None:
    """Each of a silent server's took 15 s, one after the other."""
    # Nobody's answer comes before all have been asked.
    together = "echo >>$d/asked; until [ $(wc -l <$d/asked) -ge 3 ]; do :; done"
    fakes = {"timeout": f'd=${{0%/*}}; shift 3; {together}; exec "$@"', "mountpoint": "exit 9"}
    for name, text in fakes.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    text = str(script(Ask(("node0",), (), ("/proc", "/no/such", str(tmp_path)))))
    text = text[text.index("echo @@$mark@mounts") :].partition("| sort")[0]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", "-c", text], env=env, capture_output=True, check=True, text=True, timeout=20
    )
    told = dict(line.split(" ", 1) for line in sections(done.stdout, "")["mounts"].splitlines())
    assert told["/proc"] == "mounted proc"
    assert told["/no/such"].startswith("folder ")
    assert told["/no/such"].endswith(" failed")
    assert told[str(tmp_path)].startswith("folder ")
    assert not told[str(tmp_path)].endswith("failed")


def test_names_are_looked_up_at_once(tmp_path: Path) -> None:
    """Each that only a dead DNS might know takes 10 s."""
    fake = (
        "#!/bin/sh\nd=${0%/*}; echo >>$d/asked; until [ $(wc -l <$d/asked) -ge 3 ]; do :; done\n"
        "[ $4 = c ] || printf '10.0.0.1 STREAM %s\\n10.0.0.1 DGRAM\\n' $4\n"
    )
    (tmp_path / "timeout").write_text(fake)
    (tmp_path / "timeout").chmod(0o755)
    text = str(script(Ask(("b", "a", "c"), ())))
    text = text[text.index("echo @@$mark@names") :].partition("| sort")[0] + "| sort"
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", "-c", text], env=env, capture_output=True, check=True, text=True, timeout=20
    )
    told = [line.rstrip() for line in sections(done.stdout, "")["names"].splitlines()]
    assert told == ["a 10.0.0.1", "b 10.0.0.1", "c"]


def test_ports_are_tried_at_once(tmp_path: Path) -> None:
    """Each that a firewall drops takes 5 s: of thirty machines that are off nothing was said."""
    fake = (
        '#!/bin/sh\nd=${0%/*}; echo "$4 $5 $6" >>$d/asked; a=$5\n'
        "until [ $(wc -l <$d/asked) -ge 3 ]; do :; done; [ $a != 192.0.2.9 ]\n"
    )
    (tmp_path / "timeout").write_text(fake)
    (tmp_path / "timeout").chmod(0o755)
    targets = [("192.0.2.8", 6817), ("192.0.2.9", 6818), ("2001:db8::1", 6818)]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", "-c", ports_script(targets)], env=env, capture_output=True, check=True, text=True,
        timeout=20,
    )  # fmt: skip
    assert sections(done.stdout, "")["ports"].splitlines() == [
        "192.0.2.8:6817 open",
        "192.0.2.9:6818 closed",
        "2001:db8::1:6818 open",
    ]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert ": </dev/tcp/$0/$1 2001:db8::1 6818" in asked


def test_more_ports_than_at_once_are_all_tried(tmp_path: Path) -> None:
    (tmp_path / "timeout").write_text("#!/bin/sh\n")
    (tmp_path / "timeout").chmod(0o755)
    text = ports_script([("192.0.2.8", n) for n in range(1, 2 * AT_ONCE + 3)])
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", text], env=env, capture_output=True, check=True, text=True)
    assert len(sections(done.stdout, "")["ports"].splitlines()) == 2 * AT_ONCE + 2


def test_an_answer_is_taken_apart_at_its_marks() -> None:
    answer = "@@7f@a\nx\ny\n\n@@7f@b\n@@7f@c\nz\n"
    assert sections(answer, "7f") == {"a": "x\ny", "b": "", "c": "z"}


@given(st.text(alphabet="@abc7f \n$mark", max_size=60), st.sampled_from(["", "@@keys\n", "@@@a\n"]))
def test_text_within_a_section_begins_none(text: str, begun: str) -> None:
    """slurmctld logs what users write, with line ends in it."""
    mark = "0123456789abcdef"
    found = sections(f"@@{mark}@log\n{text}\n{begun}x\n@@{mark}@keys\ngood\n", mark)
    assert set(found) == {"log", "keys"}
    assert found["keys"] == "good"


def test_the_first_shared_folder_is_checked_where_the_controller_itself_serves_it() -> None:
    """It is no mount there, and another folder was looked at in its place."""
    served = Ask(("node0",), (), ("/other",), controller=True, shared="/srv/corral", keeper="kim")
    told = str(script(served)).split("@shared")[1].split("@@")[0]
    assert "held /srv/corral" in told
    assert "id -u kim" in told
    assert "/srv/corral/corral/envs" in told
    assert "/other" not in told


def test_all_sections_of_all_scripts_are_marked() -> None:
    asked = script(Ask(("node0",), ("slurmctld", "slurmd"), ("/shared",), controller=True,
                       mesh=True, shared="/shared", containers=True))  # fmt: skip
    for one in (asked, ports_script([("10.0.0.1", 6817)]), join([STEPS, JOBS])):
        assert "echo @@" in one
        assert "echo @@$mark@" in one
        assert one.count("echo @@") == one.count("echo @@$mark@")
        assert marked(one, "7f").startswith("mark=7f\n")
