"""Slurm-web 6.0 itself against slurmrestd as Corral sets it up: docs/guide/slurm-web.md.

Runs where CORRAL_TEST_SLURM_WEB names a git checkout of rackslab/Slurm-web. Its programs run in the
controller's network, with the guide's files; LDAP and RacksDB are replaced by stubs, the built page
is left out.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.slurm_web import STUBS, peer

from corral.hosts.quote import sh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

GUIDE = Path(__file__).parents[2] / "docs/guide/slurm-web.md"
MAIN = f"""{STUBS}\
from unittest.mock import MagicMock
sys.modules["rfl.authentication.ldap"] = MagicMock()
sys.modules["racksdb.version"].get_version = lambda: "0"
from slurmweb.exec.main import SlurmwebExecMain
SlurmwebExecMain.run(sys.argv[1:])
"""
pytestmark = pytest.mark.skipif(
    not os.environ.get("CORRAL_TEST_SLURM_WEB"),
    reason="CORRAL_TEST_SLURM_WEB names no checkout of Slurm-web",
)


def block(first: str) -> str:
    """The guide's file that begins with that comment."""
    match = re.search(rf"```ini\n{re.escape(first)}\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert match, first
    return match[1]


class Programs:
    """Slurm-web's programs in the controller's network."""

    def __init__(self, live: Live, folder: Path) -> None:
        self.live, self.folder = live, folder
        self.python, self.source = peer(Path(os.environ["CORRAL_TEST_SLURM_WEB"]))
        container = f"corral-{live.spec.name}-{live.controller}"
        words = ("podman", "inspect", "-f", "{{.State.Pid}}", container)
        pid = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
        self.inside = ("nsenter", "-t", pid, "-n")
        key = sh("base64 -w0 /var/spool/slurmctld/jwt_hs256.key")
        (folder / "slurmrestd.key").write_bytes(
            base64.b64decode(live.run(live.controller, key).stdout)
        )

    def conf(self, name: str, text: str) -> None:
        """A file of the guide, with this folder in place of /var/lib/slurm-web."""
        vendor = self.source / "conf/vendor"
        text = text.replace("cluster=lab", f"cluster={self.live.spec.name}")
        (self.folder / "jwt.key").write_bytes(b"0" * 32)
        more = f"\n[jwt]\nkey={self.folder}/jwt.key\n"
        if name == "agent":
            keyed = f"[slurmrestd]\njwt_key={self.folder}/slurmrestd.key\n"
            text = text.replace("[slurmrestd]\n", keyed)
            more += f"[policy]\ndefinition={vendor}/policy.yml\nvendor_roles={vendor}/policy.ini\n"
        else:
            more += "[ui]\nenabled=no\n"
        (self.folder / f"{name}.ini").write_text(text + more)

    def words(self, verb: str, name: str) -> list[str]:
        defs = self.source / f"conf/vendor/{name}.yml"
        conf = ("--conf-defs", str(defs), "--conf", str(self.folder / f"{name}.ini"))
        return [*self.inside, str(self.python), "-c", MAIN, verb, *conf]

    def checked(self) -> str:
        ran = subprocess.run(
            self.words("connect-check", "agent"), capture_output=True, text=True, timeout=60
        )
        return ran.stdout + ran.stderr

    @contextmanager
    def running(self, *names: str) -> Iterator[None]:
        servers: list[subprocess.Popen[bytes]] = []
        try:
            for name in names:
                with (self.folder / f"{name}.log").open("wb") as log:
                    servers.append(subprocess.Popen(self.words(name, name), stdout=log, stderr=log))
            yield
        finally:
            for server in servers:
                server.terminate()
                server.wait(20)

    def asked(self, path: str, token: str = "") -> tuple[int, str]:
        """Status and body of the gateway's answer; 0 while nobody listens."""
        header = ("-H", f"Authorization: Bearer {token}") if token else ()
        url = f"http://localhost:5011/api/{path}"
        words = ("curl", "-s", "-w", "\\n%{http_code}", *header, url)
        ran = subprocess.run([*self.inside, *words], capture_output=True, text=True)
        body, _, status = ran.stdout.rpartition("\n")
        return int(status or 0), body

    def get(self, path: str, token: str = "") -> Any:
        """What the gateway gives once it gives something."""
        until = time.monotonic() + 60
        while True:
            status, body = self.asked(path, token)
            if status == 200 and json.loads(body):
                return json.loads(body)
            if time.monotonic() > until:
                logs = [file.read_text() for file in self.folder.glob("*.log")]
                pytest.fail(f"{path}: {status} {body}\n" + "\n".join(logs))
            time.sleep(0.5)


def test_the_guides_files_show_the_cluster(cluster: Live, tmp_path: Path) -> None:
    programs = Programs(cluster, tmp_path)
    programs.conf("agent", block("# /etc/slurm-web/agent.ini"))
    programs.conf("gateway", block("# /etc/slurm-web/gateway.ini"))
    assert f"connection successful! (cluster: {cluster.spec.name}" in programs.checked()
    submit = sh("cd /tmp && sbatch --parsable --uid=corral -o /dev/null --wrap 'sleep 60'")
    job = int(cluster.run(cluster.controller, submit).stdout)
    try:
        with programs.running("agent", "gateway"):
            token = programs.get("anonymous")["token"]
            (known,) = programs.get("clusters", token)
            assert known["name"] == cluster.spec.name
            nodes = programs.get(f"agents/{cluster.spec.name}/nodes", token)
            assert {node["name"] for node in nodes} == set(cluster.facts)
            jobs = programs.get(f"agents/{cluster.spec.name}/jobs", token)
            assert job in {each["job_id"] for each in jobs}
    finally:
        cluster.run(cluster.controller, sh("scancel {job}", job=job))


def test_a_token_without_rights_is_enough(cluster: Live, tmp_path: Path) -> None:
    programs = Programs(cluster, tmp_path)
    made = cluster.run(
        cluster.controller, sh("scontrol token username=corral lifespan=600 | cut -d= -f2")
    )
    text = block("# /etc/slurm-web/agent.ini, with a token")
    text = text.replace("alice", "corral").replace("TOKEN", made.stdout.strip())
    programs.conf("agent", f"[service]\ncluster=lab\n{text}")
    (tmp_path / "slurmrestd.key").unlink()
    assert "connection successful!" in programs.checked()


def test_an_old_key_shows_nothing_and_connect_check_does_not_see_it(
    cluster: Live, tmp_path: Path
) -> None:
    """slurmrestd hands tokens on: connect-check's ping is answered whatever signed it."""
    programs = Programs(cluster, tmp_path)
    programs.conf("agent", block("# /etc/slurm-web/agent.ini"))
    programs.conf("gateway", block("# /etc/slurm-web/gateway.ini"))
    (tmp_path / "slurmrestd.key").write_bytes(b"1" * 32)
    assert "connection successful!" in programs.checked()
    with programs.running("agent", "gateway"):
        token = programs.get("anonymous")["token"]
        programs.get("clusters", token)
        status, body = programs.asked(f"agents/{cluster.spec.name}/nodes", token)
        print(status, body)
        assert status >= 400, body
