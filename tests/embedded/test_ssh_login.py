"""Logging in to a machine that somebody owns: passwords, keys, host keys, and never locked out."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.embedded.bare import (
    CLUSTER,
    NODE,
    PASSWORD,
    Bare,
    Somebody,
    bare,
    forget_state,
    install,
)
from tests.embedded.conftest import needs
from tests.embedded.loopback import processes_with, until

from corral import api
from corral.errors import Code, CorralError
from corral.hosts.keysetup import keys_dir
from corral.hosts.openssh import OpenSSH
from corral.hosts.quote import sh
from corral.hosts.sshkeys import known_to_user
from corral.hosts.transport import Result
from corral.passwords import accompanied
from corral.spec.load import load_text

SECRET_STDIN = b"one\ntwo words\n"


@pytest.fixture(scope="module")
def there() -> Iterator[Bare]:
    reason = needs()
    if reason:
        pytest.skip(reason)
    with bare() as host:
        yield host


@pytest.fixture
def control() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cc") as folder:
        yield Path(folder)


def run(there: Bare, user: str, control: Path, password: str | None) -> tuple[Result, Somebody]:
    """Two scripts in one command: the password is asked for once."""
    who = Somebody(password)

    async def scenario() -> Result:
        node = there.node(user, control)
        try:
            await node.run(sh("true"))
            return await node.run(sh("id -un; cat"), stdin=SECRET_STDIN)
        finally:
            await node.close()

    with accompanied(who.person()):
        return asyncio.run(scenario()), who


def refused(there: Bare, user: str, control: Path, password: str | None) -> CorralError:
    with pytest.raises(CorralError) as caught:
        run(there, user, control, password)
    assert caught.value.node == NODE
    return caught.value


def test_keys_by_one_password_login(there: Bare) -> None:
    forget_state()
    there.root(
        "rm -rf ~admin/.ssh; mkdir -m 777 ~admin/.ssh; chmod 775 ~admin; "
        "printf 'ssh-rsa AAAA no-newline' > ~admin/.ssh/authorized_keys; "
        "chown -R admin: ~admin/.ssh"
    )
    done, who = install(there, "admin", PASSWORD)
    assert (done.error, done.how) == (None, "installed by password")
    assert len(who.asked) == 1
    assert "seen for the first time" in who.notices[0] and "SHA256:" in who.notices[0]
    lines = there.root("cat ~admin/.ssh/authorized_keys").splitlines()
    assert lines[0] == "ssh-rsa AAAA no-newline"
    assert len(lines) == 2
    modes = there.root("cd /home/admin && stat -c %a . .ssh .ssh/authorized_keys").split()
    assert modes == ["755", "700", "600"]
    assert (keys_dir(CLUSTER) / "id_ed25519").stat().st_mode & 0o777 == 0o600
    again, who = install(there, "admin", PASSWORD)
    assert (again.how, who.asked, who.notices) == ("was there already", [], [])
    assert there.root("cat ~admin/.ssh/authorized_keys").splitlines() == lines


def test_a_wrong_login_password_and_nobody_to_ask(there: Bare) -> None:
    forget_state()
    there.root("rm -rf ~nosudo/.ssh")
    done, _ = install(there, "nosudo", "wrong")
    assert done.error is not None and "may not log in with this password" in done.error.message
    done, _ = install(there, "nosudo", None)
    assert done.error is not None and "CORRAL_LOGIN_PASSWORD_FILE" in done.error.hint
    assert there.target("nosudo").key is None, "what is not proven is not used"


def test_a_key_that_sshd_will_not_take_is_not_proven(there: Bare) -> None:
    forget_state()
    conf = "/etc/ssh/sshd_config.d/10-test.conf"
    # Not reloaded: that ends before sshd listens again.
    there.root(f"echo 'AuthorizedKeysFile /nowhere' > {conf}; systemctl restart ssh")
    try:
        done, _ = install(there, "admin", PASSWORD)
    finally:
        there.root(f"rm {conf}; systemctl restart ssh")
    assert done.error is not None and done.error.code is Code.NOT_GOOD
    assert "AuthorizedKeysFile" in done.error.hint


@pytest.fixture
def keyed(there: Bare) -> Bare:
    """The cluster's key is on the machine for all users."""
    for user in ("admin", "free", "nosudo", "terminal"):
        done, _ = install(there, user, PASSWORD)
        assert done.error is None
    return there


