"""OpenSSH against a real sshd on loopback: started here as root, with keys of its own."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.hosts.openssh import OpenSSH, SshTarget, answers
from corral.hosts.quote import Script, sh
from corral.hosts.sshkeys import fingerprint, known_hosts_line, make_key

pytestmark = pytest.mark.embedded

NODE = "node0"
SSHD = "/usr/sbin/sshd"
TRUE = sh("true")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Sshd:
    """A running sshd and the keys that belong to it."""

    folder: Path
    port: int

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        argv = [SSHD, "-D", "-e", "-f", str(self.folder / "config")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(argv, stderr=log)

    @property
    def target(self) -> SshTarget:
        return SshTarget(
            "127.0.0.1",
            self.port,
            key=self.folder / "id",
            known_hosts=self.folder / "known_hosts",
        )

    def transport(self, **changes: object) -> OpenSSH:
        return OpenSSH(NODE, replace(self.target, **changes), self.folder / "control")

    @property
    def connections(self) -> int:
        """Logins so far."""
        return (self.folder / "log").read_text().count("Accepted publickey")

    def descendants(self) -> set[int]:
        """The node's side: all processes below sshd."""
        return children(self.process.pid)

    def clients(self) -> set[int]:
        """This side: all processes below the test, without sshd's."""
        return children(os.getpid()) - self.descendants()


def children(root: int) -> set[int]:
    """All processes below one."""
    below: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            below.setdefault(parent, []).append(int(stat.parent.name))
    found: set[int] = set()
    ahead = [root]
    while ahead:
        fresh = below.get(ahead.pop(), [])
        found.update(fresh)
        ahead.extend(fresh)
    return found


def processes_with(text: str) -> list[str]:
    """Command lines on this machine that hold a text."""
    found: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = file.read_bytes()
            if text.encode() in line:
                found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


def started(folder: Path, *, extra: str = "") -> Sshd:
    make_key(folder / "host")
    public = make_key(folder / "id")
    (folder / "authorized").write_text(f"{public}\n")
    (folder / "known_hosts").write_text(known_hosts_line(NODE, (folder / "host.pub").read_text()))
    port = free_port()
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\n"
        f"AuthorizedKeysFile none\nAuthorizedKeysCommand /bin/cat {folder}/authorized\n"
        f"AuthorizedKeysCommandUser root\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"PermitRootLogin yes\nPasswordAuthentication no\n{extra}"
    )
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    return Sshd(folder, port)


async def ready(sshd: Sshd) -> None:
    node = sshd.transport()
    await node.connect(within=20)
    await node.close()


@contextlib.contextmanager
def running(folder: Path, *, extra: str = "") -> Iterator[Sshd]:
    sshd = started(folder, extra=extra)
    try:
        asyncio.run(ready(sshd))
        yield sshd
    finally:
        sshd.process.terminate()
        sshd.process.wait(timeout=10)


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with running(tmp_path) as server:
        yield server
        control = str(tmp_path / "control")
        asyncio.run(until(lambda: not processes_with(control), "all shared connections ended"))


async def until(condition: object, what: str) -> None:
    """Wait for a condition; the limit is for a broken test only."""
    assert callable(condition)
    for _ in range(600):
        if condition():
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"never: {what}")


async def failing(node: OpenSSH, script: Script = TRUE, timeout: float = 30) -> CorralError:
    with pytest.raises(CorralError) as caught:
        await node.run(script, timeout=timeout)
    await node.close()
    return caught.value


def test_answer(sshd: Sshd) -> None:
    async def scenario() -> None:
        node = sshd.transport()
        before = sshd.connections
        good = await node.run(sh("echo {x}; echo err >&2; id -u", x="a 'b' $(c)"))
        assert (good.status, good.stdout, good.stderr) == (0, "a 'b' $(c)\n0\n", "err\n")
        bad = await node.run(sh("printf half; exit 255"))
        assert (bad.status, bad.stdout) == (255, "half")
        assert sshd.connections == before + 1
        await node.close()

    asyncio.run(scenario())


def test_lines_come_while_the_script_runs(sshd: Sshd, tmp_path: Path) -> None:
    async def scenario() -> None:
        node = sshd.transport()
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        seen: list[str] = []
        run = asyncio.create_task(
            node.run(sh("echo one; echo; cat {f}; echo three", f=str(fifo)), on_line=seen.append)
        )
        await until(lambda: seen == ["one"], "first line")
        assert not run.done()
        with fifo.open("w") as file:
            file.write("two\n")
        result = await run
        assert seen == ["one", "", "two", "three"]
        assert result.stdout == "one\n\ntwo\nthree\n"
        await node.close()

    asyncio.run(scenario())


