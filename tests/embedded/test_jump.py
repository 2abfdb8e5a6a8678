"""A jump host that is the only path to two machines: keys, pins, one login for all, its faults."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.embedded.bare import PASSWORD, Bare, container, own_state
from tests.embedded.conftest import needs

from corral.spec.load import load_text

pytestmark = pytest.mark.slow

FILE = """\
corral: v1
name: behind
groups:
  - name: a
    provider: ssh
    nodes: in[0-1]
    addresses: {addresses}
    ssh: {{user: admin, jump: "{jump}"}}
partitions: [{{name: main, groups: [a]}}]
"""


@dataclass
class Behind:
    """The jump host, two machines behind it, and what a person here types."""

    gate: Bare
    inner: tuple[Bare, Bare]
    folder: Path
    runtime: Path  # where its shared connections are: no other cluster's may be ended with them

    def file(self, jump: str = "") -> Path:
        path = self.folder / "behind.yaml"
        jump = jump or f"admin@{self.gate.address}"
        addresses = ",".join(m.address for m in self.inner)
        path.write_text(FILE.format(addresses=addresses, jump=jump))
        return path

    def corral(self, *words: str, passwords: bool = True) -> subprocess.CompletedProcess[str]:
        secret = self.folder / "secret"
        secret.write_text(f"{PASSWORD}\n")
        kinds = ("SUDO", "LOGIN", "JUMP") if passwords else ("SUDO",)
        env = os.environ | {f"CORRAL_{k}_PASSWORD_FILE": str(secret) for k in kinds}
        env["XDG_RUNTIME_DIR"] = str(self.runtime)
        argv = [sys.executable, "-m", "corral", *words]
        stdin = subprocess.DEVNULL
        return subprocess.run(
            argv, env=env, capture_output=True, text=True, stdin=stdin, timeout=180, check=False
        )

    def names(self, jump: str = "") -> subprocess.CompletedProcess[str]:
        return self.corral("exec", "-c", str(self.file(jump)), "--json", "--", "hostname")

    def alone(self) -> None:
        """End all shared connections that lead to these machines."""
        for path in (self.runtime / f"corral-ssh-{os.getuid()}").glob("*"):
            subprocess.run(["ssh", "-O", "exit", "-S", str(path), "x"], capture_output=True)

    def logins(self) -> int:
        count = self.gate.root("journalctl -o cat -u ssh | grep -c 'Accepted publickey for admin'")
        return int(count)


@contextmanager
def hidden_network(name: str) -> Iterator[str]:
    """A network between containers in which this machine has no address."""
    made = subprocess.run(
        ["podman", "network", "create", "--internal", name], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    try:
        yield name
    finally:
        subprocess.run(["podman", "network", "rm", "-f", name], capture_output=True)


def leave(name: str) -> None:
    inspection = subprocess.run(
        ["podman", "network", "inspect", name], capture_output=True, text=True, check=True
    )
    bridge = json.loads(inspection.stdout)[0]["network_interface"]
    subprocess.run(["ip", "addr", "flush", "dev", bridge], check=True)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    reason = needs()
    if reason:
        pytest.skip(reason)
    inside = f"corral-in-{os.getpid()}"
    with ExitStack() as stack:
        stack.enter_context(own_state())
        stack.enter_context(hidden_network(inside))
        gate = stack.enter_context(container("gate", inside, "podman"))
        nodes = [stack.enter_context(container(f"in{i}", inside)) for i in (0, 1)]
        leave(inside)
        runtime = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cj")))
        behind = Behind(gate, (nodes[0], nodes[1]), tmp_path_factory.mktemp("behind"), runtime)
        yield behind
        behind.alone()


def test_there_is_no_other_way(there: Behind) -> None:
    for machine in there.inner:
        assert b"SSH-" not in banner(machine.address)
    assert b"SSH-" in banner(there.gate.address)


def banner(address: str) -> bytes:
    """What answers first; a machine of the internet that has the address is not meant."""
    try:
        with socket.create_connection((address, 22), 3) as connection:
            return connection.recv(64)
    except OSError:
        return b""


def test_keys_from_nothing_through_a_host_that_has_none(there: Behind) -> None:
    refused = there.corral("keys", "install", str(there.file()), passwords=False)
    assert refused.returncode == 3
    assert f"jump host {there.gate.address}: admin may not log in" in refused.stderr
    assert "CORRAL_JUMP_PASSWORD_FILE" in refused.stderr
    done = there.corral("keys", "install", str(there.file()))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("installed by password") == 2
    assert f"jump host {there.gate.address}: installed by password" in done.stderr
    assert there.gate.root("wc -l < ~admin/.ssh/authorized_keys").strip() == "1"
    again = there.corral("keys", "install", str(there.file()), passwords=False)
    assert again.stdout.count("was there already") == 2, again.stderr


@pytest.fixture
def keyed(there: Behind) -> Behind:
    done = there.corral("keys", "install", str(there.file()))
    assert done.returncode == 0, done.stderr
    return there


def hosts_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return [node["stdout"].strip() for node in json.loads(done.stdout)["nodes"]]


def test_one_login_at_the_jump_host_for_all_nodes(keyed: Behind) -> None:
    keyed.alone()
    before = keyed.logins()
    assert hosts_of(keyed.names()) == ["in0", "in1"]
    assert keyed.logins() == before + 1
    assert hosts_of(keyed.names()) == ["in0", "in1"]
    assert keyed.logins() == before + 1


def test_an_old_connection_to_a_jump_host_that_was_switched_off_since(keyed: Behind) -> None:
    assert hosts_of(keyed.names()) == ["in0", "in1"]
    keyed.gate.reboot()
    assert hosts_of(keyed.names()) == ["in0", "in1"]


def test_its_host_key_is_pinned(keyed: Behind) -> None:
    key = "/etc/ssh/ssh_host_ed25519_key"
    gate = keyed.gate
    gate.root(
        f"mv {key} {key}.was; mv {key}.pub {key}.pub.was; "
        f"ssh-keygen -q -t ed25519 -N '' -f {key}; systemctl restart ssh"
    )
    keyed.alone()
    try:
        done = keyed.names()
        assert done.returncode == 3
        assert f"jump host {gate.address}: the host key changed" in done.stderr + done.stdout
        assert f"corral keys forget {gate.address}" in done.stderr + done.stdout
        gone = keyed.corral("keys", "forget", gate.address, "-c", str(keyed.file()))
        assert f"{gate.address}: SHA256:" in gone.stdout, gone.stderr
        assert hosts_of(keyed.names()) == ["in0", "in1"]
    finally:
        gate.root(f"mv {key}.was {key}; mv {key}.pub.was {key}.pub; systemctl restart ssh")
        keyed.alone()
        keyed.corral("keys", "forget", gate.address, "-c", str(keyed.file()))


@pytest.mark.parametrize(
    ("where", "damage", "undo", "words"),
    [
        (
            "gate",
            "echo 'AllowTcpForwarding no' > /etc/ssh/sshd_config.d/00-t.conf; "
            "systemctl restart ssh",
            "rm /etc/ssh/sshd_config.d/00-t.conf; systemctl restart ssh",
            "jump host does not forward",
        ),
        (
            "gate",
            "systemctl stop ssh.socket ssh; :",
            "systemctl reset-failed ssh; systemctl start ssh",
            "jump host GATE: nothing listens at GATE port 22",
        ),
        (
            "in1",
            "systemctl stop ssh.socket ssh; :",
            "systemctl reset-failed ssh; systemctl start ssh",
            "nothing listens at IN1",
        ),
    ],
)
def test_faults_are_named(keyed: Behind, where: str, damage: str, undo: str, words: str) -> None:
    machine = keyed.gate if where == "gate" else keyed.inner[1]
    machine.root(damage)
    keyed.alone()
    try:
        done = keyed.names()
    finally:
        machine.root(undo)
        keyed.alone()
    assert done.returncode == 3, done.stdout
    words = words.replace("GATE", keyed.gate.address).replace("IN1", keyed.inner[1].address)
    failed = [n for n in json.loads(done.stdout)["nodes"] if n["error"]]
    assert all(words in n["error"]["message"] for n in failed), failed
    assert [n["node"] for n in failed] == (["in1"] if where == "in1" else ["in0", "in1"])


def test_two_jump_hosts_in_a_row(keyed: Behind) -> None:
    """The second one is a machine behind the first, with a key of the cluster's as a node has."""
    jumps = f"admin@{keyed.gate.address},admin@{keyed.inner[0].address}"
    done = keyed.corral("keys", "install", str(keyed.file(jumps)))
    assert done.returncode == 0, done.stderr
    keyed.alone()
    assert hosts_of(keyed.names(jumps)) == ["in0", "in1"]


def test_a_person_logs_in_through_the_jump_host(keyed: Behind) -> None:
    done = keyed.corral("ssh", "-c", str(keyed.file()), "in1", "hostname")
    assert (done.returncode, done.stdout) == (0, "in1\n"), done.stderr


def test_init_through_the_jump_host(keyed: Behind, tmp_path: Path) -> None:
    out = tmp_path / "found.yaml"
    jump = f"admin@{keyed.gate.address}"
    addresses = [m.address for m in keyed.inner]
    done = keyed.corral(
        *("init", "--from", *addresses, "--user", "admin", "--jump", jump),
        *("--keys", "--name", "found", "-o", str(out)),
    )
    assert done.returncode == 0, done.stderr
    loaded = load_text(out.read_text(), str(out))
    assert loaded.findings == () and loaded.spec is not None
    assert loaded.spec.groups[0].ssh.jump == jump
    listed = keyed.corral("exec", "-c", str(out), "--json", "--", "hostname")
    assert hosts_of(listed) == ["in0", "in1"]
