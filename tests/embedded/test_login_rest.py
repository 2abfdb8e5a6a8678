"""A profile over slurmrestd alone: the real one, by a tunnel to its port, with real tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.embedded.conftest import Live

from corral import api
from corral.api.operations.nodes import login
from corral.errors import Code, CorralError
from corral.hosts.quote import sh
from corral.hosts.target import SshTarget
from corral.spec.models import ClusterSpec

USER = "corral"
PORT = 6820
NAME = f"rest-{os.getpid()}"


@contextmanager
def reached_rest(cluster: Live) -> Iterator[int]:
    """The port here at which slurmrestd is reached: it listens on the controller's loopback."""

    async def target(session: object) -> SshTarget:
        return session.targets()[cluster.controller]  # type: ignore[attr-defined]

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = login(cluster.with_session(target), cluster.controller, ())
    tunnel = subprocess.Popen([words[0], "-N", "-L", f"{port}:127.0.0.1:{PORT}", *words[1:]])
    try:
        end = time.monotonic() + 60
        while True:
            with socket.socket() as near:
                if near.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < end
            time.sleep(0.2)
        yield port
    finally:
        tunnel.kill()
        tunnel.wait()


@pytest.fixture(scope="module")
def address(cluster: Live) -> Iterator[str]:
    """Where slurmrestd is reached from here."""
    with reached_rest(cluster) as port:
        yield f"http://127.0.0.1:{port}"


def token(live: Live, user: str = USER) -> str:
    made = live.run(live.controller, sh("scontrol token username={u} lifespan=900", u=user))
    assert made.ok, made.tail
    return made.stdout.strip()


@pytest.fixture(scope="module")
def lab(cluster: Live, address: str) -> Iterator[ClusterSpec]:
    done = asyncio.run(api.login_rest(USER, address, token(cluster), name=NAME))
    assert done.profile.cluster["name"] == cluster.spec.name
    assert done.notes[0].startswith("the token expires: 20")
    yield api.spec_of(NAME)
    api.logout(NAME)


def ran(lab: ClusterSpec, **fields: object) -> tuple[api.JobOutcome, list[str]]:
    notes: list[str] = []
    job = api.job_spec(fields)
    outcome = asyncio.run(api.run(lab, job, lambda event: notes.append(event.message)))
    assert isinstance(outcome, api.JobOutcome)
    return outcome, notes


def test_a_command_runs_on_each_rank_as_the_tokens_user(cluster: Live, lab: ClusterSpec) -> None:
    outcome, notes = ran(lab, command=["sh", "-c", "id -un"], nodes=2, workdir="/shared", time="5m")
    assert outcome.good, notes
    assert f"the output of job {outcome.id} is in /shared/slurm-{outcome.id}.out" in notes[-1]
    file = f"/shared/slurm-{outcome.id}.out"
    assert cluster.run(cluster.controller, sh("cat {f}", f=file)).stdout.split() == [USER, USER]
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.logs(lab, outcome.id, on_line=print))
    assert file in caught.value.message
    assert asyncio.run(api.job_state(lab, outcome.id)).id == outcome.id
    assert outcome.id in [job.id for job in asyncio.run(api.jobs(lab, ended=True))]


def test_a_batch_script_of_this_machine(cluster: Live, lab: ClusterSpec, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH --job-name=other\nsrun echo $1 $LR; exit 3\n")
    fields = {"script": str(script), "args": ["a b"], "env": {"LR": "0.1"}, "workdir": "/shared"}
    outcome, _ = ran(lab, **fields, name="mine")
    assert outcome.state.value == "FAILED"
    assert outcome.exit_code is not None
    assert outcome.exit_code.status == 3
    seen = cluster.run(cluster.controller, sh("cat /shared/slurm-{j}.out", j=outcome.id)).stdout
    assert "a b 0.1" in seen
    shown = cluster.run(cluster.controller, sh("sacct -nX -P -o JobName -j {j}", j=outcome.id))
    assert shown.stdout.strip() == "mine"


def test_an_array_runs_its_parts(cluster: Live, lab: ClusterSpec, tmp_path: Path) -> None:
    script = tmp_path / "part.sh"
    script.write_text("#!/bin/sh\n#SBATCH --array=0-8:4%2\necho part $SLURM_ARRAY_TASK_ID\n")
    fields, _ = api.script_fields({"script": str(script), "workdir": "/shared"})
    outcome, notes = ran(lab, **fields)
    assert outcome.good, notes
    shown = sh("cat /shared/slurm-{j}_*.out; rm /shared/slurm-{j}_*.out", j=outcome.id)
    parts = cluster.run(cluster.controller, shown).stdout.splitlines()
    assert parts == ["part 0", "part 4", "part 8"]


def test_pending_jobs_are_listed_and_cancelled_and_the_nodes_shown(lab: ClusterSpec) -> None:
    job = api.job_spec({"command": ["sleep", "300"], "begin": "now+1hour", "workdir": "/tmp"})
    handle = asyncio.run(api.submit(lab, job))
    (listed,) = [j for j in asyncio.run(api.jobs(lab)) if j.id == handle.id]
    assert (listed.user, listed.state, listed.reason) == (USER, "PENDING", "BeginTime")
    outcome = asyncio.run(api.cancel(lab, (handle.id,)))[handle.id]
    assert isinstance(outcome, api.JobOutcome), outcome
    assert outcome.state.value == "CANCELLED"
    unknown = asyncio.run(api.cancel(lab, (987654,)))[987654]
    assert isinstance(unknown, CorralError)
    assert unknown.code is Code.NOT_FOUND
    status = asyncio.run(api.status(lab))
    assert {node.node for node in status.nodes} == {"node0", "node1", "node2"}
    assert all(node.usable for node in status.nodes)
    assert status.as_dict()["machines_checked"] is False


def signed(key: bytes, **claims: object) -> str:
    """A token as Slurm makes it, of another cluster's key."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    head = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    text = f"{head}.{part(json.dumps(claims).encode())}"
    return f"{text}.{part(hmac.digest(key, text.encode(), hashlib.sha256))}"


def test_tokens_that_do_not_do(cluster: Live, address: str) -> None:
    now = int(time.time())
    cases = (
        (signed(b"another cluster's", sun=USER, iat=now, exp=now + 900), "another cluster's"),
        (signed(b"x", sun=USER, iat=now - 900, exp=now - 600), "the token expired at"),
        (token(cluster, "root"), "the token is root's, not corral's"),
    )
    for text, message in cases:
        with pytest.raises(CorralError) as caught:
            asyncio.run(api.login_rest(USER, address, text, name=f"{NAME}-bad"))
        assert caught.value.code is Code.LOGIN_REFUSED, caught.value
        assert message in caught.value.message
        assert "scontrol token" in caught.value.hint
    assert f"{NAME}-bad" not in api.profiles()


def test_a_command_that_needs_ssh_is_refused(lab: ClusterSpec) -> None:
    with pytest.raises(CorralError, match="this needs ssh") as caught:
        asyncio.run(api.ssh_argv(lab, "node0"))
    assert caught.value.code is Code.FORBIDDEN