def test_sudo_with_a_password_asked_once(keyed: Bare, control: Path) -> None:
    result, who = run(keyed, "admin", control, PASSWORD)
    assert result.stdout == "root\none\ntwo words\n"
    assert who.asked == ["sudo password of admin on the nodes"]
    result, who = run(keyed, "free", control, PASSWORD)
    assert (result.stdout, who.asked) == ("root\none\ntwo words\n", [])


def test_a_password_that_sudo_stopped_wanting_does_not_reach_the_script(
    keyed: Bare, control: Path
) -> None:
    async def scenario() -> None:
        node = keyed.node("admin", control)
        await node.run(sh("true"))
        keyed.root("echo 'admin ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/zz-later")
        try:
            result = await node.run(sh("cat"), stdin=b"only this\n")
        finally:
            keyed.root("rm /etc/sudoers.d/zz-later")
            await node.close()
        assert result.stdout == "only this\n"

    with accompanied(Somebody(PASSWORD).person()):
        asyncio.run(scenario())


def test_sudo_that_refuses(keyed: Bare, control: Path) -> None:
    tries = "journalctl -t sudo -o cat"
    before = keyed.root(tries).count("authentication failure")
    error = refused(keyed, "admin", control, "wrong")
    assert "sudo refused the password of admin" in error.message
    assert keyed.root(tries).count("authentication failure") == before + 1, "one try, not three"
    assert "CORRAL_SUDO_PASSWORD_FILE" in refused(keyed, "admin", control, None).hint
    assert "not in sudoers" in refused(keyed, "nosudo", control, PASSWORD).message
    assert "requiretty" in refused(keyed, "terminal", control, PASSWORD).message


def test_the_password_is_in_no_argument_list_and_no_environment(keyed: Bare, control: Path) -> None:
    def shown() -> list[str]:
        files = [*Path("/proc").glob("[0-9]*/environ"), *Path("/proc").glob("[0-9]*/cmdline")]
        leaks: list[str] = []
        for file in files:
            try:
                if PASSWORD.encode() in file.read_bytes():
                    leaks.append(str(file))
            except OSError:
                continue
        return leaks

    async def scenario() -> None:
        node = keyed.node("admin", control)
        seen: list[str] = []
        script = sh("echo ready; read -r x; sleep 30")
        going = asyncio.create_task(node.run(script, stdin=b"x\n", on_line=seen.append))
        await until(lambda: seen == ["ready"], "the script runs")
        assert processes_with(
            "sudo -k -S -p"
        )  # the search finds what is there: both sides are here
        assert not shown()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        await node.close()

    with accompanied(Somebody(PASSWORD).person()):
        asyncio.run(scenario())


def test_asked_on_a_terminal_and_from_a_file(keyed: Bare, tmp_path: Path) -> None:
    file = tmp_path / "bare.yaml"
    file.write_text(
        f"corral: v1\nname: {CLUSTER}\ngroups:\n  - name: a\n    provider: ssh\n    nodes: {NODE}\n"
        f"    addresses: {keyed.address}\n    ssh: {{user: admin}}\n"
    )
    argv = [sys.executable, "-m", "corral", "exec", "-c", str(file), "--", "id", "-un"]
    shown, output = typed(argv, f"{PASSWORD}\n")
    assert "sudo password of admin" in shown
    assert PASSWORD not in shown
    assert f"{NODE}: root" in output
    (tmp_path / "pw").write_text(f"{PASSWORD}\n")
    env = os.environ | {"CORRAL_SUDO_PASSWORD_FILE": str(tmp_path / "pw")}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (0, f"{NODE}: root\n"), done.stderr


