"""A project at the simulated Google: where the tests of A3 Mega begin."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.mega import world as worlds
from tests.embedded.mega.google import Server

from corral import api
from corral.spec.models import ClusterSpec

HERE = Path(__file__).parents[3]
FILE = """\
corral: v1
name: mega
controller: mega-controller
groups:
  - {{name: controller, provider: gcp, nodes: mega-controller, ssh: {ssh}}}
  - name: a3mega
    provider: gcp
    machine: a3-megagpu-8g
    nodes: mega-a3mega-[0-1]
    gpu: {{type: h100, count: 8}}
    ssh: {ssh}
partitions: [{{name: a3mega, groups: [a3mega], default: true}}]
gcp:
  project: my-project
  zone: us-central1-c
  state_bucket: my-terraform-state
  reservation: my-reservation
  toolkit: {release}
  storage: [{{mount: /shared, kind: {kind}}}]
{nccl}"""


class Mega:
    """A project at the simulated Google, and a cluster file."""

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, release: str, server: Server
    ) -> None:
        self.folder, self.release, self.server = folder, release, server
        worlds.create(folder)
        (folder / "calls").touch()
        programs = folder / "bin"
        programs.mkdir()
        for name in ("gcluster", "terraform", "packer", "gcloud"):
            line = f'exec {shlex.quote(sys.executable)} -m tests.embedded.mega.{name} "$@"\n'
            self.program(name, line)
        for name, value in {
            worlds.VARIABLE: str(folder),
            "CORRAL_TEST_MEGA_RELEASE": release,
            "CORRAL_STATE_DIR": str(folder / "state"),
            "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": server.url,
            "PYTHONPATH": str(HERE),
            "PATH": f"{programs}:{os.environ['PATH']}",
        }.items():
            patch.setenv(name, value)
        patch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)

    def real(self) -> None:
        """Put the real gcluster of this release in place of the simulated one."""
        variable = "CORRAL_TEST_GCLUSTER_" + self.release.replace(".", "_").upper()
        program = os.environ.get(variable, "")
        if not program:
            pytest.skip(f"{variable} names no gcluster")
        # Google is asked nothing: no validators, and machine types are given.
        mock = '{"gpus": {"g": {"count": 8, "type": "nvidia-h100-mega-80gb"}}}'
        self.program(
            "gcluster",
            f"export GHPC_MOCK_MACHINE_CONFIG={shlex.quote(mock)}\n"
            f'case $1 in create | deploy) exec {shlex.quote(program)} "$@" -l IGNORE ;; esac\n'
            f'exec {shlex.quote(program)} "$@"\n',
        )

    def spec(self, ssh: str = "{user: ops}", **nccl: str) -> ClusterSpec:
        path = self.folder / "mega.yaml"
        kind = "exascaler" if self.release == "v1.39.0" else "lustre"
        path.write_text(
            FILE.format(
                release=self.release,
                kind=kind,
                ssh=ssh,
                nccl="".join(f"  nccl_{name}: {path}\n" for name, path in nccl.items()),
            )
        )
        return api.load(path)

    def calls(self, program: str) -> list[str]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [
            line.removeprefix(f"{program} ") for line in lines if line.startswith(f"{program} ")
        ]

    def world(self) -> dict[str, object]:
        return worlds.read(self.folder)

    def change(self, **values: object) -> None:
        with worlds.changing(self.folder) as world:
            world.update(values)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    service = Server(tmp_path_factory.mktemp("google"))
    threading.Thread(target=service.serve_forever, daemon=True).start()
    yield service
    service.shutdown()


def mega_at(tmp_path: Path, patch: pytest.MonkeyPatch, release: str, server: Server) -> Mega:
    server.folder = tmp_path
    return Mega(tmp_path, patch, release, server)


@pytest.fixture
def mega(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> Mega:
    return mega_at(tmp_path, monkeypatch, "v1.95.0", server)


async def no_image(family: str) -> bool:
    return False
