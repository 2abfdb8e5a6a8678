"""``corral ui`` where sudo wants a password: asked once by the verb, used by the page."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.bare import PASSWORD
from tests.embedded.conftest import Live

from corral.apply.connection import Connection
from corral.hosts.quote import sh
from corral.state_dir import state_dir

pytestmark = pytest.mark.slow

# keeper: sudo with a password; free: without; thief: what a thief's machine would do with one.
SETUP = """
set -e
install -d -m 755 /etc/sudoers.d
for u in keeper free thief; do
  id $u >/dev/null 2>&1 || useradd -m -s /bin/bash $u
  printf '%s:%s\\n' $u "$1" | chpasswd
  install -d -m 700 -o $u -g $u /home/$u/.ssh
  install -m 600 -o $u -g $u /root/.ssh/authorized_keys /home/$u/.ssh/authorized_keys
done
printf '%s\\n' 'keeper ALL=(ALL:ALL) ALL' 'free ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/ui-sudo
cat > /usr/local/bin/sudo <<'END'
#!/bin/sh
[ "$(id -un)" = thief ] || exec /usr/bin/sudo "$@"
cat >> ~/got
echo 'sudo: a password is required' >&2
exit 1
END
chmod 755 /usr/local/bin/sudo
"""
LEAVE = """
for u in keeper free thief; do
  pkill -KILL -u $u; userdel -rf $u 2>/dev/null
done
rm -f /etc/sudoers.d/ui-sudo /usr/local/bin/sudo
"""
FILE = """\
corral: v1
name: {name}
groups:
  - name: lead
    provider: ssh
    nodes: node0
    addresses: "{a}"
    ssh: {{user: {lead}, key: "{key}"}}
  - name: rest
    provider: ssh
    nodes: node[1-2]
    addresses: "{b},{c}"
    ssh: {{user: {rest}, key: "{key}"}}
controller: node0
partitions: [{{name: main, groups: [lead, rest], default: true}}]
"""


@dataclass(frozen=True)
class There:
    """The shared cluster, reached as machines of somebody's own."""

    live: Live
    addresses: tuple[str, ...]
    key: Path
    folder: Path

    def text(self, lead: str, rest: str) -> str:
        a, b, c = self.addresses
        name = f"ui-sudo-{os.getpid()}"
        return FILE.format(name=name, a=a, b=b, c=c, lead=lead, rest=rest, key=self.key)

    def argv(self, lead: str, rest: str, *more: str) -> list[str]:
        file = self.folder / f"{lead}-{rest}.yaml"
        file.write_text(self.text(lead, rest))
        return [sys.executable, "-m", "corral", "ui", str(file), *more]


@pytest.fixture(scope="module")
def there(cluster: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[There]:
    async def reached(session: Connection) -> list[Any]:
        return [*session.targets().values()]

    targets = cluster.with_session(reached)
    nodes = ("node0", "node1", "node2")
    for node in nodes:
        done = cluster.run(node, sh("sh -s -- {p}", p=PASSWORD), stdin=SETUP.encode())
        assert done.ok, done.tail
    folder = tmp_path_factory.mktemp("ui")
    yield There(cluster, tuple(t.address for t in targets), targets[0].key, folder)
    for node in nodes:
        cluster.run(node, sh("sh -s"), stdin=LEAVE.encode())


class Page:
    """A browser without a screen, logged in by the code."""

    def __init__(self, announcement: str) -> None:
        url, code = (
            re.search(p, announcement) for p in (r"http://[0-9.:]+/", r"\b(\w{6}-){2}\w{6}\b")
        )
        assert url and code, announcement
        self.url, self.csrf = url[0], ""
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )
        self.csrf = self.ask("login/code", {"code": code[0]})["csrf"]

    def ask(self, path: str, body: object = None) -> Any:
        with self.open(path, body) as reply:
            return json.loads(reply.read())

    def open(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "X-CSRF-Token": self.csrf}
        request = urllib.request.Request(f"{self.url}api/{path}", data, headers)  # noqa: S310
        return self.opener.open(request, timeout=120)

    def work(self, what: str, body: object) -> dict[str, Any]:
        """Begin it and wait until it is over."""
        self.ask(f"corral/{what}", body)
        until = time.monotonic() + 240
        while (state := self.ask("corral/work"))["running"]:
            assert time.monotonic() < until, state
            time.sleep(0.5)
        return state


def ended(process: int) -> None:
    """End corral ui, which ends its server; the hard way where it takes long."""
    os.kill(process, signal.SIGINT)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if os.waitpid(process, os.WNOHANG)[0]:
            return
        time.sleep(0.1)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


