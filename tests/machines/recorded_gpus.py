"""GPUs on a machine that has none: recorded answers in place of the NVIDIA driver's.

The device files are those of the kernel's memory device (``/dev/zero`` and others): they open, and
the devices cgroup refuses them like a GPU's.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from corral.inspect import gpu
from tests.machines.lab.labs import Machine

STAND_IN: Final = Path(__file__).parents[1] / "recorded/host_gpus/nvidia-smi"
FOLDER: Final = "usr/local/share/recorded-gpus"
LIBRARIES: Final = ("libcuda.so.1", "libnvidia-ml.so.1")
PCI: Final = {"vendor": "0x10de", "class": "0x030200"}
"""A 3D controller of NVIDIA."""
MODELS: Final = {"NVIDIA H200": "0x2335", "NVIDIA L4": "0x27b8"}
"""Their PCI device ids."""
MEMORY_DEVICES: Final = (5, 7)
"""Minor numbers of mem(4)'s files that stand for GPUs: zero and full. Null's is needed by jobs."""

PLACE: Final = """
set -e
tar -C / --no-same-owner -xf -
mountpoint -q /sys/bus || {
  mkdir -p /run/recorded-bus
  for bus in /sys/bus/*; do
    mkdir /run/recorded-bus/${bus##*/}
    mount --bind $bus /run/recorded-bus/${bus##*/}
  done
  mount --rbind /run/recorded-bus /sys/bus
}
rm -rf /sys/bus/pci
cp -r /FOLDER/pci /sys/bus/pci
mountpoint -q /proc/driver || mount -t tmpfs -o mode=755 tmpfs /proc/driver
rm -rf /proc/driver/nvidia
cp -r /FOLDER/proc /proc/driver/nvidia
rm -f /dev/nvidia*
n=0
for minor in MINORS; do
  mknod -m 666 /dev/nvidia$n c 1 $minor
  n=$((n + 1))
done
for name in ctl -uvm -uvm-tools; do mknod -m 666 /dev/nvidia$name c 1 3; done
ldconfig
"""


def library(soname: str, folder: Path) -> bytes:
    """A library with nothing in it, for ldconfig to list."""
    made = folder / soname
    argv = ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{soname}", "-x", "c", "/dev/null"]
    subprocess.run([*argv, "-o", str(made)], check=True)
    return made.read_bytes()


def rows(answers: Mapping[str, str]) -> bytes:
    """The lines that the stand-in reads: those of ``cards`` with each GPU's number in front."""
    devices = gpu.device_files(answers["minors"])
    lines = answers["cards"].splitlines()
    buses = [gpu.bus_address(line.partition(",")[0]) for line in lines]
    numbers = [devices.get(bus, "").removeprefix("/dev/nvidia") for bus in buses]
    numbered = (f"{n}, {line}" if n else line for n, line in zip(numbers, lines, strict=True))
    return "".join(f"{line}\n" for line in numbered).encode()


def place(machine: Machine, answers: Mapping[str, str], work: Path) -> None:
    """Put recorded answers there, in place of those that are there.

    Args:
        machine: it gets device files, the driver's folder in /proc, nvidia-smi and libraries.
        answers: to the questions of ``corral.inspect.nvidia``, by name.
        work: an empty folder to build in.
    """
    files = {f"{FOLDER}/users": f"{answers['users']}\n".encode(), f"{FOLDER}/gpus": rows(answers)}
    files["usr/bin/nvidia-smi"] = STAND_IN.read_bytes()
    for soname in LIBRARIES:
        files[f"usr/lib/x86_64-linux-gnu/{soname}"] = library(soname, work)
    buses = answers["listed"].split()
    texts = answers["minors"].split("Model:")[1:]
    for bus, text in zip(buses, texts, strict=True):
        files[f"{FOLDER}/proc/gpus/{bus}/information"] = f"Model:{text.strip()}\n".encode()
        model = text.splitlines()[0].strip()
        for name, value in (PCI | {"device": MODELS[model]}).items():
            files[f"{FOLDER}/pci/devices/{bus}/{name}"] = f"{value}\n".encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755 if "/bin/" in name else 0o644
            archive.addfile(member, io.BytesIO(data))
    minors = " ".join(map(str, MEMORY_DEVICES[: len(buses)]))
    machine.root(f"rm -rf /{FOLDER}")
    script = PLACE.replace("FOLDER", FOLDER).replace("MINORS", minors)
    argv = [*machine.ssh_argv(), f"sudo -n sh -c '{script}'"]
    subprocess.run(argv, input=packed.getvalue(), check=True, timeout=60)