def typed(argv: list[str], answer: str) -> tuple[str, str]:
    """Run a command on its own terminal; what the terminal showed, before and after."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)  # noqa: S606  # no shell is wanted
    shown = b""
    while b"nodes: " not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, answer.encode())
    output = b""
    try:
        while more := os.read(terminal, 4096):
            output += more
    except OSError:  # the other end is closed: it has ended
        pass
    os.close(terminal)
    os.waitpid(pid, 0)
    plain = re.compile(r"\x1b\[[0-9;]*m")
    return plain.sub("", (shown + output).decode()), plain.sub("", output.decode())


def test_a_changed_host_key_is_refused_until_it_is_forgotten(keyed: Bare, control: Path) -> None:
    run(keyed, "free", control, None)
    key = "/etc/ssh/ssh_host_ed25519_key"
    keyed.root(
        f"mv {key} {key}.was; mv {key}.pub {key}.pub.was; "
        f"ssh-keygen -q -t ed25519 -N '' -f {key}; systemctl restart ssh"
    )
    try:
        error = refused(keyed, "free", control, None)
        assert error.code is Code.HOST_KEY_CHANGED
        assert error.message.count("SHA256:") == 2
        assert f"corral keys forget {NODE}" in error.hint
        gone = asyncio.run(api.forget_host_keys(keyed.spec("free"), NODE))
        assert gone[NODE][0] in error.message
        _, who = run(keyed, "free", control, None)
        assert "seen for the first time" in who.notices[0]
    finally:
        keyed.root(f"mv {key}.was {key}; mv {key}.pub.was {key}.pub; systemctl restart ssh")
        asyncio.run(api.forget_host_keys(keyed.spec("free"), NODE))


def test_keys_that_the_users_own_known_hosts_has(
    keyed: Bare, control: Path, tmp_path: Path
) -> None:
    public = keyed.root("cat /etc/ssh/ssh_host_ed25519_key.pub").split()
    other = keyed.root(
        "rm -f /tmp/o; ssh-keygen -q -t ed25519 -N '' -f /tmp/o; cat /tmp/o.pub"
    ).split()
    mine = tmp_path / "mine"
    options = ("-o", f"UserKnownHostsFile={mine}")

    async def first_connection() -> None:
        target = replace(keyed.target("free"), options=options)
        assert (await known_to_user(NODE, target)).count("\n") == 1
        pinned = replace(target, known_hosts=keys_dir(CLUSTER) / "fresh", options=())
        node = OpenSSH(NODE, pinned, control)
        (pinned.known_hosts or mine).write_text(await known_to_user(NODE, target))
        await node.run(sh("true"))
        await node.close()

    mine.write_text(f"{keyed.address} {' '.join(public[:2])}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(mine)], check=True, capture_output=True)
    asyncio.run(first_connection())
    mine.write_text(f"{keyed.address} {' '.join(other[:2])}\n")
    with pytest.raises(CorralError) as caught:
        asyncio.run(first_connection())
    assert caught.value.code is Code.HOST_KEY_CHANGED


def test_init_from_a_machine_without_keys(there: Bare, tmp_path: Path) -> None:
    there.root("rm -rf ~admin/.ssh")
    (tmp_path / "pw").write_text(f"{PASSWORD}\n")
    out = tmp_path / "found.yaml"
    argv = [sys.executable, "-m", "corral", "init", "--from", there.address, "--user", "admin"]
    argv += ["--keys", "--name", "found", "-o", str(out)]
    env = os.environ | {
        f"CORRAL_{k}_PASSWORD_FILE": str(tmp_path / "pw") for k in ("SUDO", "LOGIN")
    }
    done = subprocess.run(argv, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    loaded = load_text(out.read_text(), str(out))
    assert loaded.findings == () and loaded.spec is not None
    assert loaded.spec.groups[0].ssh.user == "admin"
    assert loaded.spec.groups[0].addresses == there.address
    assert "sshd takes passwords" in done.stderr
    again = subprocess.run(argv, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)
    listed = [sys.executable, "-m", "corral", "exec", "-c", str(out), "--", "id", "-un"]
    ran = subprocess.run(listed, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert ran.stdout == "bare: root\n", ran.stderr
