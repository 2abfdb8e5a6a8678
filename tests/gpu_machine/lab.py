"""What rows share: the cluster's file, Python for the nodes, nccl-tests, what is left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.gpu_machine.cluster import cluster_text
from tests.gpu_machine.machine import Machine, Record, ran

PROGRAMS = Path(__file__).parent / "programs"
PYTHON = "/shared/py312/bin/python3"
"""The machine's Python, as nodes have it."""


@dataclass
class Lab:
    """The machine, its record, and what is kept from one command to the next.

    Attributes:
        machine: the changed root.
        record: of what is seen.
        steps: of each compared training.
        files: names of the kit's files for containers.
        gpus: how many the machine has; 0: stand-ins.
    """

    machine: Machine
    record: Record
    steps: int
    files: list[str] = field(default_factory=list)
    gpus: int = field(init=False)

    def __post_init__(self) -> None:
        listed = ran(["nvidia-smi", "-L"], 60).stdout if shutil.which("nvidia-smi") else ""
        self.gpus = len(re.findall(r"^GPU \d+:", listed, re.M))

    @property
    def kept(self) -> dict[str, Any]:
        """What earlier rows kept."""
        try:
            return json.loads((self.machine.kit / "kept.json").read_text())
        except OSError:
            return {}

    def keep(self, **fields: Any) -> None:
        """Keep something for later rows, and for later commands."""
        (self.machine.kit / "kept.json").write_text(json.dumps(self.kept | fields))

    # Clusters

    def write_file(self, name: str, *, joined: bool, more: bool = False) -> None:
        """The cluster's file, of what ``corral init laptop`` writes on this machine."""
        made = self.machine.inside("corral", "init", "laptop", "--name", name, "-o", "-")
        kind = re.search(r"type: (\w+)", made.stdout)
        text = cluster_text(
            name,
            self.files if more else (),
            gpus=self.gpus or 2,
            joined=joined,
            root=self.machine.kit,
            kind=kind[1] if kind and self.gpus else "slot",
            source="host" if self.gpus else "stand-in",
            metrics=more,
        )
        (self.machine.root / f"root/{name}.yaml").write_text(text)
        self.record.add(f"{name}-up", "corral init laptop", text=made.stdout, used=text)

    def nodes(self, name: str) -> list[str]:
        """The cluster's nodes."""
        text = (self.machine.root / f"root/{name}.yaml").read_text()
        matched = re.search(r"nodes: node\[0-(\d+)\]", text)
        return [f"node{i}" for i in range(int(matched[1]) + 1)] if matched else ["node0"]

    def holder(self, seconds: int) -> subprocess.Popen[str]:
        """A process of this machine that holds memory of its GPUs."""
        process = subprocess.Popen(
            [sys.executable, PROGRAMS / "holder.py", str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        return process

    # What jobs compute with

    def python_for_nodes(self, name: str) -> None:
        """The machine's Python with PyTorch in the cluster's shared folder, by hard links."""
        began = time.monotonic()
        python_tree(self.machine.shared(name) / "py312")
        text = self.machine.shared(name) / "text"
        text.mkdir(exist_ok=True)
        for file in Path(sysconfig.get_path("stdlib")).glob("*.py"):
            shutil.copy(file, text / file.name)
        shutil.copytree(PROGRAMS, self.machine.shared(name) / "programs", dirs_exist_ok=True)
        for node in self.nodes(name):
            script = f"ln -sf {PYTHON} /usr/local/bin/python3 && /usr/local/bin/python3 -c "
            script += "'import torch; "
            script += "print(torch.__version__, torch.cuda.device_count())'"
            done = self.machine.node(name, node, script)
            self.record.command(f"{name}-up", f"PyTorch on {node}", done)
        seconds = round(time.monotonic() - began, 1)
        self.record.add(f"{name}-up", "the machine's Python in /shared", seconds=seconds)

    def nccl_tests(self, name: str) -> str | None:
        """Build nccl-tests once; gives its folder on the nodes."""
        source = self.machine.kit / "nccl-tests.tar"
        if not source.exists():
            return None
        built = self.machine.kit / "nccl-tests/build"
        if not built.exists():
            subprocess.run(["tar", "-xf", source, "-C", self.machine.kit], check=True)
            nccl = Path(sysconfig.get_path("purelib")) / "nvidia/nccl"
            library = nccl / "lib/libnccl.so"
            if not library.exists():
                library.symlink_to("libnccl.so.2")
            words = f"make -j16 -C {self.machine.kit}/nccl-tests NCCL_HOME={nccl} NVCC_GENCODE="
            words += "'-gencode=arch=compute_90,code=sm_90' && cp -a "
            words += f"{library}.2 {self.machine.kit}/nccl-tests/build/"
            self.record.command(f"{name}-collectives", "make", ran(["sh", "-c", words], 300))
        target = self.machine.shared(name) / "nccl-tests"
        shutil.copytree(built, target, dirs_exist_ok=True)
        for library in cuda_runtime():
            shutil.copy(library, target / library.name)
        for node in self.nodes(name):
            script = "echo /shared/nccl-tests > /etc/ld.so.conf.d/nccl-tests.conf; ldconfig; "
            script += "ldd /shared/nccl-tests/all_reduce_perf | grep -v linux-vdso"
            done = self.machine.node(name, node, script)
            self.record.command(f"{name}-collectives", f"nccl-tests on {node}", done)
        return "/shared/nccl-tests"

    # What is left

    def leftovers(self, row: str) -> None:
        """Containers, networks, links, devices, mounts and processes; compared with before."""
        inside = self.machine.inside(
            "sh", "-c", "podman ps -aq; podman network ls -q; podman volume ls -q; ip -br link"
        ).stdout.splitlines()
        devices = sorted(path.name for path in Path("/dev").glob("nvidia*"))
        mounts = sorted(line.split()[1] for line in Path("/proc/mounts").read_text().splitlines())
        names = ran(["ps", "-eo", "comm="]).stdout.split("\n")
        processes = sorted(
            n for n in names if re.match(r"conmon|podman|slurm|systemd|sshd|ssh$", n)
        )
        cgroups = sorted(
            str(Path(folder).relative_to("/sys/fs/cgroup"))
            for folder, _, _ in os.walk("/sys/fs/cgroup")
        )
        now = {
            "objects": [" ".join(line.split()[:2]) for line in inside],
            "devices": devices,
            "mounts": mounts,
            "processes": processes,
            "cgroups": cgroups,
            "nft": self.machine.inside("nft", "list", "tables").stdout.split("\n"),
        }
        if row == "before":
            self.keep(before=now)
            return
        before = self.kept.get("before", {})
        more = {k: [x for x in v if x not in before.get(k, [])] for k, v in now.items()}
        self.record.add(row, "more than before", **more)


def python_tree(target: Path) -> None:
    """The machine's Python with its packages below a folder, by hard links."""
    stdlib, packages = (Path(sysconfig.get_path(key)) for key in ("stdlib", "purelib"))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (target / "bin").mkdir(parents=True, exist_ok=True)
    program = Path(sys.executable).resolve()
    shutil.copy(program, target / "bin" / version)
    for link in ("python3", "python"):
        (target / "bin" / link).unlink(missing_ok=True)
        (target / "bin" / link).symlink_to(version)
    linked(stdlib, target / "lib" / version)
    linked(packages, target / "lib" / version / "site-packages")
    for library in (program.parent.parent / "lib").glob("libpython*"):
        shutil.copy(library, target / "lib" / library.name)
    debian = target / "lib" / version / "dist-packages"
    if not debian.exists():
        debian.symlink_to("site-packages")


def linked(source: Path, target: Path) -> None:
    """Copy a folder by hard links where the disk allows it, else its files."""
    target.parent.mkdir(parents=True, exist_ok=True)
    argv = ["cp", "-alT", str(source), str(target)]
    if subprocess.run(argv, check=False, capture_output=True).returncode != 0:
        subprocess.run(["cp", "-aT", str(source), str(target)], check=True)


def cuda_runtime() -> list[Path]:
    """The CUDA runtime that nvcc links against."""
    matched = [
        Path(p) for p in ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib")
    ]
    return [path.resolve() for folder in matched for path in folder.glob("libcudart.so.1?")][:1]
