"""Parsers that give typed values, on what machines print and on anything else."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from corral.inspect.machine import Fitness, fitness, host_name, reached, resolved, user_ids
from corral.inspect.network import DefaultRoute, default_route
from corral.inspect.services import locked_memory, unit_states
from corral.inspect.slurm import KeyFile, key_files, path_digests, state_folder
from corral.inspect.storage import OWNERS, UnreadPath, folder_answers, owners, room, unread
from corral.state.storage.job_folders import Risk, unsafe_folders


@given(st.text())
def test_parsers_take_any_text(text: str) -> None:
    for parse in (
        *(fitness, host_name, reached, resolved, user_ids, locked_memory, unit_states, key_files),
        *(path_digests, state_folder, folder_answers, room, unread, unsafe_folders),
    ):
        parse(text)


def test_room_of_folders() -> None:
    kib, inodes = room("/tmp 12 34\n/tmp:inodes 5 6\n/var x 7\n")
    assert (str(kib.path), kib.inodes, kib.free, kib.total) == ("/tmp", False, 12, 34)
    assert (str(inodes.path), inodes.inodes, inodes.free) == ("/tmp", True, 5)


def test_files_with_keys() -> None:
    files = key_files("/a 08af slurm:600\n/b 08af root:0644\n/c abc ")
    assert files["/a"] == KeyFile("08af", "slurm", 0o600)
    assert files["/a"].access == "slurm:600"
    assert files["/b"].access == "root:644"
    assert files["/c"].mode is None


def test_who_could_replace_a_folder() -> None:
    taken, open_, unreadable, other = unsafe_folders(
        "/s/corral belongs to kim and must be a folder of root\n"
        "/s is open to others (mode 777) without the sticky bit: any of them can replace it\n"
        "/t cannot be read\nKilled"
    )
    assert [each.risk for each in (taken, open_, unreadable)] == [
        Risk.TAKEN,
        Risk.OPEN,
        Risk.UNREADABLE,
    ]
    assert [str(each.path) for each in (taken, open_)] == ["/s/corral", "/s"]
    assert [each.replaceable for each in (taken, open_, unreadable, other)] == [1, 1, 0, 0]


def test_owners_that_could_not_be_read_in_time_are_unknown_not_safe(tmp_path: Path) -> None:
    (tmp_path / "timeout").write_text("#!/bin/sh\nexit 137\n")
    (tmp_path / "timeout").chmod(0o755)
    script = ["sh", "-c", str(owners("/shared", "").shell)]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(script, env=env, capture_output=True, text=True, check=True)
    (folder,) = OWNERS.parse(done.stdout)
    assert (str(folder.path), folder.risk) == ("/shared", Risk.UNREADABLE)


def test_paths_that_cannot_be_read() -> None:
    listed = "unread /a/b\nabove /a\nname c\nname d e\nunread /x\nabove /"
    assert unread(listed) == (
        UnreadPath("/a/b", "/a", ("c", "d e")),
        UnreadPath("/x", "/", ()),
    )


def test_whether_a_new_machine_takes_work() -> None:
    assert fitness("gpus 7\n") == Fitness(7, "")
    assert fitness("systemd is not running\n") == Fitness(None, "systemd is not running")


def test_where_packets_go() -> None:
    line = "default via 10.0.0.1 dev eth0 proto dhcp src 10.0.0.2 metric 100"
    assert default_route(line) == DefaultRoute("10.0.0.2", "eth0")
    assert default_route("") == DefaultRoute("", "")
