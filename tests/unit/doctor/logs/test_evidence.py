"""What a log shows next to a message decides between its causes: a disproved one is not named."""

from __future__ import annotations

import pytest

from corral.doctor.logs.diagnosis import explain
from tests.unit.doctor.logs.test_corpus import named

MUNGE = 'munge: Error: Failed to access "/run/munge/munge.socket.2": Permission denied'
KEY = "sackd: fatal: auth/slurm: Could not load key file (/etc/slurm/slurm.key)"
CDI = "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all"
FABRIC = (
    "nv-fabricmanager[6120]: request to query NVSwitch device information from NVSwitch driver "
    "failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
)
NOT_READY = "RuntimeError: Error 802: system not yet initialized"
HEAP = "double free or corruption (fasttop)"
NO_CONFIG = "scontrol: fatal: Could not establish a configuration source"
RANK = "ValueError: Invalid rank 8, rank should be in the interval [0, 7]"
FORK = "OSError: [Errno 12] Cannot allocate memory"
QP = "n1:7:9 [5] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out"
HUGE = "HugePages_Total:    5128\nHugePages_Free:     "
WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE)"
LOADING = "Loading checkpoint shards:  57%| 53/93 [25:40<19:22, 29.07s/it]"
BUSY = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"
SYMBOL = "ImportError: libtorch_cuda.so: undefined symbol: ncclCommResume"
LIMIT = " 72  gpu  train  ana PD  0:00  1 (QOSMaxMemoryPerUser)"
PORT = "slurmdbd: fatal: slurm_init_msg_engine_port error Address already in use"
TIMEOUT = (
    "srun: error: slurm_receive_msgs: [[n4]:6818] failed: Socket timed out on send/recv operation"
)
UNKNOWN = 'sbatch: error: Unable to resolve "ctl1": Unknown host'
UNKNOWN_FULL = 'sbatch: error: Unable to resolve "ctl1.cluster.local": Unknown host'
POWERED_DOWN = "node c3 not resumed by ResumeTimeout(1800), setting DOWN and POWERED_DOWN"
HELD = "  31  all  rest  ana PD  0:00  1 (JobHeldAdmin)"
ACCOUNT = "sbatch: error: Invalid account or account/partition combination specified"
JAX = "RuntimeError: Unable to initialize backend 'cuda': INTERNAL: no supported devices found"
UCX = "[n1:7:0:7]  ud_iface.c:746  Fatal: transport error: Endpoint timeout"
SILENT = "[no further output for 25 minutes]"
CASES = [
    (BUSY, "nvidia-smi: Default compute mode", "F2082"),
    (BUSY, "0, Exclusive_Process", "F2092"),
    (BUSY, "srun: error: n17: task 17: Exited with exit code 255", "F2083"),
    (SYMBOL, "nvidia-nccl-cu13   2.29.7", "F2067"),
    (SYMBOL, "nvidia-nccl-cu12   2.29.3\nnvidia-nccl-cu13   2.29.7", "F2068"),
    (LIMIT, "  normal    cpu=64,mem=512000M", "F1481"),
    (LIMIT, "  normal    cpu=64,mem=4M", "F2056"),
    (PORT, "SlurmctldPort=6817", "F101"),
    (PORT, "SlurmctldPort=6817-6827", "F2057"),
    (PORT, "SlurmctldPort=6820-6829", "F101"),
    (TIMEOUT, "sdiag: server thread count: 3", "F161"),
    (TIMEOUT, "Connection to n4 6818 port [tcp/*] succeeded!", "F2078"),
    (UNKNOWN, "nameserver 10.1.1.1", "F05"),
    (UNKNOWN, "search subnet2.cluster.internal", "F2079"),
    (UNKNOWN_FULL, "nameserver 10.1.1.1", "F05"),
    (UNKNOWN_FULL, "Submitted batch job 17", "F2080"),
    (POWERED_DOWN, "Status = Failed", "F211"),
    (POWERED_DOWN, "KeepAlive = true", "F2091"),
    (HELD, "Priority=0 Nice=0", "F244"),
    (HELD, "SystemComment=slurm_cred_create failure, holding job.", "F2085"),
    (ACCOUNT, "cluster|physics|ana", "F167"),
    (ACCOUNT, "slurmctld: error: User 1002 not found", "F2086"),
    (
        JAX,
        "unable to create StreamExecutor for CUDA:1: CUDA error: invalid device ordinal",
        "F2054",
    ),
    (UCX, "link_layer:  InfiniBand", "F2088"),
    (UCX, "link_layer:  Ethernet", "F2089"),
    (SILENT, "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB", "F2090"),
    (SILENT, "NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "F137"),
    (MUNGE, "drwx------ 2 munge munge 100 Feb  1 08:02 /run/munge", "F162"),
    (MUNGE, "drwxr-xr-x. 2 munge munge 100 Feb 18 13:02 /run/munge", "F2018"),
    (MUNGE, "user_u:user_r:user_t:s0", "F2018"),
    (KEY, "ls: cannot access '/etc/slurm/slurm.key': No such file or directory", "F2132"),
    (KEY, "-rw-r--r-- 1 root root 1024 Dec 17 04:11 /etc/slurm/slurm.key", "F75"),
    (KEY, "-rw------- 1 slurm slurm 1024 Dec 17 04:11 /etc/slurm/slurm.key", "F2010"),
    (CDI, "ls: cannot access '/run/cdi': No such file or directory", "F707"),
    (CDI, "/run/cdi:\n-rw-r--r-- 1 root root 18311 Jun 28 17:01 nvidia.json", "F2007"),
    (CDI, "/etc/cdi:\n-rw-r--r-- 1 root root 18311 Jun 28 17:01 nvidia.yaml", "F707"),
    (FABRIC, "GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-1)", "F379"),
    (FABRIC, "GPU 0: NVIDIA B200 (UUID: GPU-1)", "F2035"),
    (NOT_READY, "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)", "F23"),
    (NOT_READY, "GPU 0: NVIDIA L40S (UUID: GPU-1)", "F2036"),
    (HEAP, "srun: error: n1: task 0: Aborted (core dumped)", "F172"),
    (HEAP, "slurmctld.service: Main process exited, code=dumped, status=6/ABRT", "F2003"),
    (HEAP, "slurm-controller-0   2/3   CrashLoopBackOff   17   3h12m", "F2003"),
    (HEAP, "MetricsType=metrics/openmetrics", "F2004"),
    (NO_CONFIG, "login1$ ls /etc/slurm", "F153"),
    (NO_CONFIG, "==> qemu.compute: Provisioning step had errors", "F2011"),
    (RANK, "WORLD_SIZE=8 RANK=8", "F339"),
    (RANK, "All distributed processes registered. Starting with 40 processes", "F2026"),
    (FORK, HUGE + "5000", "F196"),
    (FORK, HUGE + "0", "F2020"),
    (QP, "n1:7:9 [5] NCCL INFO Using network IB", "F645"),
    (QP, "n1:7:9 [5] NCCL INFO Connected all rings", "F2000"),
    (WATCHDOG, "epoch 3", "F88"),
    (WATCHDOG, LOADING, "F2008"),
]
HELP = [
    "Your job has requested more processes than the ppr for\nthis topology can support:",
    "The mapping request contains an unrecognized qualifier:\n  Request: ppr:8:nodes:bad",
    "While computing bindings, we found no available cpus on\nthe following node:\n  Node:  n1",
    "Conflicting directives for mapping policy are causing the policy\nto be redefined:",
    "The specified mapping directive is not recognized:\n  Directive: ppr:nodes",
    "A negative value was returned from a call:\n  Path: /tmp\nYour job will now abort.",
]


@pytest.mark.parametrize(("message", "evidence", "cause"), CASES)
def test_evidence_decides_between_causes(message: str, evidence: str, cause: str) -> None:
    for log in (f"{message}\n{evidence}\n", f"{evidence}\n{message}\n"):
        assert named(explain(log)) == cause


@pytest.mark.parametrize("text", HELP)
def test_a_help_text_of_mpirun_is_not_healthy(text: str) -> None:
    assert not explain(f"{'-' * 74}\n{text}\n{'-' * 74}\n").healthy
