"""A profile of a cluster with two login nodes: the machine of the first one is lost."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.test_backup_controller import WITHIN_S, until, with_backup
from tests.embedded.test_forward import Laptop

from corral import api
from corral.apply.session import Session
from corral.hosts.quote import sh
from corral.hosts.sshkeys import make_key
from corral.spec.models import ClusterSpec
from corral.spec.sections.people import User

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("alice")


@pytest.fixture(scope="module")
def live(fresh_cluster: Callable[[ClusterSpec], Live], home: Path) -> Live:
    public = make_key(home / "id_lab", "alice")
    users = (User(name="corral", uid=2000), User(name="alice", uid=2001, keys=(public,)))
    return fresh_cluster(with_backup(named(f"logins-{os.getpid()}", users=users)))


def addresses(live: Live) -> dict[str, str]:
    async def asked(session: Session) -> dict[str, str]:
        return session.addresses()

    return live.with_session(asked)


def test_the_next_login_node_is_used_where_the_first_is_lost(live: Live, home: Path) -> None:
    alice, at = Laptop(home), addresses(live)
    identity = ("-i", str(home / "id_lab"))
    alice.good("login", f"alice@{at['node0']}", "--name", "lab", *identity, "--accept-host-key")
    client = home / "alice.json"
    client.write_text(asyncio.run(api.export_client(live.spec, user="alice")))
    shown = json.loads(client.read_text())
    assert [each["node"] for each in shown["login_nodes"]] == ["node1"]
    alice.good("login", "--client", str(client), "--name", "byfile", *identity)
    for name in ("lab", "byfile"):
        folder = home / "state" / "profiles" / name
        profile = json.loads((folder / "profile.json").read_text())
        (other,) = profile["login_nodes"]
        assert (profile["node"], other["node"], other["host"]) == ("node0", "node1", at["node1"])
        pinned = (folder / "known_hosts").read_text()
        assert f"_jump.{at['node1']} " in pinned
        assert "no answer" not in alice.corral("jobs", "-c", name).stderr

    config = home / "config"
    alice.good("ssh", "--config", "-c", "lab", "-o", str(config))
    plain = ("ssh", "-F", str(config), "-o", "BatchMode=yes", "lab", "hostname")
    assert alice.done(*plain).stdout.strip() == "node0"

    container = f"corral-{live.spec.name}-node0"
    # Users are in the state of slurmctld once it has written it.
    assert live.run("node1", sh("touch /shared/slurmctld/now; sleep 6")).ok
    subprocess.run(["podman", "kill", container], check=True, capture_output=True, timeout=60)
    asked = sh("timeout 20 sinfo -h")
    until(lambda: live.run("node1", asked).ok, 2 * WITHIN_S, lambda: "no take-over")
    for name in ("lab", "byfile"):
        done = alice.corral("run", "-c", name, "-w", "node2", "--", "hostname", "-s")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "node2" in done.stdout
        line = f"node0: no answer; by node1 ({at['node1']}) instead"
        assert done.stderr.count(line) == 1
    assert alice.good("ssh", "-c", "lab", "node1", "id", "-un").strip() == "alice"

    assert alice.done(*plain).stdout.strip() == "node1"
    assert alice.done(*plain[:-2], "node2.lab", "hostname").stdout.strip() == "node2"

    changed = home / "state" / "profiles" / "byfile" / "known_hosts"
    text = changed.read_text()
    changed.write_text("".join(x for x in text.splitlines(True) if "node1" not in x))
    refused = alice.corral("jobs", "-c", "byfile")
    assert refused.returncode != 0, "a login node without its pinned key is not taken"

    asyncio.run(api.up(live.spec))
    (home / "state" / "profiles" / "lab" / "asked-controller").unlink()
    done = alice.corral("jobs", "-c", "lab")
    assert (done.returncode, "no answer" in done.stderr) == (0, False)