def test_binary_both_ways_and_huge_lines(sshd: Sshd) -> None:
    async def scenario() -> None:
        node = sshd.transport()
        data = bytes(range(256)) * 20_000
        digest = (await node.run(sh("sha256sum"), stdin=data)).stdout.split()[0]
        assert digest == hashlib.sha256(data).hexdigest()
        seen: list[str] = []
        long = await node.run(
            sh("head -c 5000000 /dev/zero | tr '\\0' x"), on_line=seen.append, timeout=60
        )
        assert long.stdout == "x" * 5_000_000 == "".join(seen)
        assert (await node.run(sh("true"), stdin=data)).ok  # nobody reads it
        await node.close()

    asyncio.run(scenario())


def test_too_much_output(sshd: Sshd) -> None:
    async def scenario() -> CorralError:
        return await failing(sshd.transport(), sh("cat /dev/zero"), timeout=120)

    error = asyncio.run(scenario())
    assert error.code is Code.COMMAND_FAILED
    assert error.node == NODE
    assert "64 MiB" in error.message


def test_timeout_kills_the_local_process_group(sshd: Sshd) -> None:
    mark = f"corral-{secrets.token_hex(4)}"

    async def scenario() -> None:
        node = sshd.transport()
        await node.connect()
        before = sshd.clients()
        with pytest.raises(CorralError) as caught:
            await node.run(sh("echo {m}; sleep 30", m=mark), timeout=1)
        assert caught.value.code is Code.TIMED_OUT
        assert "may still run" in caught.value.hint
        assert sshd.clients() == before
        assert (await node.run(sh("echo next"))).stdout == "next\n"
        await node.close()

    asyncio.run(scenario())


def test_cancelling_kills_the_local_process_group(sshd: Sshd) -> None:
    async def scenario() -> None:
        node = sshd.transport()
        await node.connect()
        before = sshd.clients()
        seen: list[str] = []
        run = asyncio.create_task(node.run(sh("echo on; sleep 30"), on_line=seen.append))
        await until(lambda: seen == ["on"], "the script began")
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert sshd.clients() == before
        await node.close()

    asyncio.run(scenario())


def test_a_node_that_hangs_before_the_script_begins(sshd: Sshd) -> None:
    async def scenario() -> None:
        node = sshd.transport()
        await node.connect()
        logins = sshd.connections
        stopped = sshd.descendants()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(CorralError) as caught:
                await node.run(sh("true"), timeout=1)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        assert caught.value.code is Code.TIMED_OUT
        assert "did not take the script" in caught.value.message
        assert (await node.run(sh("echo back"))).stdout == "back\n"
        assert sshd.connections == logins + 1  # by a new connection
        await node.close()

    asyncio.run(scenario())


def test_killing_the_shared_connection_midway(sshd: Sshd) -> None:
    async def scenario() -> None:
        node = sshd.transport()
        seen: list[str] = []
        run = asyncio.create_task(node.run(sh("echo on; sleep 30"), on_line=seen.append))
        await until(lambda: seen == ["on"], "the script began")
        await kill_shared(node, sshd)
        with pytest.raises(CorralError) as caught:
            await run
        assert caught.value.code is Code.UNREACHABLE
        assert "broke before the script ended" in caught.value.message
        assert (await node.run(sh("echo again"))).stdout == "again\n"
        await node.close()

    asyncio.run(scenario())


async def kill_shared(node: OpenSSH, sshd: Sshd) -> None:
    control = next((sshd.folder / "control").iterdir())
    os.kill(shared_pid(control), signal.SIGKILL)
    await until(lambda: not answers(control), "the shared connection is gone")
    assert control.exists()  # a killed process leaves its socket behind


