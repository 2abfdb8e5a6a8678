"""Messages as others met and published them, of what cannot be made to happen on this machine."""

from __future__ import annotations

import pytest

from corral.doctor.logs.diagnosis import read, report
from corral.doctor.model import Source

JOB, KERNEL, ANY = Source.JOB, Source.KERNEL, Source.ANY

# The failure, where it is read, the text, who published it or prints it.
FIELD: tuple[tuple[str, Source, str, str], ...] = (
    (
        "F44",
        KERNEL,
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.105.08  Wed Oct 29 23:15:11 UTC 2025\n"
        "NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:2c58)\n"
        "               NVRM: installed in this system requires use of the NVIDIA open kernel "
        "modules.\n"
        "NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x22:0x56:884)",
        "dmesg of a laptop with an RTX 5090 and the proprietary module, 580.105.08",
    ),
    (
        "F82",
        KERNEL,
        "NVRM: The NVIDIA probe routine was not called for 1 device(s).\n"
        "NVRM: This can occur when a driver such as:\n"
        "               NVRM: nouveau, rivafb, nvidiafb or rivatv\n"
        "               NVRM: was loaded and obtained ownership of the NVIDIA device(s).",
        "driver up to 535; the text is spread over lines",
    ),
    (
        "F82",
        KERNEL,
        "NVRM: GPU 0000:01:00.0 is already bound to nouveau.\n"
        "NVRM: The NVIDIA probe routine was not called for 1 device(s).\n"
        "NVRM: This can occur when another driver was loaded and \n"
        "NVRM: obtained ownership of the NVIDIA device(s).",
        "driver from 545 on, nv.c",
    ),
    (
        "F93",
        KERNEL,
        "pci 0000:01:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link "
        "at 0000:00:01.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)",
        "Linux, drivers/pci/pci.c",
    ),
    (
        "F95",
        KERNEL,
        "[Hardware Error]:    00000020: 00000000 00000000\n"
        "Memory failure: 0x1000093: recovery action for free buddy page: Recovered\n"
        "EDAC MC0: 1 UE Multi-bit ECC on unknown memory (node:0 card:1 module:71 bank:7 row:0 "
        "col:0 page:0x1000093 offset:0xc00 grain:1 - APEI location: node:0 card:257 module:71)",
        "linux-acpi, a server's dmesg",
    ),
    (
        "F70",
        KERNEL,
        "Out of memory: Killed process 2210 (mysqld) total-vm:1892444kB, anon-rss:1820440kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:27 pgtables:3764kB oom_score_adj:0",
        "Linux from 5.0 on",
    ),
    (
        "F70",  # it does not name the user: anybody's process may be called mysqld
        ANY,
        "Out of memory: Kill process 6576 (mysqld) score 651 or sacrifice child",
        "Linux up to 4.20",
    ),
    (
        "F2050",
        ANY,
        "mount.lustre: mount 10.73.20.12@tcp0:/fs at /mnt/fs failed: No such device\n"
        "Are the lustre modules loaded?\nCheck /etc/modprobe.conf and /proc/filesystems",
        "whamcloud Online-Help issue 35",
    ),
    (
        "F50",
        ANY,
        "googleapi: Error 400: The network resource 'projects/p/global/networks/n' is already "
        "being used by 'projects/p/global/firewalls/f', resourceInUseByAnotherResource",
        "Google's compute API",
    ),
    (
        "F63",
        ANY,
        "Error: OCI runtime error: crun: cgroups in hybrid mode not supported, drop all "
        "controllers from cgroupv2",
        "crun, cgroup.c",
    ),
    (
        "F64",
        ANY,
        "Error: runc: runc create failed: unable to start container process: error during "
        "container init: error setting rlimits for ready process: error setting rlimit type 7: "
        "operation not permitted: OCI permission denied",
        "runc 1.1.5 by podman 4.3, seen here",
    ),
    (
        "F2013",
        JOB,
        "transport/shm.cc:590 NCCL WARN Cuda failure 217 'peer access is not supported between "
        "these two devices'",
        "NCCL on GeForce cards, NVIDIA/nccl issue 1838",
    ),
    ("F33", ANY, "UDP connections are not supported", "RunPod's documentation"),
    ("F86", Source.SLURMD, "error: Unable to register: Zero Bytes were transmitted or received",
     "Slurm 22.05; its cause is in another log"),
    ("F87", Source.REASON, "NHC: check_fs_free:  /var has only 1% free", "LBNL NHC 1.4.3"),
    ("F87", Source.REASON, "health.gpus: 1 of 2 GPUs", "Corral's own check"),
)  # fmt: skip


@pytest.mark.parametrize("seen", FIELD, ids=lambda seen: f"{seen[0]}: {seen[3]}")
def test_it_is_named_and_nothing_else(seen: tuple[str, Source, str, str]) -> None:
    failure, source, text, _ = seen
    for where in (source, ANY):
        assert [d.failure.id for d in report(read(text, where)).findings] == [failure]


def test_a_gpu_that_was_given_to_a_virtual_machine_is_no_fault() -> None:
    text = (
        "NVRM: GPU 0000:01:00.0 is already bound to vfio-pci.\n"
        "NVRM: The NVIDIA probe routine was not called for 1 device(s).\nnouveau is blacklisted"
    )
    assert report(read(text, KERNEL)).healthy
