"""OpenSSH's configuration of a cluster, read by ssh itself; and files that hold it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from corral.api.operations import openssh_config
from corral.api.operations.nodes import ssh_argv
from corral.errors import Code, CorralError
from corral.hosts import process
from corral.hosts.target import SshTarget
from corral.spec.client import ClientSpec, LoginNode, Profile, client_spec, public_part
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec

LAPTOP = Path(__file__).parents[4] / "examples" / "laptop.yaml"


@pytest.fixture
def spec() -> ClusterSpec:
    return load_or_raise(LAPTOP)


@pytest.fixture
def profile(spec: ClusterSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClientSpec:
    """Alice's login, by an alias of her own configuration that ssh knows as another host."""

    async def run(argv: list[str], *, timeout: float) -> process.Ended:
        assert argv == ["ssh", "-G", "--", "gate"]
        printed = b"user x\nhostname gate.example.org\nport 2222\nproxyjump hop\n"
        return process.Ended(0, printed, b"")

    monkeypatch.setattr(openssh_config.process, "run", run)
    login = Profile(
        node="node0",
        cluster=public_part(spec),
        host="gate",
        user="alice",
        name="lab",
        uid=2001,
        identity=str(tmp_path / "my key"),
    )
    return client_spec(login, tmp_path / "known hosts")


def written(spec: ClusterSpec, path: Path, user: str = "") -> str:
    section = asyncio.run(openssh_config.ssh_config(spec, user=user))
    openssh_config.write_ssh_config(path, "lab", section)
    return section


def as_ssh_reads(path: Path, host: str) -> dict[str, str]:
    argv = ["ssh", "-G", "-F", str(path), host]
    out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return {key: value for key, _, value in (line.partition(" ") for line in out.splitlines())}


def test_a_profile_jumps_by_its_login_node(profile: ClientSpec, tmp_path: Path) -> None:
    path = tmp_path / "config"
    written(profile, path)
    login = as_ssh_reads(path, "lab")
    assert (login["hostname"], login["port"], login["user"]) == (
        "gate.example.org",
        "2222",
        "alice",
    )
    assert login["proxyjump"] == "hop"
    assert login["identityfile"] == str(tmp_path / "my key")
    assert login["stricthostkeychecking"] == "true"
    assert login["hostkeyalias"] == "node0"
    node = as_ssh_reads(path, "node1.lab")
    assert (node["hostname"], node["port"], node["user"]) == ("node1", "22", "alice")
    assert (node["proxyjump"], node["hostkeyalias"]) == ("lab", "node1")
    assert node["userknownhostsfile"] == str(tmp_path / "known hosts")
    assert as_ssh_reads(path, "node0.lab")["hostname"] == "gate.example.org"
    assert as_ssh_reads(path, "elsewhere")["hostname"] == "elsewhere"


@pytest.fixture
def scanner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of ssh-keyscan and of a jump host's ssh; the file has the addresses that answer."""
    programs, answering = tmp_path / "programs", tmp_path / "answering"
    programs.mkdir()
    answering.write_text("")
    scan = programs / "ssh-keyscan"
    scan.write_text(f'#!/bin/sh\nfor a; do :; done\ngrep -qxF "$a" {answering} && echo "$a key"\n')
    jump = programs / "ssh"
    jump.write_text(
        f'#!/bin/sh\n[ "$3" = -W ] || exec {shutil.which("ssh")} "$@"\n'
        f'grep -qxF "$4" {answering} && echo SSH-2.0-x\n'
    )
    for program in (scan, jump):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return answering


def with_others(profile: ClientSpec, monkeypatch: pytest.MonkeyPatch, hop: str) -> ClientSpec:
    """The profile with two login nodes more; ``hop`` is the first one's jump host."""

    async def run(argv: list[str], *, timeout: float) -> process.Ended:
        lines = f"hostname {argv[-1]}\nport 22\n"
        return process.Ended(0, (f"{lines}proxyjump {hop}\n" if hop else lines).encode(), b"")

    monkeypatch.setattr(openssh_config.process, "run", run)
    others = (
        LoginNode(node="node1", host="10.0.0.11", port=2222),
        LoginNode(node="node2", host="10.0.0.12"),
    )
    own = profile.profile.model_copy(update={"login_nodes": others})
    return client_spec(own, Path(profile.known_hosts))


@pytest.mark.parametrize(
    ("answering", "shown"),
    [
        ("gate\n10.0.0.11\n10.0.0.12", ("gate", "node0", "22")),
        ("10.0.0.11\n10.0.0.12", ("10.0.0.11", "node1", "2222")),
        ("10.0.0.12", ("10.0.0.12", "node2", "22")),
    ],
)
def test_the_next_login_node_is_used_where_the_first_does_not_answer(
    profile: ClientSpec,
    scanner: Path,
    monkeypatch: pytest.MonkeyPatch,
    answering: str,
    shown: tuple[str, str, str],
) -> None:
    path = scanner.parent / "config"
    written(with_others(profile, monkeypatch, ""), path)
    scanner.write_text(f"{answering}\n")
    login = as_ssh_reads(path, "lab")
    assert (login["hostname"], login["hostkeyalias"], login["port"]) == shown
    assert (login["user"], login["stricthostkeychecking"]) == ("alice", "true")
    assert as_ssh_reads(path, "node2.lab")["proxyjump"] == "lab"


