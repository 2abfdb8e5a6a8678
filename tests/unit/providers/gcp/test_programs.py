"""Programs of the blueprint, run here with stand-ins for systemd and mounts."""

from __future__ import annotations

import hashlib
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
        for folder in ("/etc/", "/mnt/", "/opt/", "/usr/local/"):
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


def test_prologs_are_linked_where_they_belong_and_a_wrong_digest_ends_it(node: Node) -> None:
    (node.root / "opt").mkdir()
    curl = """#!/bin/sh
for url; do [ "$before" = -o ] && to=$url; before=$url; done
printf %s "${url##*/}" >"$to"
"""
    (node.root / "bin/curl").write_text(curl)
    (node.root / "bin/curl").chmod(0o755)
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a", "b")}
    scripts = f"both:a:{digests['a']}:prolog,epilog after:b:{digests['b']}:epilog"
    done = node.run("controller-prologs.sh", PARTITION="p", COMMIT="c", SCRIPTS=scripts)
    assert done.returncode == 0, done.stderr
    slurm = node.root / "opt/apps/adm/slurm"
    links = {
        when: sorted(p.name for p in (slurm / f"partition-p-{when}_slurmd.d").iterdir())
        for when in ("prolog", "epilog")
    }
    assert links == {
        "prolog": ["both.prolog_slurmd"],
        "epilog": ["after.epilog_slurmd", "both.epilog_slurmd"],
    }
    assert (slurm / "partition-p-epilog_slurmd.d/after.epilog_slurmd").read_text() == "b"
    wrong = f"other:a:{digests['b']}:prolog"
    done = node.run("controller-prologs.sh", PARTITION="p", COMMIT="c", SCRIPTS=wrong)
    assert done.returncode != 0
    assert not (slurm / "scripts/other").exists()


DOCKER = """#!/bin/sh
echo "docker $*" >>"$ROOT/calls"
mkdir -p "$ROOT/usr/local/gib/scripts"
echo x >"$ROOT/usr/local/gib/scripts/set_nccl_env.sh"
chmod 600 "$ROOT/usr/local/gib/scripts/set_nccl_env.sh"
[ ! -e "$ROOT/cut" ]
"""


def test_an_interrupted_installation_of_gib_is_done_again(node: Node) -> None:
    """The plugin stayed unreadable for users."""
    for name, text in (("docker", DOCKER), ("gcloud", "#!/bin/sh\n")):
        (node.root / "bin" / name).write_text(text)
        (node.root / "bin" / name).chmod(0o755)
    environment = node.root / "usr/local/gib/scripts/set_nccl_env.sh"
    (node.root / "cut").touch()
    assert node.run("node-gib-arm.sh", GIB_IMAGE="gib:v1").returncode != 0
    assert environment.exists()
    (node.root / "cut").unlink()
    left = environment.parent / "left"
    left.touch()
    assert node.run("node-gib-arm.sh", GIB_IMAGE="gib:v1").returncode == 0
    assert environment.stat().st_mode & 0o777 == 0o644
    assert not left.exists()
    assert len(node.calls()) == 2
    assert node.run("node-gib-arm.sh", GIB_IMAGE="gib:v1").returncode == 0
    assert not (node.root / "calls").exists()
    assert node.run("node-gib-arm.sh", GIB_IMAGE="gib:v2").returncode == 0
    assert "gib:v2 install --install-nccl" in node.calls()[0]


def test_login_shells_get_the_plugins_environment(node: Node) -> None:
    (node.root / "etc/profile.d").mkdir()
    assert node.run("node-gib.sh").returncode == 0
    text = (node.root / "etc/profile.d/nccl-gib.sh").read_text()
    folder = node.root / "usr/local/gib"
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts/set_nccl_env.sh").write_text("export NCCL_NET=gIB\n")
    script = text + '\necho "$NCCL_NET $LD_LIBRARY_PATH"\n'
    for shell, printed in (("bash", f"gIB {folder}/lib64:/mine"), ("sh", " /mine")):
        env = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": "/mine"}
        done = subprocess.run(
            [shell, "-c", script], env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout.rstrip("\n") == printed
