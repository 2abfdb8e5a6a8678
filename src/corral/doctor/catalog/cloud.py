"""Rented machines, A3 Mega, Lustre."""

from __future__ import annotations

from typing import Final

from corral.doctor.model import Failure, Layer

FAILURES: Final = (
    Failure(
        "F45",
        "a3mega-prolog",
        "the A3 Mega prolog did not run",
        "its script was not called (SLURM_SCRIPT_CONTEXT), took the system for another, or the "
        "LLCM "
        "folder is missing",
        "slurm-gcp's script pinned to a commit after 2025-06; on the A3 Mega partition only",
        "cluster-toolkit pull request 5291; slurm-gcp issue 276",
        Layer.SOFTWARE,
        symptoms=(r"/run/tcpx-\S+.*no such file", r"aperture_devices.*(?:no such|not found)"),
        hardware=True,
    ),
    Failure(
        "F46",
        "driver-bump-tcpx",
        "GPUDirect-TCPX does not work with this driver",
        "the driver was upgraded past the image's",
        "keep the image's driver",
        "cluster-toolkit issue 3032",
        Layer.SOFTWARE,
        symptoms=(r"(?:tcpx|fastrak).*(?:group init|handshake).*(?:time(?:d)? ?out|failed)",),
        hardware=True,
    ),
    Failure(
        "F47",
        "lustre-pair",
        "Lustre is not mounted",
        "its client does not fit the kernel or system, or two file systems have one name",
        "a client of the pair table for this kernel; another local_mount",
        "cluster-toolkit issue 756",
        Layer.SOFTWARE,
        symptoms=(
            r"mount\.lustre: .*(?:failed|not found|no such)",
            r"exportfs: \S+ does not support nfs export",
        ),
        hardware=True,
    ),
    Failure(
        "F49",
        "capacity-or-quota",
        "the provider has no machine to give",
        "it is sold out, a quota or a spending cap is reached, or the balance is empty",
        "another region or type, an ordered list of them; check the account before blaming "
        "capacity",
        "providers' API documents",
        Layer.SOFTWARE,
        symptoms=(
            r"insufficientinstancecapacity",
            r"vm_min_count_not_reached",
            r"quota .*exceeded",
            r"instance-operations/launch/insufficient-capacity",
            r"insufficient (?:balance|funds|credit)",
            r"zone_resource_pool_exhausted",
        ),
    ),
    Failure(
        "F50",
        "teardown-leftovers",
        "something cannot be deleted: it is in use",
        "a network or peering that the tool did not make stands on it",
        "list what uses it, delete that first",
        "cluster-toolkit README",
        Layer.SOFTWARE,
        symptoms=(r"resourceinusebyanotherresource",),
    ),
    Failure(
        "F60",
        "tcpxo-config-checker",
        "TCPXO refuses NCCL's settings",
        "its plugin since 1.0.12 demands NCCL_NVLSTREE_MAX_CHUNKSIZE=131072 and the profile's "
        "values",
        "source nccl-env-profile.sh and override four names only",
        "cluster-toolkit A3 Mega guide",
        Layer.JOB,
        symptoms=(
            r"nccl config (?:checker|guest).*(?:mismatch|fail|error)",
            r"nccl_nvlstree_max_chunksize.*(?:expected|should|mismatch)",
        ),
        hardware=True,
    ),
)