def test_a_login_node_behind_a_jump_host_is_asked_through_it(
    profile: ClientSpec, scanner: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = scanner.parent / "config"
    written(with_others(profile, monkeypatch, "hop"), path)
    scanner.write_text("[gate]:22\n")
    assert as_ssh_reads(path, "lab")["hostname"] == "gate"
    scanner.write_text("[10.0.0.11]:2222\n")
    assert as_ssh_reads(path, "lab")["hostname"] == "10.0.0.11"


def test_no_text_of_an_address_is_a_command(
    profile: ClientSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = profile.profile.model_copy(update={"host": "gate;reboot"})
    spec = client_spec(own, tmp_path / "known hosts")
    with contextlib.suppress(CorralError):  # ssh itself would not take it
        assert "exec" not in written(with_others(spec, monkeypatch, ""), tmp_path / "config")


def test_a_section_is_replaced_and_removed(profile: ClientSpec, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "config"
    assert openssh_config.write_ssh_config(path, "lab", written(profile, path)) is False
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    mine = "Host mine\n  User me\n"
    path.write_text(path.read_text() + mine)
    section = path.read_text().replace("Host lab\n", "Host lab # old\n").removesuffix(mine)
    assert openssh_config.write_ssh_config(path, "lab", section)
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.read_text() == section + mine
    assert openssh_config.remove_ssh_config(path, "lab2") is False
    assert openssh_config.remove_ssh_config(path, "lab")
    assert path.read_text() == mine
    assert openssh_config.remove_ssh_config(path, "lab") is False


def test_what_follows_a_section_is_for_all_hosts(profile: ClientSpec, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("User everywhere\n")
    written(profile, path)
    assert as_ssh_reads(path, "elsewhere")["user"] == "everywhere"


def test_a_section_without_an_end_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "config"
    text = "# corral: begin lab (written\nHost lab\n"
    path.write_text(text)
    with pytest.raises(CorralError) as caught:
        openssh_config.remove_ssh_config(path, "lab")
    assert caught.value.code is Code.PARSE_FAILED
    assert path.read_text() == text


def test_what_is_no_regular_file_is_left_alone(profile: ClientSpec, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config")
    with pytest.raises(CorralError, match="is not a regular file"):
        openssh_config._write(tmp_path / "config", "", "Host lab\n")
    assert (tmp_path / "config").is_fifo()


def test_a_link_stays_one(profile: ClientSpec, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").write_text("")
    path = tmp_path / "config"
    path.symlink_to("dotfiles")
    section = written(profile, path)
    assert path.is_symlink()
    assert (tmp_path / "dotfiles").read_text() == section


class Up:
    """An open session of an administrator."""

    controller = "node0"

    async def __aenter__(self) -> Up:
        return self

    async def __aexit__(self, *raised: object) -> None: ...

    def require_running(self) -> None: ...

    def targets(self) -> dict[str, SshTarget]:
        hop = SshTarget("hop.example.org", user="ops")
        return {
            "node0": SshTarget("10.0.0.10", key=Path("/k"), known_hosts=Path("/kh")),
            "node1": SshTarget("10.0.0.11", key=Path("/k"), known_hosts=Path("/kh"), via=hop),
        }


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def opened(spec: ClusterSpec, *, root: bool = True) -> Up:
        return Up()

    monkeypatch.setattr(openssh_config.Session, "open", opened)


@pytest.mark.usefixtures("up")
def test_an_administrator_reaches_each_node_as_corral_does(
    spec: ClusterSpec, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    written(spec, path)
    node = as_ssh_reads(path, "node1.laptop")
    assert (node["hostname"], node["user"], node["identityfile"]) == ("10.0.0.11", "root", "/k")
    assert node["proxycommand"].startswith("ssh -W '[%h]:%p'")
    assert "hop.example.org" in node["proxycommand"]
    assert "proxycommand" not in as_ssh_reads(path, "laptop")


@pytest.mark.usefixtures("up")
def test_blocks_for_a_user_have_no_key_of_the_clusters(spec: ClusterSpec, tmp_path: Path) -> None:
    path = tmp_path / "config"
    section = written(spec, path, user=spec.users[0].name if spec.users else "corral")
    assert "IdentityFile" not in section
    assert as_ssh_reads(path, "node1.laptop")["proxyjump"] == "laptop"
    with pytest.raises(CorralError, match="the cluster file has no user nobody"):
        asyncio.run(openssh_config.ssh_config(spec, user="nobody"))


def test_a_profile_is_for_its_own_user(profile: ClientSpec) -> None:
    for work in (
        openssh_config.ssh_config(profile, user="bob"),
        ssh_argv(profile, "node1", user="bob"),
    ):
        with pytest.raises(CorralError, match="logs in as alice, not as bob") as caught:
            asyncio.run(work)
        assert caught.value.code is Code.FORBIDDEN
    argv = asyncio.run(ssh_argv(profile, "node1", user="alice"))
    assert argv[argv.index("-l") + 1] == "alice"
    assert "runuser" not in " ".join(argv)
