"""GPUs, their driver and what is built on it. Xids: NVIDIA's list, in ``xids.py``."""

from __future__ import annotations

from typing import Final

from corral.doctor.model import Failure, Layer, Mend, Source

FAILURES: Final = (
    Failure(
        "F13",
        "device-file-missing",
        "a GPU's device file is missing",
        "slurmd started before the driver had made it, or the GPU is gone",
        "order slurmd after nvidia-persistenced, or run nvidia-modprobe first: corral apply; a "
        "GPU that "
        "is gone: nvidia-smi, dmesg",
        "bibigrid issue 705",
        Layer.SOFTWARE,
        symptoms=(
            r"waiting for gres\.conf file /dev/nvidia\d+",
            r"can't stat gres\.conf file /dev/\S+",
        ),
        where=(Source.SLURMD,),
    ),
    Failure(
        "F23",
        "fabric-manager-missing",
        "the NVSwitch fabric is not set up",
        "nvidia-fabricmanager does not run, or is of another version than the driver",
        "install the version that is exactly the driver's and start it before slurmd",
        "pytorch issue 35710",
        Layer.SOFTWARE,
        symptoms=(
            r"error 802: system not yet initialized",
            r"cuda_error_system_not_ready",
            r"fabric ?manager.*(?:version mismatch|not (?:running|installed)|failed to start)",
        ),
        needs=(r"nvidia-fabricmanager|fabric ?manager|nvswitch|hgx|dgx",),
        hardware=True,
    ),
    Failure(
        "F24",
        "driver-library-mismatch",
        "the driver's library and its kernel module differ",
        "an upgrade replaced the library under a loaded module",
        "drain and reboot the node; hold the packages (corral apply) so that it does not come "
        "again",
        "shine-cluster issue 30",
        Layer.SOFTWARE,
        symptoms=(r"failed to initialize nvml: driver/library version mismatch",),
    ),
    Failure(
        "F25",
        "blackwell-stack-wrong",
        "the software is too old for this GPU",
        "PyTorch was built without its architecture, or the driver's kernel module is the "
        "proprietary one",
        "the -open driver, 570 or later, and a PyTorch built for CUDA 12.8 or later; BIOS: Above "
        "4G "
        "decoding and resizable BAR on",
        "open-gpu-kernel-modules issues 862 and 872; pytorch issue 150733",
        Layer.SOFTWARE,
        symptoms=(
            r"with cuda capability sm_\d+ is not compatible with the current pytorch installation",
            r"no kernel image is available for execution on the device",
        ),
    ),
    Failure(
        "F44",
        "kernel-module-flavour",
        "the driver's kernel module is of the wrong kind",
        "Blackwell works with the open module only, GPUs before Turing with the proprietary one "
        "only",
        "software: {nvidia: {driver: VERSION-open}} for Turing and later",
        "DeepOps AGENTS.md",
        Layer.SOFTWARE,
        symptoms=(
            r"nvrm: .*requires use of the nvidia open kernel modules",
            r"nvrm: .*(?:not supported by (?:the )?open|open kernel modules? .*not support)",
        ),
        where=(Source.KERNEL,),
    ),
    Failure(
        "F55",
        "cuda-unusable",
        "the GPU is listed and cannot be used",
        "on rented machines with NVSwitch the host's fabric may be in a bad state",
        "try a real CUDA call four times over three minutes, then give the machine back and take "
        "another",
        "rental survey of 2026-08-31",
        Layer.SOFTWARE,
        symptoms=(
            r"unexpected error from cudagetdevicecount\(\)",
            r"error 802: system not yet initialized",
        ),
        excludes=(r"nvidia-fabricmanager|fabric ?manager|nvswitch|hgx|dgx",),
    ),
    Failure(
        "F76",
        "no-gpu-seen",
        "the driver sees no GPU",
        "the module is not loaded or of the wrong kind, or the GPU fell off the bus",
        "dmesg | grep -i nvrm says why; then F25 and F44",
        "nvidia-smi(1)",
        Layer.SOFTWARE,
        symptoms=(
            r"no devices were found",
            r"nvidia-smi has failed because it couldn't communicate with the nvidia driver",
        ),
        where=(Source.DRIVER, Source.JOB),
    ),
    Failure(
        "F77",
        "gpu-off-the-bus",
        "a GPU has fallen off the bus",
        "power, heat, riser or the card itself (Xid 79)",
        "drain the node, power it off and on; when it comes again, have the card replaced",
        "NVIDIA Xid errors, 79",
        Layer.MACHINE,
        symptoms=(r"gpu has fallen off the bus", r"xid \([^)]*\): 79\b"),
        where=(Source.KERNEL,),
        hardware=True,
    ),
    Failure(
        "F78",
        "gpu-memory-errors",
        "a GPU's memory has errors that cannot be corrected",
        "a memory cell or bank is failing (Xid 48, 63, 64, 94, 95)",
        "drain, reset the GPU (reboot); have it replaced when row remapping failed (64) or errors "
        "stay",
        "NVIDIA Xid errors; GPU memory error management",
        Layer.MACHINE,
        symptoms=(r"xid \([^)]*\): (?:48|63|64|94|95)\b", r"uncorrectable ecc error"),
        where=(Source.KERNEL, Source.DRIVER),
        hardware=True,
    ),
    Failure(
        "F79",
        "nvlink-errors",
        "NVLink has errors",
        "a link between GPUs or to an NVSwitch is bad (Xid 74, SXid)",
        "drain; nvidia-smi nvlink -e; reseat or replace",
        "NVIDIA Xid errors, 74; Fabric Manager user guide, SXid",
        Layer.MACHINE,
        symptoms=(r"xid \([^)]*\): 74\b", r"sxid \([^)]*\): \d+.*(?:fatal|error)"),
        where=(Source.KERNEL,),
        hardware=True,
    ),
    Failure(
        "F80",
        "gpu-program-fault",
        "a program on the GPU did something it may not",
        "an illegal address or instruction in somebody's kernel (Xid 13, 31, 43, 45): the "
        "program's fault "
        "as a rule, not the GPU's",
        "look at the job that ran then; the node is fine unless other jobs show the same",
        "NVIDIA Xid errors, 13, 31, 43, 45",
        Layer.JOB,
        symptoms=(
            r"xid \([^)]*\): (?:13|31|43|45)\b",
            r"cuda error: (?:an illegal memory access|device-side assert)",
        ),
        where=(Source.KERNEL, Source.JOB),
        hardware=True,
    ),
    Failure(
        "F81",
        "gpu-firmware-fault",
        "a GPU's firmware does not answer",
        "the GSP stopped (Xid 119, 120) or the driver waits for it",
        "drain and reboot; a newer driver; when it comes again, have the card looked at",
        "NVIDIA Xid errors, 119, 120",
        Layer.MACHINE,
        symptoms=(r"xid \([^)]*\): (?:61|62|69|109|119|120)\b", r"gsp (?:rpc )?timeout"),
        where=(Source.KERNEL,),
        hardware=True,
    ),
    Failure(
        "F48",
        "profiler-permission",
        "GPU counters may not be read",
        "they are for administrators only; rented containers forbid them",
        "nsys without counters; on own nodes NVreg_RestrictProfilingToAdminUsers=0",
        "ThunderKittens issue 73",
        Layer.CONFIG,
        symptoms=(r"err_nvgpuctrperm",),
    ),
    Failure(
        "F82",
        "nouveau-loaded",
        "the driver nouveau holds the GPU",
        "it was loaded before NVIDIA's",
        "blacklist it and reboot: corral apply",
        "NVIDIA driver README",
        Layer.SOFTWARE,
        symptoms=(
            r"nvrm: the nvidia probe routine was not called",  # who has it is said elsewhere
            r"nvrm: gpu \S+ is already bound to nouveau",
            r"nouveau .*gsp.*failed",
        ),
        needs=(r"nouveau",),
        excludes=(r"is already bound to vfio-pci",),
        where=(Source.KERNEL,),
        mend=Mend.APPLY,
    ),
)