def shared_pid(control: Path) -> int:
    argv = ["ssh", "-O", "check", "-S", str(control), "any"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stderr
    return int(said.partition("pid=")[2].partition(")")[0])


def test_killing_the_login_on_the_node_midway(sshd: Sshd) -> None:
    async def scenario() -> CorralError:
        node = sshd.transport()
        error = await failing(node, sh("kill -9 $PPID; kill -9 $$; sleep 30"))
        assert (await node.run(sh("echo again"))).stdout == "again\n"
        await node.close()
        return error

    assert asyncio.run(scenario()).code is Code.UNREACHABLE


def test_thirty_at_once_by_one_connection(sshd: Sshd) -> None:
    async def scenario() -> None:
        node = sshd.transport()
        before = sshd.connections
        results = await asyncio.gather(
            *(node.run(sh("cat; echo {n}", n=n), stdin=f"in{n}\n".encode()) for n in range(30))
        )
        assert [r.stdout for r in results] == [f"in{n}\n{n}\n" for n in range(30)]
        assert sshd.connections == before + 1
        await node.close()

    asyncio.run(scenario())


def test_a_server_with_one_session_per_connection(tmp_path: Path) -> None:
    with running(tmp_path, extra="MaxSessions 1\n") as sshd:

        async def scenario() -> None:
            node = sshd.transport()
            results = await asyncio.gather(*(node.run(sh("echo {n}", n=n)) for n in range(4)))
            assert [r.stdout for r in results] == [f"{n}\n" for n in range(4)]
            await node.close()

        asyncio.run(scenario())


def test_another_host_key_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    real = (tmp_path / "host.pub").read_text()
    known = tmp_path / "changed"
    known.write_text(known_hosts_line(NODE, other))
    before = sshd.connections
    error = asyncio.run(failing(sshd.transport(known_hosts=known)))
    assert error.code is Code.HOST_KEY_CHANGED
    assert fingerprint(other) in error.message
    assert fingerprint(real) in error.message
    assert str(known) in error.hint
    assert sshd.connections == before


def test_an_unknown_host_key_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "empty"
    known.write_text(known_hosts_line("node1", (tmp_path / "host.pub").read_text()))
    error = asyncio.run(failing(sshd.transport(known_hosts=known)))
    assert error.code is Code.UNREACHABLE
    assert "not known" in error.message
    assert known.read_text().count("\n") == 1


def test_wrong_key(sshd: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "wrong")
    error = asyncio.run(failing(sshd.transport(key=tmp_path / "wrong")))
    assert error.code is Code.UNREACHABLE
    assert "may not log in with this key" in error.message
    assert "authorized_keys" in error.hint
    assert "Permission denied" in error.tail


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"address": "no-such-name.invalid"}, "does not resolve"),
        ({"port": 1}, "nothing listens at 127.0.0.1 port 1"),
        (
            {"options": ("-o", "ProxyCommand=sleep 30"), "connect_timeout": 1},
            "does not answer",
        ),
    ],
)
def test_no_way_to_the_node(sshd: Sshd, changes: dict[str, object], message: str) -> None:
    error = asyncio.run(failing(sshd.transport(**changes)))
    assert error.code is Code.UNREACHABLE
    assert message in error.message
    assert error.hint
    assert error.node == NODE


def test_connect_waits_for_a_machine_that_boots(tmp_path: Path) -> None:
    with running(tmp_path) as sshd:
        sshd.process.terminate()
        sshd.process.wait(timeout=10)

        async def scenario() -> None:
            node = sshd.transport()
            with pytest.raises(CorralError, match="nothing listens"):
                await node.connect()
            wait = asyncio.create_task(node.connect(within=30))
            await asyncio.sleep(0)
            sshd.start()
            await wait
            assert (await node.run(sh("echo up"))).stdout == "up\n"
            await node.close()

        asyncio.run(scenario())


def test_secrets_stand_in_no_argument_list(sshd: Sshd) -> None:
    secret, inside = secrets.token_hex(16), secrets.token_hex(16)

    async def scenario() -> None:
        node = sshd.transport()
        seen: list[str] = []
        script = sh("x={inside}; read -r s; echo ready; sleep 30; echo $s $x", inside=inside)
        run = asyncio.create_task(
            node.run(script, stdin=f"{secret}\n".encode(), on_line=seen.append)
        )
        await until(lambda: seen == ["ready"], "the script has the secret")
        # Both sides run on this machine. That the search finds what is there:
        assert processes_with("IFS= read -r n")
        assert not processes_with(secret)
        assert not processes_with(inside)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await node.close()

    asyncio.run(scenario())


def test_a_daemon_that_keeps_stdout_does_not_hold_the_run(sshd: Sshd, tmp_path: Path) -> None:
    async def scenario() -> None:
        node = sshd.transport()
        result = await node.run(sh("sleep 600 & echo $! >{f}; echo done", f=str(tmp_path / "pid")))
        assert result.stdout == "done\n"
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, 0)  # the daemon lives
        os.kill(pid, signal.SIGKILL)
        await node.close()

    asyncio.run(scenario())