@contextmanager
def typed(argv: list[str], answer: str) -> Iterator[str]:
    """corral ui on its own terminal, where its question is answered; what it showed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)  # noqa: S606  # no shell is wanted
    try:
        shown, answered, until = "", False, time.monotonic() + 120
        while "Ctrl-C" not in shown:
            assert time.monotonic() < until, shown
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 4096).decode()
            if not answered and "nodes: " in shown:
                os.write(terminal, answer.encode())
                answered = True
        yield re.sub(r"\x1b\[[0-9;]*m", "", shown)
    finally:
        ended(pid)
        os.close(terminal)


@contextmanager
def alone(argv: list[str], words: Path, **env: str) -> Iterator[str]:
    """corral ui without a terminal; its JSON line. Its other output goes to a file."""
    with words.open("w") as err:
        process = subprocess.Popen(
            argv,
            env=os.environ | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
        assert process.stdout is not None
        try:
            yield process.stdout.readline()  # ends with the verb, which gives up on its own
        finally:
            if process.poll() is None:
                ended(process.pid)
            process.stdout.close()


def seen_in_processes(secret: bytes) -> list[str]:
    """Processes with it in their arguments or environment."""
    leaks: list[str] = []
    for file in (*Path("/proc").glob("[0-9]*/environ"), *Path("/proc").glob("[0-9]*/cmdline")):
        try:
            if secret in file.read_bytes():
                leaks.append(str(file))
        except OSError:
            continue
    return leaks


def test_asked_once_and_the_page_works_by_it(there: There) -> None:
    text = there.text("keeper", "keeper")
    with typed(there.argv("keeper", "keeper"), f"{PASSWORD}\n") as shown:
        assert shown.count("sudo password of keeper") == 1
        assert PASSWORD not in shown
        page = Page(shown)
        diagnosed = page.work("doctor", {})
        assert diagnosed["error"] is None
        assert "findings" in diagnosed["result"]
        planned = page.work("plan", {"text": text})
        assert planned["error"] is None
        assert planned["result"]["stages"]
        job = page.ask("jobs", {"script": "#!/bin/sh\necho forty-two\n", "workdir": "/shared"})
        with page.open(f"jobs/{job['id']}/log") as log:
            until = time.monotonic() + 120
            # It goes on for as long as somebody looks; a line keeps it alive each 15 s.
            while b"forty-two" not in (line := log.readline()):
                assert line, "the log ended"
                assert time.monotonic() < until, line
        assert not seen_in_processes(PASSWORD.encode())
        kept = [f for f in state_dir().rglob("*") if f.is_file()]
        assert kept
        assert not [f for f in kept if PASSWORD.encode() in f.read_bytes()]


def test_a_stolen_session_does_not_get_the_password(there: There) -> None:
    """A plan may name any machine: the thief's, under a name of the cluster's or a new one."""
    got = sh("cat ~thief/got && rm -f ~thief/got")
    with typed(there.argv("keeper", "keeper"), f"{PASSWORD}\n") as shown:
        page = Page(shown)
        planned = page.work("plan", {"text": there.text("keeper", "thief")})
    for node in ("node1", "node2"):
        taken = there.live.run(node, got)
        assert taken.ok, "the thief's sudo was run"
        assert PASSWORD not in taken.stdout, node
    error = json.dumps(planned["error"])
    assert "failed on 2 nodes (node[1-2])" in error
    assert "sudo: a password is required" in error
    assert "that its file had then" in error


def test_the_pages_error_when_no_password_was_given(there: There, tmp_path: Path) -> None:
    words, secret = tmp_path / "words", tmp_path / "pw"
    argv = there.argv("free", "keeper", "--json")
    with alone(argv, words) as shown:
        assert "node[1-2]: keeper may not use sudo without a password" in words.read_text()
        error = json.dumps(
            Page(shown).work("plan", {"text": there.text("free", "keeper")})["error"]
        )
        assert "failed on 2 nodes (node[1-2])" in error
        assert "sudo: a password is required" in error
        assert "CORRAL_SUDO_PASSWORD_FILE" in error
    secret.write_text(f"{PASSWORD}\n")
    with alone(argv, words, CORRAL_SUDO_PASSWORD_FILE=str(secret)) as shown:
        secret.unlink()  # read as it started
        planned = Page(shown).work("plan", {"text": there.text("free", "keeper")})
        assert planned["error"] is None
        assert planned["result"]["stages"]


def test_a_controller_that_wants_one_and_nobody_to_ask(there: There) -> None:
    done = subprocess.run(
        there.argv("keeper", "keeper", "--json"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 3
    assert "CORRAL_SUDO_PASSWORD_FILE" in done.stdout


def test_nobody_is_asked_where_sudo_wants_nothing(there: There) -> None:
    with typed(there.argv("free", "free"), "never\n") as shown:
        assert "password" not in shown
        assert Page(shown).work("doctor", {})["error"] is None
