"""GPUDirect-TCPXO on A3 Mega: the ways in which it silently is not there."""

from __future__ import annotations

from typing import Final

from corral.doctor.model import Failure, Layer

FAILURES: Final = (
    Failure(
        "F96",
        "tcpxo-rxdm-missing",
        "the receive data path manager did not start",
        "its container was not pulled or found no free GPU memory: the prolog waits two minutes "
        "for it",
        "docker logs receive-datapath-manager-JOB on the node; let the partition have whole nodes "
        "only, and end what holds its GPUs",
        "slurm-gcp, tools/prologs-epilogs/receive-data-path-manager-mega",
        Layer.SOFTWARE,
        symptoms=(
            r"failed to restart rxdm on \S+",
            r"rxdm.*(?:connection refused|no such container)",
        ),
        hardware=True,
    ),
    Failure(
        "F97",
        "tcpxo-prolog-not-run",
        "GPUDirect-TCPXO was not prepared on the node",
        "the prolog is not linked for the job's partition, or it took the job for one of a single "
        "node",
        "links in /opt/apps/adm/slurm/partition-NAME-prolog_slurmd.d on the controller; ask for "
        "two nodes",
        "cluster-toolkit A3 Mega blueprint",
        Layer.SOFTWARE,
        symptoms=(
            r"the tcpxo prolog did not run",
            r"/var/lib/tcpxo/lib64/nccl-env-profile\.sh: no such file",
        ),
        hardware=True,
    ),
    Failure(
        "F98",
        "tcpxo-aperture-devices",
        "jobs find no aperture devices",
        "the prolog's test of the system took Ubuntu for nothing it knows (it asked for Debian 12 "
        "until 2025-06), or udev's rule had not run when slurmd started",
        "the prolog pinned to a commit after 2025-06; slurmd waits for /dev/aperture_devices",
        "slurm-gcp pull request 276; seed 003, section 3-2",
        Layer.SOFTWARE,
        symptoms=(
            r"/dev/aperture_devices is empty on \S+",
            r"no aperture devices after \d+ s",
        ),
        hardware=True,
    ),
    Failure(
        "F99",
        "tcpxo-interface-order",
        "TCPXO was given other NICs than the node has, or in another order",
        "the profile says eth1 to eth8, which Ubuntu calls by their PCI places; sorted by name "
        "they no longer stand in the order of the GPUs",
        "NCCL_FASTRAK_IFNAME=enp6s0,enp7s0,enp13s0,enp14s0,enp134s0,enp135s0,enp141s0,enp142s0",
        "cluster-toolkit A3 Mega guide",
        Layer.JOB,
        symptoms=(
            r"nccl_fastrak_ifname (?:has the nics in another order|is .*: the nics are)",
            r"fastrak.*(?:no such|unknown|invalid) (?:network )?(?:device|interface)",
        ),
        hardware=True,
    ),
)
