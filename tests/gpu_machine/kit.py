"""Make a kit: all that ``tests.gpu_machine.rows`` needs on a machine with GPUs and no internet.

    .venv/bin/python -m tests.gpu_machine.kit KIT --enroot FOLDER --pyxis FILE --tools FOLDER

As root, on a machine with podman and an archive (as for the node image). KIT gets ``kit.tar.00``
and so on, of at most ``--piece`` MiB each, and ``SHA256SUMS``. The other machine's root is
the bundle's own node image with podman in it: one more layer.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from corral import api
from corral.hosts.quote import sh
from corral.providers.containers.machine import host_limits
from corral.spec.load import load_or_raise
from tests.gpu_machine.cluster import FILES, cluster_text

REPO = Path(__file__).parents[2]
TREE = ("tests/__init__.py", "tests/gpu_machine", "examples/train_gpt", "src/corral/checkpoint.py")
"""What of the checkout the other machine needs, besides the wheels in the bundle."""
PACKAGES = (
    *("podman", "crun", "runc", "conmon", "netavark", "aardvark-dns", "nftables", "iproute2"),
    *("openssh-client", "python3-venv", "zstd", "procps", "kmod"),
)
LAYER = sh(
    "set -e; export DEBIAN_FRONTEND=noninteractive; apt-get update -q; "
    "apt-get install -y -q --no-install-recommends {packages}; apt-get clean; "
    "rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/*",
    packages=PACKAGES,
)
WORK = "corral-gpu-machine"


def podman(*words: str) -> str:
    """What a podman command prints.

    Raises:
        SystemExit: it failed.
    """
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"podman {' '.join(words)[:200]}: {(done.stdout + done.stderr)[-3000:]}")
    return done.stdout.strip()


def made_bundle(folder: Path, target: Path, level: int) -> str:
    """Write the bundle for the rows' cluster; gives its image."""
    file = folder / "kit.yaml"
    named = [path.name for path in sorted((target.parent / FILES).iterdir())]
    file.write_text(cluster_text("kit", named, gpus=1, joined=False, root=target.parent))
    made = asyncio.run(api.make_bundle(load_or_raise(file), target, python="3.13", level=level))
    print(f"bundle: {made.size / 1e6:.1f} MB, {made.wheels} wheels, {made.image}", flush=True)
    return made.image


def podman_layer(image: str, target: Path) -> None:
    """The node image's next layer, with podman, as a compressed tar file."""
    limits = [f"--ulimit={kind}={value}:{value}" for kind, value in host_limits().items()]
    tag = f"localhost/{WORK}"
    podman("rm", "--force", "--ignore", WORK)
    podman(
        *("run", "--name", WORK, "--network", "host", "--no-hosts", "--pull=never", "--user", "0"),
        *(*limits, "--entrypoint", "/bin/sh", image, "-c", LAYER),
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        podman("commit", "--quiet", WORK, tag)
        podman("rm", "--force", WORK)
        archive = folder / "image.tar"
        podman(
            *("save", "--quiet", "--format", "oci-archive", "--uncompressed"),
            *("--output", str(archive), tag),
        )
        podman("rmi", "--force", tag)
        layer = layers(archive, folder)[-1]
        subprocess.run(["zstd", "-q", "-19", "-T0", "-f", layer, "-o", target], check=True)
    print(f"podman: {target.stat().st_size / 1e6:.1f} MB", flush=True)


def layers(archive: Path, folder: Path) -> list[Path]:
    """Unpack an OCI archive; gives its layers, the lowest first."""
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    index = json.loads((folder / "index.json").read_text())
    blobs = folder / "blobs/sha256"
    digest = index["manifests"][0]["digest"].partition(":")[2]
    manifest = json.loads((blobs / digest).read_text())
    return [blobs / layer["digest"].partition(":")[2] for layer in manifest["layers"]]


def zstd_with_libraries(folder: Path) -> None:
    """The program zstd with its loader: the other machine may have none."""
    program = Path(shutil.which("zstd") or "/usr/bin/zstd")
    folder.mkdir()
    shutil.copy(program, folder / "zstd")
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for word in listed.split():
        if word.startswith("/"):
            shutil.copy(word, folder / Path(word).name)


def packed(folder: Path, target: Path, piece: int) -> None:
    """Write all of the folder as one tar file in pieces, with their digests."""
    left_out = [f"--exclude=./{name}" for name in ("kept.json", "holder.pid", "work", "bare")]
    argv = ["tar", "-C", str(folder), *left_out, "-c", "."]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as tar:
        assert tar.stdout is not None
        sums: list[str] = []
        number = 0
        while data := tar.stdout.read(piece):
            path = target / f"kit.tar.{number:02d}"
            path.write_bytes(data)
            sums.append(f"{hashlib.sha256(data).hexdigest()}  {path.name}\n")
            number += 1
    (target / "SHA256SUMS").write_text("".join(sums))


def copy_tree(target: Path) -> None:
    """The checkout's files that the rows need."""
    for name in TREE:
        source, copied = REPO / name, target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copied, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copied)


def main() -> None:
    """Make the kit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kit", type=Path)
    parser.add_argument("--enroot", type=Path, help="folder with Enroot's .deb files")
    parser.add_argument("--pyxis", type=Path, help="Pyxis' source, a tar file")
    parser.add_argument("--tools", type=Path, help="folder with .deb files of libnvidia-container")
    parser.add_argument("--nccl-tests", type=Path, help="source of nccl-tests, a tar file")
    parser.add_argument("--nsys", type=Path, help="a tree of Nsight Systems, a .tar.zst file")
    parser.add_argument("--level", type=int, default=12, help="of the bundle's compression")
    parser.add_argument("--piece", type=int, default=1024, help="MiB of a piece")
    parser.add_argument("--keep", action="store_true", help="use the bundle that is in KIT/all")
    options = parser.parse_args()
    everything = options.kit / "all"
    everything.mkdir(parents=True, exist_ok=True)
    for name in (FILES, "tools", "zstd", "tree"):
        shutil.rmtree(everything / name, ignore_errors=True)
    (everything / FILES).mkdir()
    if options.enroot and options.pyxis:
        for path in (*sorted(options.enroot.glob("*.deb")), options.pyxis):
            shutil.copy(path, everything / FILES)
    (everything / "tools").mkdir()
    for path in sorted(options.tools.glob("*.deb")) if options.tools else ():
        shutil.copy(path, everything / "tools")
    if options.nccl_tests:
        shutil.copy(options.nccl_tests, everything / "nccl-tests.tar")
    if options.nsys:
        shutil.copy(options.nsys, everything / "nsys.tar.zst")
    zstd_with_libraries(everything / "zstd")
    copy_tree(everything / "tree")
    bundle, layer = everything / "bundle.tar.zst", everything / "podman.tar.zst"
    if not (options.keep and bundle.exists() and layer.exists()):
        with tempfile.TemporaryDirectory() as work:
            image = made_bundle(Path(work), bundle, options.level)
        podman_layer(image, layer)
    for old in options.kit.glob("kit.tar.*"):
        old.unlink()
    packed(everything, options.kit, options.piece * 2**20)
    for path in sorted(options.kit.glob("kit.tar.*")):
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    sys.exit(main())
