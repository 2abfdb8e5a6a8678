"""NCCL, gloo, MPI: how ranks find each other and what carries their data."""

from __future__ import annotations

from typing import Final

from corral.doctor.model import Failure, Layer, Source

_JOB: Final = (Source.JOB,)
_OOM: Final = (
    r"detected \d+ oom[ _-]kill event",
    r"some of the step tasks have been oom killed",
    r"task \d+ out of memory",
)

FAILURES: Final = (
    Failure(
        "F26",
        "nccl-wrong-interface",
        "ranks talk over the wrong interface",
        "NCCL or gloo took docker0, tun0, tailscale0 or another interface that does not reach the "
        "peers",
        "network: {data: {interface: NAME}} in the cluster file: jobs then get "
        "NCCL_SOCKET_IFNAME==NAME; "
        "NCCL_IB_HCA for InfiniBand",
        "nccl issue 286",
        Layer.JOB,
        symptoms=(
            r"net/socket : using \[0\](?:docker|br-|virbr|veth|tun|lo\b)",
            r"gloo .*(?:connect|connectfullmesh).*(?:failed|refused|timed out|timeout)",
            r"call to connect (?:to \S+ )?(?:failed|returned connection refused|timed out)",
            r"bootstrap : no socket interface found",
            r"unable to find (?:address|interface) for: \S+",
        ),
        where=_JOB,
    ),
    Failure(
        "F27",
        "nccl-over-vpn",
        "collectives run over a mesh VPN",
        "NCCL over Tailscale dies behind NAT and crawls over a relay",
        "keep a job within one island: data plane on a LAN or the provider's own network",
        "nccl issue 1606",
        Layer.JOB,
        symptoms=(r"net/socket : using \[0\](?:tailscale|wg|utun)\d*",),
        where=_JOB,
    ),
    Failure(
        "F30",
        "rendezvous-wrong",
        "ranks do not find each other",
        "the address of rank 0 is wrong (localhost, a name that resolves to 127.0.1.1) or its "
        "port is "
        "taken or blocked",
        "corral run sets MASTER_ADDR from the allocation and a free port; set neither by hand",
        "pytorch issues 73656 and 79388",
        Layer.JOB,
        symptoms=(
            r"rendezvous(?:connection|timeout)error",
            r"client socket has (?:timed out|failed to connect)",
            r"timed out after \d+ seconds waiting for clients",  # rank 0, where others never came
            r"timed out (?:after \S+ )?(?:waiting|trying to "
            r"connect).*(?:29500|master_port|tcpstore)",
            r"(?:29500|tcpstore|store).*(?:eaddrinuse|address already in use)",
            r"the server socket has failed to (?:listen|bind)",
            r"ping failed, invalid nonce returned",  # something else answers at that address
        ),
        where=_JOB,
    ),
    Failure(
        "F35",
        "rdma-parameters",
        "RDMA connections fail",
        "the wrong RoCE GID, InfiniBand partition, or rails that do not reach each other",
        "NCCL_IB_GID_INDEX (often 3 for RoCE v2), NCCL_IB_PKEY, NCCL_CROSS_NIC=0 on rail-only "
        "fabrics",
        "nccl issues 426, 769, 1323 and 2013",
        Layer.JOB,
        symptoms=(
            r"got completion .*with (?:error|status=?) ?12\b",
            r"ibv_modify_qp failed",
            r"vendor[ _]err(?:or)? 129",
        ),
        hardware=True,
    ),
    Failure(
        "F36",
        "consumer-p2p-hang",
        "GPUs hang when they copy to each other",
        "GeForce cards have no peer-to-peer with the stock driver; IOMMU or ACS breaks it "
        "elsewhere",
        "NCCL_P2P_DISABLE=1; on servers IOMMU off or pt, ACS off",
        "nccl-tests issue 117",
        Layer.JOB,
        symptoms=(
            r"p2p (?:is disabled|not supported) .*(?:geforce|rtx)",
            r"cuda(?:_| )?(?:error|failure).*peer access (?:is not supported|unsupported)",
        ),
        where=_JOB,
        hardware=True,
    ),
    Failure(
        "F43",
        "requeue-in-container",
        "the job cannot requeue itself",
        "scontrol is not in the container's PATH",
        "requeue from the batch script, outside the container",
        "submitit issue 1601",
        Layer.JOB,
        symptoms=(r"no such file or directory: 'scontrol'", r"scontrol: (?:command )?not found"),
        where=_JOB,
    ),
    Failure(
        "F59",
        "silent-socket-fallback",
        "collectives fell back to TCP sockets",
        "the plugin for the fast network was not found: the job works at a fraction of its speed",
        "NCCL_NET_PLUGIN and LD_LIBRARY_PATH of the job; corral bench read LOG --fabric KIND tells",
        "reference/baselines.md section 6",
        Layer.JOB,
        symptoms=(r"using network socket",),
        needs=(
            r"net/ib : no device found|failed to open libibverbs",
            r"net/plugin.*(?:could not find|failed|no plugin found)|libnccl-net\.so.*(?:no "
            r"such|cannot)",
        ),
        where=_JOB,
    ),
    Failure(
        "F62",
        "torch-without-libuv",
        "torchrun asks for a store that this PyTorch lacks",
        "distribution packages of PyTorch are built without libuv, which torchrun's agents take "
        "since 2.4 whatever USE_LIBUV says: only a store that a rank serves itself heeds that",
        "corral run --launcher torchrun gives the agents the other store; or start the ranks by "
        "srun with USE_LIBUV=0 (corral run does), or install PyTorch's own wheels",
        "PyTorch 2.4 and later, torch/distributed/rendezvous.py and elastic/rendezvous/ (pull "
        "request 196855, open in September 2026); seen with Debian's 2.6",
        Layer.JOB,
        symptoms=(r"use_libuv was requested but pytorch was buil[dt] without libuv",),
        where=_JOB,
    ),
    Failure(
        "F88",
        "nccl-timeout",
        "a collective timed out",
        "one rank died, hangs, or never came: the others wait for it",
        "read the output of the rank that stopped first, not of those that waited",
        "PyTorch distributed documentation, TORCH_NCCL_ASYNC_ERROR_HANDLING",
        Layer.JOB,
        symptoms=(
            r"watchdog caught collective operation timeout",
            r"timed out waiting \d+ms for (?:recv|send) operation to complete",
            r"some nccl operations have failed or timed out",
        ),
        where=_JOB,
    ),
    Failure(
        "F89",
        "gpu-memory-full",
        "the GPU's memory is full",
        "the model, its batch or what it keeps for the backward pass is too large; or another "
        "process "
        "holds memory",
        "a smaller batch with accumulation, bf16, activation checkpointing; nvidia-smi shows who "
        "holds it",
        "PyTorch CUDA semantics",
        Layer.JOB,
        symptoms=(r"cuda out of memory", r"torch\.(?:cuda\.)?outofmemoryerror"),
        where=_JOB,
        hardware=True,
    ),
    Failure(
        "F90",
        "job-out-of-memory",
        "the job used more memory than it asked for",
        "its cgroup's limit ended it",
        "ask for more by --mem, or load data lazily; sacct -o MaxRSS shows what it took",
        "slurm.conf(5), JobAcctGather; cgroup.conf(5)",
        Layer.JOB,
        symptoms=_OOM,
        where=(Source.JOB, Source.SLURMD),
    ),
    Failure(
        "F103",
        "image-unpacking-out-of-memory",
        "unpacking the container's image took more memory than the job asked for",
        "enroot unpacks the image inside of the job: unsquashfs keeps up to half a GiB, and files "
        "that are not on the disk yet count as the job's memory too",
        "ask for 1G or more by --mem, and for the image's size on top where enroot's folder "
        "(software.pyxis.local) is a tmpfs",
        "unsquashfs(1), -da and -fr; the kernel's cgroup documents, memory",
        Layer.JOB,
        symptoms=(r"\bkilled unsquashfs\b",),
        needs=_OOM,
        where=_JOB,
    ),
    Failure(
        "F91",
        "time-limit",
        "the job ran into its time limit",
        "it asked for less time than it needed",
        "--time with more, or checkpoints and --requeue",
        "sbatch(1)",
        Layer.JOB,
        symptoms=(r"cancelled at \S+ due to time limit",),
        where=(Source.JOB, Source.SLURMD),
    ),
    Failure(
        "F92",
        "request-too-large",
        "the job asks for more than any node has",
        "its CPUs, memory, GPUs or features for one node are on no node of the partition",
        "corral status shows what there is; ask for less on each node, or for more nodes",
        "slurm_errno.c, ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE",
        Layer.JOB,
        symptoms=(r"requested node configuration is not available",),
        where=_JOB,
    ),
)
