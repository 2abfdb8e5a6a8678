"""Messages as Slurm, munge, NCCL and the kernel really print them, and the failure each shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from corral.doctor.catalog import catalog
from corral.doctor.logs.diagnosis import read, report
from corral.doctor.model import Diagnosis, Layer, Severity, Source

REAL_XID = (Path(__file__).parents[3] / "recorded/health/h100-xid-31.txt").read_text()
CTLD, SLURMD, JOB = Source.SLURMCTLD, Source.SLURMD, Source.JOB

# (id of the first cause, source, text). Texts marked R in reference/failures.md were reproduced.
CASES: tuple[tuple[str, Source, str], ...] = (
    ("F01", CTLD, "error: Munge decode failed: Invalid credential"),
    (
        "F01",
        SLURMD,
        "error: Munge decode failed: Invalid credential\n"
        "error: Unable to register: Zero Bytes were transmitted or received\n"
        "error: service_connection: slurm_receive_msg: Protocol authentication error",
    ),
    (
        "F02",
        CTLD,
        "error: Munge decode failed: Rewound credential\nerror: Check for out of sync clocks",
    ),
    (
        "F02",
        SLURMD,
        "error: Munge decode failed: Expired credential\n"
        "error: Unable to register: Zero Bytes were transmitted or received",
    ),
    ("F02", Source.ANY, "STATUS:           Expired credential (15)"),
    (
        "F03",
        SLURMD,
        'error: Munge encode failed: Failed to access "/run/munge/munge.socket.2": No such file or '
        "directory (Did you start munged?)\nerror: If munged is up, restart with --num-threads=10",
    ),
    (
        "F03",
        JOB,
        'error: Munge encode failed: Failed to access "/run/munge/munge.socket.2"\n'
        "slurm_load_partitions: Protocol authentication error",
    ),
    (
        "F04",
        CTLD,
        "error: Node node1 appears to have a different slurm.conf than the slurmctld.  This could "
        "cause "
        "issues with communication and functionality.",
    ),
    (
        "F05",
        CTLD,
        "error: get_addr_info: getaddrinfo() fAiled: Name or service not known: No error, attempt "
        "-4\n"
        'error: slurm_set_addr: Unable to resolve "node-does-not-exist.invalid"',
    ),
    ("F07", Source.REASON, "Low RealMemory (reported:24105 < 100.00% of configured:999999)"),
    ("F08", JOB, "srun: error: Memory specification can not be satisfied"),
    ("F09", Source.REASON, "Low socket*core*thread count, Low CPUs"),
    ("F10", Source.REASON, "gres/gpu count reported lower than configured (1 < 2)"),
    ("F11", JOB, "srun: error: Invalid generic resource (gres) specification"),
    (
        "F12",
        SLURMD,
        "fatal: We were configured to autodetect nvml functionality, but we weren't able to find "
        "that "
        "lib when Slurm was configured.",
    ),
    ("F12", SLURMD, "error: unknown autodetect flag 'nvidia'"),
    (
        "F13",
        SLURMD,
        "error: Waiting for gres.conf file /dev/nvidia0\n"
        "fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory",
    ),
    ("F14", SLURMD, "fatal: gres.conf duplicate records for gpu"),
    (
        "F14",
        SLURMD,
        'fatal: gres.conf for gpu, some records have "Type=" specification while others do not',
    ),
    (
        "F15",
        SLURMD,
        "error: cgroup namespace 'freezer' not mounted. aborting\n"
        "error: unable to create freezer cgroup namespace\n"
        "error: cannot create proctrack context for proctrack/cgroup\n"
        "error: slurmd initialization failed",
    ),
    ("F2100", SLURMD, "error: cannot find cgroup plugin for cgroup/v2"),
    (
        "F17",  # a user's request makes slurmd print the same: never a cause on a cluster
        Source.ANY,
        "error: Security violation, ping RPC from uid 1\n"
        "error: Do you have SlurmUser configured as uid 1?\n"
        "error: cred/munge: Unexpected uid (1) != Slurm uid (65534)",
    ),
    (
        "F165",
        SLURMD,
        "error: Unable to register: Unable to contact slurm controller (connect failure)",
    ),
    ("F161", JOB, "srun: error: Timed out waiting for job step to complete"),
    ("F205", JOB, "inotify_add_watch(/var/log) failed: No space left on device"),
    ("F19", SLURMD, "error: Incompatible versions of client and server code"),
    ("F2105", JOB, "enroot-nsenter: failed to create user namespace: Permission denied"),
    ("F20", JOB, "enroot-nsenter: failed to create user namespace: No space left on device"),
    ("F20", JOB, "unshare: unshare failed: No space left on device"),
    ("F21", JOB, "mkdir: cannot create directory '/run/enroot': Permission denied"),
    (
        "F22",
        SLURMD,
        "error: spank: /usr/lib/x86_64-linux-gnu/slurm-wlm/spank_pyxis.so: Incompatible plugin "
        "version\n"
        "error: slurmd initialization failed",
    ),
    ("F24", Source.DRIVER, "Failed to initialize NVML: Driver/library version mismatch"),
    (
        "F25",
        JOB,
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current "
        "PyTorch "
        "installation.",
    ),
    ("F29", JOB, "ibv_reg_mr_iova2 failed with error Cannot allocate memory"),
    ("F30", JOB, "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: ..."),
    (
        "F30",
        JOB,
        "[W socket.cpp:601] The client socket has timed out after 60s while trying to connect to "
        "(localhost, 29500).",
    ),
    (
        "F330",
        JOB,
        'RuntimeError: nonce == returnedNonce INTERNAL ASSERT FAILED at "TCPStore.cpp":405, please '
        "report a bug to PyTorch. Ping failed, invalid nonce returned",
    ),
    (
        "F31",
        CTLD,
        "error: ClusterName needs to be specified\nfatal: Unable to process configuration file",
    ),
    (
        "F2161",
        JOB,
        "ibwarn: Remote access error, vendor error 136 on mlx5_0",
    ),
    (
        "F1600",
        JOB,
        "Got completion from peer 10.0.0.1 with error 12, opcode 0, len 0, vendor err 129",
    ),
    ("F39", Source.REASON, "Node unexpectedly rebooted"),
    ("F41", JOB, "enroot-mount: failed to mount: /shared/enroot at /: Permission denied"),
    ("F42", Source.ANY, "Could not open 'abi/4.0'"),
    ("F43", JOB, "FileNotFoundError: [Errno 2] No such file or directory: 'scontrol'"),
    ("F48", JOB, "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"),
    ("F49", Source.ANY, '{"error": {"code": "instance-operations/launch/insufficient-capacity"}}'),
    (
        "F38",
        CTLD,
        "error: slurm_persist_conn_open_without_init: failed to open persistent connection to "
        "host:127.0.0.1:6819: Connection refused\n"
        "error: Sending PersistInit msg: Connection refused",
    ),
    (
        "F38",
        CTLD,
        "fatal: You are running with a database but for some reason we have no TRES from it.  This "
        "should only happen if the database is down and you don't have any state files.",
    ),
    ("F51", Source.REASON, "Prolog error"),
    (
        "F51",
        CTLD,
        "error: validate_node_specs: Prolog or job env setup failure on node node0, draining the "
        "node",
    ),
    ("F52", SLURMD, "fatal: Hybrid mode is not supported. Mounted cgroups are: 9:name=systemd:/"),
    (
        "F52",
        SLURMD,
        "slurmd: fatal: /sys/fs/cgroup is not a valid cgroup2 mountpoint\n"
        "slurmd: Resuming operation, reconfigure failed.",
    ),
    ("F72", SLURMD, "slurmd: Resuming operation, reconfigure failed."),
    ("F105", SLURMD, "slurmd: fatal: Unable to determine this slurmd's NodeName"),
    ("F53", CTLD, "error: This host (vm/vm) not a valid controller"),
    (
        "F54",
        SLURMD,
        'error: slurm_set_addr: Unable to resolve "127.0.0.1"\n'
        "error: Unable to establish control machine address",
    ),
    (
        "F54",
        SLURMD,
        "error: _xgetaddrinfo: getaddrinfo() failed: Name or service not known: Invalid argument, "
        'attempt number 5\nerror: slurm_set_addr: Unable to resolve "(null)"\n'
        "error: Error creating slurm stream socket: Address family not supported by protocol",
    ),
    (
        "F58",
        Source.PACKAGES,
        "E: Release file for http://x/InRelease is expired (invalid since 3d).",
    ),
    ("F61", Source.PACKAGES, "Setting up slurm (0.4.4-1) ..."),
    ("F62", JOB, "use_libuv was requested but PyTorch was build without libuv support"),
    (
        "F64",
        Source.ANY,
        "runc: error setting rlimits: setrlimit RLIMIT_NOFILE: operation not permitted",
    ),
    ("F65", Source.ANY, "mv: cannot move 'x' to '/etc/hosts': Device or resource busy"),
    ("F67", CTLD, "error: Can't save state, create file error: No space left on device"),
    ("F68", JOB, "ls: cannot access '/shared': Stale file handle"),
    ("F72", CTLD, "error: _parse_next_key: Parsing error at unrecognized key: FooBar"),
    ("F84", Source.REASON, "Kill task failed"),
    ("F104", Source.REASON, "proof.cpu_mb_s: cpu_mb_s is 70.6, it had 430 before"),
    ("F90", JOB, "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0."),
    (
        "F103",  # Enroot 4.1.2 with Pyxis 0.24.0 in a job of 100 MiB
        JOB,
        "slurmstepd-node1: error: pyxis: child 3853 failed with error code: 137\n"
        "slurmstepd-node1: error: pyxis:     [INFO] Extracting squashfs filesystem...\n"
        "slurmstepd-node1: error: pyxis:     /usr/lib/enroot/runtime.sh: line 391:  3885 Killed"
        '                  unsquashfs ${TTY_OFF+-no-progress} -d "${rootfs}" "${image}" 1>&2\n'
        "slurmstepd-node1: error: Detected 1 oom_kill event in StepId=5.0. Some of the step tasks"
        " have been OOM Killed.\n"
        "srun: error: node1: task 0: Out Of Memory",
    ),
    (
        "F91",
        JOB,
        "error: *** JOB 9 ON node0 CANCELLED AT 2026-03-01T00:00:00 DUE TO TIME LIMIT ***",
    ),
    ("F77", Source.KERNEL, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."),
    ("F78", Source.KERNEL, "NVRM: Xid (PCI:0000:3b:00): 94, pid=77, Contained: SM (0x1)."),
    (
        "F79",
        Source.KERNEL,
        "NVRM: Xid (PCI:0000:3b:00): 74, pid=7, NVLink: fatal error detected on link 3",
    ),
    ("F80", Source.KERNEL, REAL_XID),
    (
        "F88",
        JOB,
        "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation "
        "to complete",
    ),
    (
        "F81",
        Source.KERNEL,
        "NVRM: Xid (PCI:0000:3b:00): 119, pid=9, Timeout waiting for RPC from GSP",
    ),
    (
        "F23",
        JOB,
        "host dgx01\nRuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system "
        "not yet "
        "initialized\nnvidia-fabricmanager inactive",
    ),
    (
        "F55",
        JOB,
        "CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 304: OS call "
        "failed or operation not supported on this OS",
    ),
    (
        "F23",
        JOB,
        "CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 802: system not "
        "yet "
        "initialized",
    ),
    (
        "F59",
        JOB,
        "x:1:1 [0] NCCL INFO NET/IB : No device found.\nx:1:1 [0] NCCL INFO Using network Socket",
    ),
    ("F26", JOB, "x:1:1 [0] NCCL INFO NET/Socket : Using [0]docker0:172.17.0.1<0>"),
    ("F27", JOB, "x:1:1 [0] NCCL INFO NET/Socket : Using [0]tailscale0:100.64.0.3<0>"),
    ("F88", JOB, "[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)"),
    ("F89", JOB, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
)


@pytest.mark.parametrize(
    ("first", "source", "text"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
def test_the_first_cause_is_named(first: str, source: Source, text: str) -> None:
    findings = report(read(text, source, "node1")).findings
    assert [d.failure.id for d in findings][:1] == [first]
    assert findings[0].evidence
    assert findings[0].nodes == ("node1",)


@pytest.mark.parametrize(
    ("first", "source", "text"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
def test_nothing_else_is_claimed(first: str, source: Source, text: str) -> None:
    assert [d.failure.id for d in report(read(text, source)).findings] == [first]


@pytest.mark.parametrize(
    ("first", "source", "text"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
def test_a_pasted_log_names_it_too(first: str, source: Source, text: str) -> None:
    noise = "[2026-11-21T10:00:00.123] slurmctld version 24.11.5 started on cluster lab\n"
    findings = report(read(noise + text + "\nsome other line\n")).findings
    # Or by a narrower entry for pasted logs (``where: [job]``) that hides it.
    assert first in {number for d in findings for number in (d.failure.id, *d.failure.hides)}


def test_unpacking_that_was_cancelled_ran_out_of_nothing() -> None:
    text = "runtime.sh: line 391:  3885 Killed      unsquashfs -d /x\nerror: JOB 9 CANCELLED"
    assert read(text, JOB) == ()


def test_what_does_not_help_torchrun_is_not_advised() -> None:
    """USE_LIBUV=0 is for ranks alone: torchrun's agents do not look at it (seen with 2.6)."""
    (findings,) = report(
        read("use_libuv was requested but PyTorch was build without libuv")
    ).findings
    assert "--launcher torchrun" in findings.failure.fix
    assert re.search(r"ranks by srun with USE_LIBUV=0", findings.failure.fix)
    assert "whatever USE_LIBUV is" in findings.failure.cause


