"""Rows with containers of Enroot and Pyxis: a GPU by libnvidia-container, and by mounts alone."""

from __future__ import annotations

import shutil

from tests.gpu_machine.lab import PYTHON, Lab
from tests.gpu_machine.training import SCRIPT, options, tokens

IMAGE = "/shared/node.sqsh"
MAKE = (
    "set -e; echo an image of this node >/etc/corral-image; "
    f"mksquashfs / {IMAGE} -noappend -quiet -no-progress -comp gzip -Xcompression-level 1 "
    "-one-file-system -wildcards -e 'shared/*' 'run/*' 'tmp/*' 'var/tmp/*' "
    "'var/lib/*' 'var/cache/apt/*' 'var/log/*' usr/local/nvidia 'usr/local/bin/nvidia*' "
    "'etc/ld.so.conf.d/corral-nvidia.conf' 'usr/bin/prom*' 'usr/sbin/mariadbd' 'etc/slurm/*' "
    "'etc/shadow*' 'etc/munge*' 'etc/ssl/private/*' 'etc/ssh/*' 'root/*' >/dev/null; "
    f"chmod 644 {IMAGE}; rm /etc/corral-image; ls -l {IMAGE}"
)
SHOW = (
    "cat /etc/corral-image; ls -l /dev/nvidia* 2>&1; nvidia-smi -L 2>&1; id -un; "
    "env | grep -E '^(CUDA|NVIDIA)_' || :"
)
DRIVER = "/usr/local/nvidia"
BY_HAND = (
    f"export LD_LIBRARY_PATH={DRIVER}/lib64; cat /etc/corral-image; {DRIVER}/bin/nvidia-smi -L; "
    f"{PYTHON} /shared/programs/product.py"
)


def row(lab: Lab, name: str) -> None:
    """All of it; without GPUs a container that runs."""
    if not lab.files:
        return
    made = lab.machine.node(name, "node0", MAKE, timeout=180)
    lab.record.command(f"{name}-containers", "the image, of the node's own files", made)
    run(lab, name, "without libnvidia-container", "-G", "1", script=SHOW)
    mounts(lab, name)
    tools(lab, name)
    run(lab, name, "with libnvidia-container", "-G", "1", script=SHOW)
    run(lab, name, "a job without a GPU", script=SHOW)
    if not lab.gpus:
        return
    product = f"{PYTHON} /shared/programs/product.py"
    run(lab, name, "PyTorch", "-G", "1", script=product)
    everywhere = ("-N", str(len(lab.nodes(name))), "-G", "1")
    run(lab, name, "on all nodes", *everywhere, script="hostname; nvidia-smi -L")
    train(lab, name)
    srun = "runuser -u corral -- env NVIDIA_VISIBLE_DEVICES=all "
    srun += "NVIDIA_DRIVER_CAPABILITIES=compute,utility "
    srun += f"srun --mem=2G --gres=gpu:1 --container-image={IMAGE} nvidia-smi -L"
    lab.record.command(f"{name}-containers", "srun", lab.machine.node(name, "node0", srun))


def run(lab: Lab, name: str, what: str, *words: str, script: str) -> None:
    """A command in a container, by ``corral run``."""
    argv = ["corral", "run", "--cluster", f"/root/{name}.yaml", *words, "--container", IMAGE]
    done = lab.machine.inside(*argv, "--", "sh", "-c", script, timeout=120)
    lab.record.command(f"{name}-containers", what, done)
    print("   " + done.text.strip()[-1200:].replace("\n", "\n   "), flush=True)


def mounts(lab: Lab, name: str) -> None:
    """Device files and the driver's folder by Enroot's mounts, without libnvidia-container."""
    if not lab.gpus:
        return
    for number, node in enumerate(lab.nodes(name)[:1]):
        listed = lab.machine.node(name, node, "ls /dev/nvidia* | grep -v caps").stdout.split()
        files = [f"{path}:{path}" for path in (*listed, DRIVER)]
        words = [word for file in files for word in ("--mount", file)]
        what = f"by mounts alone {number}"
        run(lab, name, what, "-G", "1", "-w", node, *words, script=BY_HAND)


def tools(lab: Lab, name: str) -> None:
    """Install libnvidia-container on each node, and ask it what it finds there."""
    source = lab.machine.kit / "tools"
    target = lab.machine.shared(name) / "tools"
    shutil.copytree(source, target, dirs_exist_ok=True)
    for node in lab.nodes(name):
        script = (
            "dpkg -i /shared/tools/*.deb 2>&1 | tail -3; nvidia-container-cli --version | head -2; "
        )
        script += "nvidia-container-cli -k info; nvidia-container-cli -k list; "
        script += (
            "runuser -u corral -- nvidia-container-cli --user --load-kmods info 2>&1 | head -12"
        )
        done = lab.machine.node(name, node, script)
        lab.record.command(f"{name}-containers", f"libnvidia-container on {node}", done)
        print("   " + done.text.strip()[-1500:].replace("\n", "\n   "), flush=True)


def train(lab: Lab, name: str) -> None:
    """``train_gpt`` in a container: its python3 is the one in /shared, by a link in the image."""
    argv = ["corral", "run", f"/kit/tree/{SCRIPT}", "--cluster", f"/root/{name}.yaml", "-G", "1"]
    argv += ["--container", IMAGE, "--", *options(200, "/shared/text")]
    done = lab.machine.inside(*argv, timeout=200)
    lab.record.command(f"{name}-containers", "train_gpt in a container", done)
    lab.record.add(f"{name}-containers", "train_gpt in a container", **tokens(done.text))
