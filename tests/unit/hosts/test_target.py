from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.hosts.openssh import OpenSSH, control_path
from corral.hosts.quote import sh
from corral.hosts.target import MAX_CONTROL_PATH, SshTarget

PINNED = SshTarget(
    "192.0.2.7", 2222, key=Path("/k/id"), known_hosts=Path("/k/known"), options=("-o", "Ciphers=x")
)


def seen_by_ssh(argv: list[str]) -> dict[str, str]:
    """Every setting as ssh itself understands the command line (ssh -G connects nowhere)."""
    done = subprocess.run([argv[0], "-G", *argv[1:]], capture_output=True, text=True, check=True)
    return {key: value for key, _, value in (x.partition(" ") for x in done.stdout.splitlines())}


def test_the_clusters_own_connection() -> None:
    target = replace(PINNED, options=())
    seen = seen_by_ssh(target.arguments("node7", Path("/c/x"), opens=True))
    options = {
        "hostname": "192.0.2.7",
        "port": "2222",
        "user": "root",
        "batchmode": "yes",
        "stricthostkeychecking": "true",
        "hostkeyalias": "node7",
        "userknownhostsfile": "/k/known",
        "globalknownhostsfile": "none",
        "identityfile": "/k/id",
        "identitiesonly": "yes",
        "identityagent": "none",
        "controlmaster": "true",
        "controlpath": "/c/x",
        "controlpersist": "60",
        "connecttimeout": "10",
        "serveraliveinterval": "10",
        "requesttty": "false",
        "forwardagent": "no",
        "updatehostkeys": "false",
    }
    assert {key: seen.get(key) for key in options} == options


def test_the_users_own_connection() -> None:
    argv = SshTarget("gate").arguments("node7", Path("/c/x"), opens=False)
    text = " ".join(argv)
    assert "StrictHostKeyChecking=accept-new" in text
    assert "ControlMaster=no" in text
    for word in ("-F", "-p", "HostKeyAlias", "UserKnownHostsFile", "IdentityFile"):
        assert word not in text.split() and f"{word}=" not in text


def test_the_users_options_win() -> None:
    target = replace(PINNED, options=("-o", "ConnectTimeout=3", "-o", "ProxyJump=gate"))
    seen = seen_by_ssh(target.arguments("n", Path("/c/x"), opens=True))
    assert (seen["connecttimeout"], seen["proxyjump"]) == ("3", "gate")


def test_paths_that_need_quoting() -> None:
    target = replace(PINNED, options=(), known_hosts=Path("/a b/%h known"))
    seen = seen_by_ssh(target.arguments("n", Path("/c d/%%x"), opens=True))
    assert seen["userknownhostsfile"] == "/a b/%h known"
    assert seen["controlpath"] == "/c d/%%x"


@pytest.mark.parametrize("path", ['/a"b', "/a\nb", "/a\\b", "/${HOME}/x"])
def test_paths_that_ssh_cannot_be_given(path: str) -> None:
    with pytest.raises(CorralError) as caught:
        replace(PINNED, key=Path(path)).arguments("n", Path("/c"), opens=True)
    assert caught.value.code is Code.USAGE


@pytest.mark.parametrize(
    ("field", "value"),
    [("address", text) for text in ("", "-oProxyCommand=x", "a b", "a@b", "a;b", "a\n", "ssh://a")]
    + [("user", text) for text in ("-x", "a b", "$(id)", "a;b", "a\n")],
)
def test_addresses_and_users_that_ssh_reads_otherwise(field: str, value: str) -> None:
    with pytest.raises(CorralError) as caught:
        replace(PINNED, **{field: value})
    assert caught.value.code is Code.USAGE


@pytest.mark.parametrize(
    "address", ["192.0.2.1", "node-0.lan", "2001:db8::1", "::1", "fe80::1%eth0"]
)
def test_addresses(address: str) -> None:
    assert replace(PINNED, address=address).arguments("n", Path("/c"), opens=True)[-1] == address


def test_remote_command() -> None:
    assert SshTarget("a").remote == (
        'exec /bin/sh -c \'IFS= read -r n && s=$(head -c "$n") && eval "$s"\''
    )
    assert SshTarget("a", user="ubuntu").remote.startswith(
        "exec env LC_ALL=C sudo -n -- /bin/sh -c '"
    )


def test_control_names_differ(tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text("a ssh-ed25519 AAAA\nb ssh-ed25519 BBBB\n")
    pinned = replace(PINNED, known_hosts=known)
    names = {
        PINNED.control_name("a"),
        PINNED.control_name("b"),
        replace(PINNED, port=1).control_name("a"),
        pinned.control_name("a"),
    }
    assert len(names) == 4
    assert {len(name) for name in names} == {10}
    before = pinned.control_name("a"), pinned.control_name("b")
    known.write_text("a ssh-ed25519 CCCC\nb ssh-ed25519 BBBB\n")
    assert pinned.control_name("a") != before[0], "another host key is another machine"
    assert pinned.control_name("b") == before[1]


def test_control_folder(tmp_path: Path) -> None:
    path = control_path(tmp_path / "c", "x" * 10)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_uid == os.getuid()
    path.parent.chmod(0o755)
    with pytest.raises(CorralError, match="not a folder of yours alone"):
        control_path(path.parent, "x" * 10)


def test_a_control_folder_that_is_a_link_is_refused() -> None:
    with tempfile.TemporaryDirectory(prefix="ct") as folder:
        refuse_a_link(Path(folder))


def refuse_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(CorralError, match="not a folder of yours alone"):
        control_path(tmp_path / "link", "x" * 10)


def test_a_long_control_folder_gives_way_to_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * MAX_CONTROL_PATH)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    if len(str(tmp_path)) < MAX_CONTROL_PATH - 40:
        path = control_path(long, "x" * 10)
        assert path.parent == tmp_path / f"corral-ssh-{os.getuid()}"
        assert path.parent.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with pytest.raises(CorralError, match="too long a path"):
        control_path(long, "x" * 10)
    assert not long.exists()


def test_the_next_command_finds_the_connection_of_the_last_one(tmp_path: Path) -> None:
    first, second = (OpenSSH("node0", PINNED, tmp_path / "c") for _ in range(2))
    assert first.node == second.node == "node0"
    assert first.target is PINNED
    assert first._control == second._control
    assert OpenSSH("node1", PINNED, tmp_path / "c")._control != first._control


def test_a_clean_up_after_ctrl_c_learns_that_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ``asyncio.timeout`` it was cancelled once more (CPython 3.11)."""
    codes = list[Code]()
    node = OpenSSH("node0", PINNED, tmp_path / "c")

    async def silent() -> bool:
        return await asyncio.Event().wait()

    async def work(begun: asyncio.Event) -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            try:
                await node.run(sh("true"), timeout=0.05)
            except CorralError as error:
                codes.append(error.code)

    async def pressed() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(work(begun))
        await begun.wait()
        task.cancel()
        await asyncio.wait({task}, timeout=5)

    monkeypatch.setattr(node, "_open", silent)
    asyncio.run(pressed())
    assert codes == [Code.TIMED_OUT]
