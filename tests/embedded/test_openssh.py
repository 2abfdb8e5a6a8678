"""OpenSSH against a real sshd: answers, streams, limits, connections that break."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.embedded.loopback import (
    NODE,
    Sshd,
    failing,
    processes_with,
    running,
    served,
    until,
)

from corral.errors import Code, CorralError
from corral.hosts.openssh import OpenSSH, answers
from corral.hosts.quote import sh

pytestmark = pytest.mark.embedded


@pytest.fixture
def sshd() -> Iterator[Sshd]:
    # A short folder: the control socket's path must fit into it (pytest's own are too long).
    with tempfile.TemporaryDirectory(prefix="cs") as folder, served(Path(folder)) as server:
        yield server


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
            await node.run(sh("echo {m}; sleep 60", m=mark), timeout=5)
        assert caught.value.code is Code.TIMED_OUT
        assert "may still run" in caught.value.hint
        assert sshd.clients() <= before
        assert (await node.run(sh("echo next"))).stdout == "next\n"
        await node.close()

    asyncio.run(scenario())


def test_cancelling_kills_the_local_process_group(sshd: Sshd) -> None:
    async def scenario() -> None:
        node = sshd.transport()
        await node.connect()
        before = sshd.clients()
        seen: list[str] = []
        run = asyncio.create_task(node.run(sh("echo on; sleep 60"), on_line=seen.append))
        await until(lambda: seen == ["on"], "the script began")
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert sshd.clients() <= before
        await node.close()

    asyncio.run(scenario())


def signal_all(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # one that just ended
            os.kill(pid, number)


def test_a_node_that_hangs_before_the_script_begins(sshd: Sshd) -> None:
    async def scenario() -> None:
        node = sshd.transport()
        await node.connect()
        logins = sshd.connections
        stopped = sshd.descendants()
        signal_all(stopped, signal.SIGSTOP)
        try:
            with pytest.raises(CorralError) as caught:
                await node.run(sh("true"), timeout=1)
        finally:
            signal_all(stopped, signal.SIGCONT)
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
        run = asyncio.create_task(node.run(sh("echo on; sleep 60"), on_line=seen.append))
        await until(lambda: seen == ["on"], "the script began")
        await kill_shared(node, sshd)
        with pytest.raises(CorralError) as caught:
            await run
        assert caught.value.code is Code.UNREACHABLE
        assert "broke before the script ended" in caught.value.message
        logins = sshd.connections
        for _ in range(2):
            result = await node.run(sh("echo again"))
            assert (result.stdout, result.stderr) == ("again\n", "")
        assert sshd.connections == logins + 1
        await node.close()

    asyncio.run(scenario())


def test_a_connection_of_an_earlier_command_is_used_and_a_dead_one_replaced(sshd: Sshd) -> None:
    async def scenario() -> None:
        first = sshd.transport()
        await first.run(sh("true"))
        logins = sshd.connections
        assert (await sshd.transport().run(sh("echo 2"))).stdout == "2\n"
        assert sshd.connections == logins, "the second command logged in again"
        # The login on the node ends and nobody notices yet, as when a machine loses its power.
        master = shared_pid(next((sshd.folder / "control").iterdir()))
        os.kill(master, signal.SIGSTOP)
        listing = ["pgrep", "-P", str(sshd.process.pid)]
        for pid in subprocess.run(listing, capture_output=True, text=True).stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        third = asyncio.create_task(sshd.transport().run(sh("echo 3")))
        os.kill(master, signal.SIGCONT)
        assert (await third).stdout == "3\n"
        await sshd.transport().close()

    asyncio.run(scenario())


async def kill_shared(node: OpenSSH, sshd: Sshd) -> None:
    control = next((sshd.folder / "control").iterdir())
    os.kill(shared_pid(control), signal.SIGKILL)
    await until(lambda: not answers(control), "the shared connection is gone")
    assert control.exists()  # a killed process leaves its socket behind


def shared_pid(control: Path) -> int:
    argv = ["ssh", "-O", "check", "-S", str(control), "any"]
    reply = subprocess.run(argv, capture_output=True, text=True, check=True).stderr
    return int(reply.partition("pid=")[2].partition(")")[0])


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


def test_connect_waits_for_a_machine_that_boots(tmp_path: Path) -> None:
    with running(tmp_path) as sshd:
        sshd.process.terminate()
        sshd.process.wait(timeout=60)

        async def scenario() -> None:
            node = sshd.transport()
            with pytest.raises(CorralError, match="nothing listens"):
                await node.connect()
            wait = asyncio.create_task(node.connect(within=120))
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