HEALTHY = """\
slurmctld: slurmctld version 24.11.5 started on cluster laptop(1)
slurmctld: cred/slurm: init: credential creation plugin loaded
slurmctld: auth/slurm: init: running in local auth mode
slurmctld: Running as primary controller
slurmctld: No parameter for mcs plugin, default values set
slurmctld: Recovered state of 3 nodes
slurmctld: SchedulerParameters=default_queue_depth=100
slurmctld: sched: Allocate JobId=12 NodeList=node[0-2] #CPUs=3 Partition=main
slurmctld: _job_complete: JobId=12 WEXITSTATUS 0
slurmd: Node reconfigured socket/core boundaries SocketsPerBoard=2:1(hw) CoresPerSocket=1:2(hw)
slurmd: CPUs=2 Boards=1 Sockets=1 Cores=2 Threads=1 Memory=23982 TmpDisk=1 Uptime=120
slurmd: launch task StepId=12.0 request from UID:2000 GID:2000 HOST:10.90.0.2 PORT:44444
[2026-11-21T10:00:00] done with slurm_ping
epoch 1 loss 2.30 accuracy 0.11; epoch 2 loss 0.33 accuracy 0.98
x:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>
x:1:1 [0] NCCL INFO Using network IB
nvidia 0000:3b:00.0: enabling device (0000 -> 0003)
"""


