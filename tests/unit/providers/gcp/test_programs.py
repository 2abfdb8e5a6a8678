"""Programs of the blueprint, run here with stand-ins for systemd and mounts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from corral.providers.gcp.blueprint.releases import script

SYSTEMCTL = """\
echo "systemctl $*" >>"$ROOT/calls"
[ "$1" != start ] || touch "$ROOT/mounted"
"""
FAKES = {
    "systemctl": SYSTEMCTL,
    "umount": 'echo "umount $*" >>"$ROOT/calls"\nrm "$ROOT/mounted"\n',
    # The SSD has a file system, and the bucket one while it is mounted.
    "mountpoint": 'case "$2" in /gcs) [ -e "$ROOT/mounted" ] ;; *) [ -d "$2" ] ;; esac\n',
}


class Node:
    """A folder that stands for a node's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("etc/systemd/system", "etc/google-cloud-ops-agent", "bin"):
            (root / name).mkdir(parents=True)
        for name, text in FAKES.items():
            (root / "bin" / name).write_text(f"#!/bin/sh\n{text}")
            (root / "bin" / name).chmod(0o755)

    def run(self, name: str, **values: str) -> subprocess.CompletedProcess[str]:
        text = script(name, **values)
        for folder in ("/etc/", "/mnt/"):
            text = text.replace(folder, f"{self.root}{folder}")
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-c", text],
            env={"PATH": path, "ROOT": str(self.root)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def calls(self) -> list[str]:
        calls = (self.root / "calls").read_text().splitlines()
        (self.root / "calls").unlink()
        return calls


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_bucket_is_mounted_again_with_its_cache(node: Node) -> None:
    (node.root / "mnt/localssd").mkdir(parents=True)
    (node.root / "etc/fstab").write_text(
        "x /home nfs defaults 0 0\nmy-data   /gcs   gcsfuse a 0 0\n"
    )
    (node.root / "mounted").touch()  # by slurm-gcp, without a cache
    for calls in (["umount /gcs"], ["umount /gcs"]):  # the second boot is as the first one
        done = node.run("node-bucket-cache.sh", MOUNT="/gcs", NUMBER="0")
        assert done.returncode == 0, done.stderr
        unit = "corral-bucket-0.service"
        assert node.calls() == [
            "systemctl daemon-reload",
            f"systemctl stop {unit}",
            *calls,
            f"systemctl start {unit}",
        ]
    text = (node.root / "etc/systemd/system" / unit).read_text()
    assert f"{node.root}/etc/corral-bucket-0.yaml my-data /gcs\n" in text
    config = YAML(typ="safe").load((node.root / "etc/corral-bucket-0.yaml").read_text())
    assert config["cache-dir"] == f"{node.root}/mnt/localssd/corral-bucket-0"
    assert Path(config["cache-dir"]).is_dir()
    assert config["file-system"]["dir-mode"] == "777"


@pytest.mark.parametrize(
    ("fstab", "reason"),
    [
        ("my-data /other gcsfuse a 0 0\n", "no bucket is mounted on /gcs"),
        ("my-data /gcs gcsfuse a 0 0\n", "/mnt/localssd is not a file system"),
    ],
)
def test_a_cache_without_a_bucket_or_an_ssd_fails(node: Node, fstab: str, reason: str) -> None:
    (node.root / "etc/fstab").write_text(fstab)
    done = node.run("node-bucket-cache.sh", MOUNT="/gcs", NUMBER="0")
    assert done.returncode == 1
    assert reason in done.stderr
    assert not (node.root / "calls").exists()


def test_the_agent_reads_dcgm_once(node: Node) -> None:
    config = node.root / "etc/google-cloud-ops-agent/config.yaml"
    config.write_text("logging:\n  receivers: {}\n")
    for _ in range(2):
        assert node.run("node-ops-agent.sh").returncode == 0
    read = YAML(typ="safe").load(config.read_text())
    assert read["metrics"]["service"]["pipelines"]["dcgm"]["receivers"] == ["dcgm"]
    assert node.calls()[-1] == "systemctl restart google-cloud-ops-agent.service"
