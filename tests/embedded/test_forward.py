"""From a laptop into jobs: tunnels, OpenSSH's configuration, JupyterLab; as a user without root."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.test_jobs_terminal import CTRL_C, Terminal
from tests.embedded.test_tools import install_or_skip

from corral import api
from corral.apply.session import Session
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.hosts.sshkeys import make_key
from corral.roles.services.corral_wheels import parse_lock
from corral.spec.models import ClusterSpec
from corral.spec.sections.people import Access, User
from corral.state.pyenv import PythonEnv

ROOT = Path(__file__).parents[2]
WHEELS = parse_lock((Path(__file__).parent / "jupyter.lock").read_text())["3.13"]
JUPYTER = "/shared/test-jupyter"
SERVER = "echo from $(hostname) > page && exec python3 -m http.server {port} --bind 127.0.0.1"
PORT = 8123
SERVES = sh(
    "timeout 60 sh -c {until}", until=f"until grep -q :{PORT:04X} /proc/net/tcp; do sleep 0.2; done"
)


@dataclass(frozen=True)
class Laptop:
    """Alice's state folder and key: a profile, no cluster file."""

    home: Path

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "corral", *words]

    @property
    def environ(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": str(self.home),
            "CORRAL_STATE_DIR": str(self.home / "state"),
            "PYTHONPATH": f"{ROOT}/src:{ROOT}",
        }

    def corral(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.done(*self.argv(*words))

    def done(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            env=self.environ,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
            stdin=subprocess.DEVNULL,
        )

    def good(self, *words: str) -> str:
        done = self.corral(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def submitted(self, *words: str) -> str:
        """A job's number."""
        out = self.good("run", "--detach", "--json", *words)
        return str(json.loads(out.splitlines()[-1])["id"])

    @contextlib.contextmanager
    def held(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on, with JSON on its standard output."""
        process = subprocess.Popen(
            self.argv(*words, "--json"),
            env=self.environ,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=60)


def get(url: str) -> bytes:
    """What a server answers."""
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  # of our own tunnel
        return answer.read()


def event(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    """The next event of a name."""
    assert process.stdout is not None
    for line in process.stdout:
        fields = json.loads(line)
        if fields.get("event") == name:
            return fields
    assert process.stderr is not None
    raise AssertionError(f"no event {name}: {process.stderr.read()}")


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alice") / "id_lab"
    make_key(path, "alice")
    return path


@pytest.fixture(scope="module")
def lab(key: Path, request: pytest.FixtureRequest) -> Live:
    """A cluster for this file, whose nodes admit users only where a job of theirs is running."""
    public = key.with_name("id_lab.pub").read_text().strip()
    users = (User(name="corral", uid=2000), User(name="alice", uid=2001, keys=(public,)))
    spec = named(f"forward-{os.getpid()}", users=users, access=Access(ssh="jobs_only"))
    bring_up: Callable[[ClusterSpec], Live] = request.getfixturevalue("fresh_cluster")
    return bring_up(spec)


@pytest.fixture(scope="module")
def alice(lab: Live, key: Path) -> Laptop:
    laptop = Laptop(key.parent)
    address = lab.with_session(_address)
    login = ("login", f"alice@{address}", "--name", "lab", "-i", str(key), "--accept-host-key")
    laptop.good(*login)
    return laptop


async def _address(session: Session) -> str:
    return session.addresses()[session.controller]


def test_a_port_of_a_job_and_plain_ssh_into_its_node(lab: Live, alice: Laptop) -> None:
    config = alice.home / "corral.conf"
    assert "written" in alice.good("ssh", "--config", "-o", str(config))
    assert "unchanged" in alice.good("ssh", "--config", "-o", str(config))
    ssh = ("ssh", "-F", str(config), "-o", "BatchMode=yes")
    assert alice.done(*ssh, "lab", "id", "-un").stdout.strip() == "alice"
    assert alice.done(*ssh, "node1.lab", "hostname").returncode != 0  # no job there yet

    command = ("--", "sh", "-c", SERVER.format(port=PORT))
    job = alice.submitted("-w", "node1", "--workdir", "/tmp", *command)
    try:
        lab.run("node1", SERVES)
        with alice.held("forward", job, str(PORT)) as tunnel:
            url = event(tunnel, "forwarded")["url"]
            page = get(f"{url}page")
            assert page.decode().strip() == "from node1"
            assert alice.done(*ssh, "node1.lab", "hostname").stdout.strip() == "node1"
            (alice.home / "sent").write_text("by scp")
            scp = ("scp", "-F", str(config), "-B", str(alice.home / "sent"), "node1.lab:/tmp/sent")
            copied = alice.done(*scp)
            assert copied.returncode == 0, copied.stderr
            assert lab.run(
                "node1", sh("cat /tmp/sent; stat -c ' %U' /tmp/sent")
            ).stdout.split() == [
                "by",
                "scp",
                "alice",
            ]
            if shutil.which("rsync"):  # in CI; docs/guide/notebooks.md has it
                folder = alice.home / "data"
                folder.mkdir()
                (folder / "sent").write_text("by rsync")
                remote = ("rsync", "-a", "-e", f"ssh -F {config} -o BatchMode=yes", f"{folder}/")
                for host in ("lab", "node1.lab"):
                    copied = alice.done(*remote, f"{host}:/tmp/data/")
                    assert copied.returncode == 0, copied.stderr
                owner = sh("cat /tmp/data/sent; stat -c ' %U' /tmp/data/sent")
                for node in (lab.controller, "node1"):
                    assert lab.run(node, owner).stdout.split() == ["by", "rsync", "alice"]
            missing = alice.corral("forward", job, "9")
            assert missing.returncode == 2
            assert "nothing listens on port 9 of node1" in missing.stderr
            assert str(PORT) in missing.stderr
            taken = alice.corral("forward", job, str(PORT), "--port", url.rpartition(":")[2][:-1])
            assert "of this machine is in use" in taken.stderr

            alice.good("cancel", job)
            assert event(tunnel, "ended")["id"] == int(job)
            assert tunnel.wait(60) == 0
        with pytest.raises(urllib.error.URLError):
            get(url)
        ended = alice.corral("forward", job, str(PORT))
        assert ended.returncode != 0
        assert "it has ended" in ended.stderr or "is running" in ended.stderr
    finally:
        alice.corral("cancel", job)
    assert "removed" in alice.good("ssh", "--config", "--remove", "-o", str(config))
    assert config.read_text() == ""


def test_an_administrator_reaches_jobs_of_others(lab: Live, alice: Laptop) -> None:
    config = alice.home / "root.conf"
    config.write_text(asyncio.run(api.ssh_config(lab.spec)))
    argv = ["ssh", "-F", str(config), "-o", "BatchMode=yes", f"node1.{lab.spec.name}", "id -un"]
    assert (
        subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip() == "root"
    )
    argv = asyncio.run(api.ssh_argv(lab.spec, "node1", ["id", "-un"], user="alice"))
    assert (
        subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip() == "alice"
    )
    job = alice.submitted("-w", "node2", "--workdir", "/tmp", "--", "sleep", "3000")
    try:
        with pytest.raises(CorralError, match=f"job {job} is alice's, not corral's"):
            asyncio.run(_opened(lab.spec, job))
    finally:
        alice.corral("cancel", job)


async def _opened(spec: ClusterSpec, job: str) -> None:
    async with api.forward(spec, job, PORT):
        pass


def test_a_notebook_without_jupyterlab_names_the_way_out(alice: Laptop) -> None:
    done = alice.corral("notebook")
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(r"JupyterLab is not installed for the job's Python, \S+python3", done.stderr)
    assert "--environment" in done.stderr
    other = alice.submitted("--", "sleep", "3000")
    try:
        refused = alice.corral("notebook", other)
        assert refused.returncode == 2
        assert f"job {other} is not a notebook" in refused.stderr
    finally:
        alice.corral("cancel", other)


@pytest.fixture
def jupyter(lab: Live) -> str:
    """A Python on shared storage that has JupyterLab."""
    install_or_skip(lab, PythonEnv(JUPYTER, "tools", WHEELS))
    return f"{JUPYTER}/bin/python3"


@pytest.mark.slow
def test_jupyterlab_is_a_job_that_is_opened_again(lab: Live, alice: Laptop, jupyter: str) -> None:
    words = ("notebook", "-w", "node1", "--mem", "600M", "--python", jupyter)
    terminal = Terminal(
        *("env", *(f"{k}={v}" for k, v in alice.environ.items())), *alice.argv(*words)
    )
    job = ""
    try:
        shown = terminal.until("/lab?token=", 300)
        job = re.findall(r"job (\d+): submitted", shown)[0]
        url = re.findall(
            r"http://127\.0\.0\.1:\d+/lab\?token=\S+", terminal.until("JupyterLab on")
        )[0]
        token = url.rpartition("=")[2]
        origin = url.partition("/lab")[0]
        version = get(f"{origin}/api/status?token={token}")
        assert "kernels" in json.loads(version)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            get(f"{origin}/api/status")
        assert secret_places(lab, job, token) == {"notebook.json 600", "notebook.token 600"}
        terminal.type(CTRL_C)
        terminal.until(f"Cancel job {job}? Otherwise it keeps running.")
        terminal.type(b"\n")
        assert terminal.ended() == 130
        assert f"corral notebook {job}" in terminal.output
        with alice.held("notebook", job) as again:
            opened = event(again, "opened")
            assert opened["token"] == token
            assert b"JupyterLab" in get(opened["url"])
            alice.good("cancel", job)
            assert event(again, "ended")["id"] == int(job)
            assert again.wait(60) == 0
    finally:
        terminal.close()
        if job:
            alice.corral("cancel", job)


def secret_places(lab: Live, job: str, token: str) -> set[str]:
    """Files of the job that hold the token, with their modes; and argument lists that do."""
    script = sh(
        "cd $(ls -d /shared/corral/jobs/alice/*-notebook-* | tail -n 1) && "
        "grep -rl --exclude-dir=jupyter {token} . | xargs stat -c '%n %a' | sed 's,^./,,'\n"
        "for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $p 2>/dev/null; echo; done | "
        "grep -F {token} | grep -v grep | sed 's/^/argv /'\n:",
        token=token,
    )
    return set(lab.run("node1", script).stdout.splitlines())