@pytest.mark.parametrize("source", Source)
def test_a_healthy_log_shows_nothing(source: Source) -> None:
    assert read(HEALTHY, source) == ()


def test_consequences_are_hidden_on_the_same_node_only() -> None:
    munge = Diagnosis(catalog()["F03"], ("node1",), ("x",))
    here = Diagnosis(catalog()["F83"], ("node1",), ("y",))
    there = Diagnosis(catalog()["F83"], ("node1", "node2"), ("y",))
    assert [d.failure.id for d in report([here, munge]).findings] == ["F03"]
    assert [d.failure.id for d in report([there, munge]).findings] == ["F03", "F83"]


def test_the_deeper_layer_comes_first() -> None:
    layers = [Layer.JOB, Layer.MACHINE, Layer.CONFIG]
    errors = [f for f in catalog().values() if f.severity is Severity.ERROR]
    some = [next(f for f in errors if f.layer is layer) for layer in layers]
    findings = report([Diagnosis(f, ("n",), ("x",)) for f in some]).findings
    assert [d.failure.layer for d in findings] == sorted(layers)


def test_same_failure_on_several_nodes_is_one_finding() -> None:
    text = "Munge decode failed: Invalid credential"
    findings = [*read(text, SLURMD, "a"), *read(text, SLURMD, "b")]
    (finding,) = report(findings).findings
    assert finding.nodes == ("a", "b")


LOGS = sorted((Path(__file__).parents[3] / "recorded" / "doctor" / "jobs").glob("F*.log"))


@pytest.mark.parametrize("file", LOGS, ids=lambda f: f.stem)
def test_a_real_jobs_log_names_its_failure_and_nothing_else(file: Path) -> None:
    """Printed by real jobs on an embedded cluster: Slurm 24.11.5, PyTorch 2.6 of Debian."""
    findings = report(read(file.read_text())).findings
    assert [d.failure.id for d in findings] == [file.stem.partition("-")[0]]
