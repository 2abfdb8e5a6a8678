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
from tests.embedded.mega.google import Server, images

from corral import api
from corral.providers.gcp.image import Image, Images, image_of
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
            # What needs nothing installed starts in half the time without the folders for it.
            self.simulated(name, "" if name == "gcluster" else "-S ")
        for name, value in {
            worlds.VARIABLE: str(folder),
            "CORRAL_TEST_MEGA_RELEASE": release,
            "CORRAL_STATE_DIR": str(folder / "state"),
            "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": server.url,
            "GOOGLE_LUSTRE_CUSTOM_ENDPOINT": server.url_of("lustre"),
            "GOOGLE_FILESTORE_CUSTOM_ENDPOINT": server.url_of("file"),
            "GOOGLE_STORAGE_CUSTOM_ENDPOINT": server.url_of("storage"),
            "PYTHONPATH": f"{HERE / 'src'}:{HERE}",
            "PATH": f"{programs}:{os.environ['PATH']}",
        }.items():
            patch.setenv(name, value)
        patch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)

    def simulated(self, name: str, options: str = "") -> None:
        python = f"{shlex.quote(sys.executable)} {options}"
        self.program(name, f'exec {python}-m tests.embedded.mega.{name} "$@"\n')

    def real(self) -> None:
        """Put the real gcluster of this release in place of the simulated one."""
        variable = "CORRAL_TEST_GCLUSTER_" + self.release.replace(".", "_").upper()
        program = os.environ.get(variable, "")
        if not program:
            pytest.skip(f"{variable} names no gcluster")
        for name in ("terraform", "packer"):  # they read YAML then
            self.simulated(name)
        # Google is asked nothing: no validators, and machine types are given.
        mock = '{"gpus": {"g": {"count": 8, "type": "nvidia-h100-mega-80gb"}}}'
        self.program(
            "gcluster",
            f"export GHPC_MOCK_MACHINE_CONFIG={shlex.quote(mock)}\n"
            f'case $1 in create | deploy) exec {shlex.quote(program)} "$@" -l IGNORE ;; esac\n'
            f'exec {shlex.quote(program)} "$@"\n',
        )

    def without_machines(self) -> None:
        """Have ``ssh`` run scripts on this machine, where Slurm seems to answer."""
        self.program(
            "ssh",
            "for word; do\n"
            "  case $word in -N) logs_in=1 ;; -O) exit 0 ;; ControlPath=*) at=${word#*=} ;; esac\n"
            "  last=$word\n"
            "done\n"
            # The path is quoted, as in ssh's own file.
            '[ -z "$logs_in" ] || eval "exec touch $at"\n'
            'exec sh -c "$last"\n',
        )
        self.program(
            "sudo",
            'while :; do case $1 in -*) shift ;; *) break ;; esac; done\nexec "$@"\n',
        )
        self.program("scontrol", 'echo "Slurmctld(primary) at mega-controller is UP"\n')
        self.program("srun", "exit 0\n")

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


async def no_image() -> list[Image]:
    return []


def images_of(mega: Mega) -> Images:
    """What the simulated Google lists of the cluster's family."""

    async def listed() -> list[Image]:
        world = worlds.read(mega.folder)
        return [image_of(image) for image in images(world, "family=slurm-mega")["items"]]

    return listed