def test_close_leaves_nothing_and_can_be_undone(sshd: Sshd) -> None:
    async def scenario() -> None:
        node = sshd.transport()
        await node.close()
        await node.run(sh("true"))
        assert len(processes_with(str(sshd.folder / "control"))) == 1
        await node.close()
        assert not list((sshd.folder / "control").iterdir())
        await until(lambda: not processes_with(str(sshd.folder / "control")), "it ended")
        assert (await node.run(sh("echo x"))).stdout == "x\n"
        await node.close()

    asyncio.run(scenario())


def test_paths_with_spaces_and_percents(tmp_path: Path) -> None:
    folder = tmp_path / "a %h b"
    folder.mkdir()
    with running(tmp_path) as sshd:
        shutil.copy2(tmp_path / "id", folder / "id")
        shutil.copy2(tmp_path / "known_hosts", folder / "known hosts")

        async def scenario() -> None:
            target = replace(sshd.target, key=folder / "id", known_hosts=folder / "known hosts")
            node = OpenSSH(NODE, target, control)
            assert (await node.run(sh("echo x"))).stdout == "x\n"
            assert processes_with(control.name.replace("%", "%%"))
            await node.close()

        with tempfile.TemporaryDirectory(prefix="c %h ") as short:
            control = Path(short)
            asyncio.run(scenario())


@pytest.fixture
def account() -> Iterator[str]:
    """A fresh account of this machine, removed at the end."""
    name = f"corral-{secrets.token_hex(3)}"
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", name], check=True)
    subprocess.run(["usermod", "--password", "*", name], check=True)
    try:
        yield name
    finally:
        # --force: its last process may still be on its way out
        subprocess.run(["userdel", "--force", name], check=True, capture_output=True)


def set_shell(name: str, shell: str) -> None:
    subprocess.run(["usermod", "--shell", shell, name], check=True)
    assert pwd.getpwnam(name).pw_shell == shell


@pytest.mark.parametrize("shell", ["/bin/false", "/usr/sbin/nologin"])
def test_an_account_without_a_shell(sshd: Sshd, account: str, shell: str) -> None:
    set_shell(account, shell)
    error = asyncio.run(failing(sshd.transport(user=account)))
    assert error.code is Code.UNREACHABLE
    assert "shell" in error.message
    assert f"usermod -s /bin/sh {account}" in error.hint


@pytest.fixture
def sudo() -> Iterator[Path]:
    if shutil.which("sudo") is None:
        pytest.fail("sudo is not installed; ./test installs it")
    rule = Path(f"/etc/sudoers.d/corral-test-{secrets.token_hex(3)}")
    yield rule
    rule.unlink(missing_ok=True)


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/usr/bin/tcsh", "/usr/bin/fish"])
def test_any_login_shell_with_sudo(sshd: Sshd, account: str, sudo: Path, shell: str) -> None:
    if not Path(shell).exists():
        pytest.skip(f"{shell} is not installed here")
    set_shell(account, shell)
    sudo.write_text(f"{account} ALL=(ALL) NOPASSWD:ALL\n")

    async def scenario() -> None:
        node = sshd.transport(user=account)
        result = await node.run(sh("id -u; cat; exit 7"), stdin=b"a\0b")
        assert (result.status, result.stdout) == (7, "0\na\0b")
        await node.close()

    asyncio.run(scenario())


def test_sudo_that_wants_a_password(sshd: Sshd, account: str, sudo: Path) -> None:
    error = asyncio.run(failing(sshd.transport(user=account)))
    assert error.code is Code.UNREACHABLE
    assert f"{account} may not use sudo without a password" in error.message
    assert "NOPASSWD" in error.hint


def test_noise_of_login_files_is_cut_off(tmp_path: Path) -> None:
    extra = 'SetEnv ENV=x\nForceCommand echo noise; printf half; eval "$SSH_ORIGINAL_COMMAND"\n'
    with running(tmp_path, extra=extra) as sshd:

        async def scenario() -> None:
            node = sshd.transport()
            seen: list[str] = []
            result = await node.run(sh("echo clean"), on_line=seen.append)
            assert result.stdout == "clean\n"
            assert seen == ["clean"]
            await node.close()

        asyncio.run(scenario())
