"""What follows from a failure is never named before it, whichever of the two is printed first."""

from __future__ import annotations

import pytest

from corral.doctor.logs.diagnosis import explain

# What Slurm, systemd, PyTorch, NCCL, MPI, Ray and Pyxis print when something else has ended.
CONSEQUENCES = """\
srun: error: n1: task 0: Exited with exit code 1
srun: error: n1: tasks 0-3: Killed
srun: error: n1: task 2: Terminated
srun: error: n1: task 2: Segmentation fault (core dumped)
srun: Terminating StepId=7.0
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2024-01-01T00:00:00 ***
slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2024-01-01T00:00:00 ***
srun: forcing job termination
BrokenPipeError: [Errno 32] Broken pipe
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
torch/distributed/elastic/multiprocessing/api.py:858] Sending process 8 closing signal SIGTERM
torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15
[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL
RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:21513
n1:7:7 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer n2<40000>
[rank0]:[W socket.cpp:464] [c10d] recvValue failed on SocketImpl(fd=7): Broken pipe
torch.distributed.DistNetworkError: Connection reset by peer
mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal 9 (Killed).
MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD with errorcode 1.
Primary job terminated normally, but 1 process returned a non-zero exit code.
subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.
slurmstepd: error: pyxis: couldn't start container
slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
slurmd.service: Failed with result 'exit-code'.
Failed to start slurmd.service: Slurm node daemon.
slurmd.service: Main process exited, code=exited, status=1/FAILURE
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
Aborted (core dumped)
KeyboardInterrupt
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
""".splitlines()
CAUSES = """\
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
ModuleNotFoundError: No module named 'frob'
OSError: [Errno 28] No space left on device: '/scratch/x'
n1:7:7 [0] include/shm.h:48 NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 9637892 bytes
slurmd: fatal: Unable to determine this slurmd's NodeName
slurmstepd: error: pyxis:     [ERROR] No such file or directory: /x/y.sqsh
frob: error while loading shared libraries: libfrob.so.4: cannot open shared object file
[W socket.cpp:601] [c10d] The client socket has failed to connect to [node01]:29500 (errno: 111)
""".splitlines()


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("consequence", CONSEQUENCES)
def test_a_cause_is_named_before_what_follows_from_it(cause: str, consequence: str) -> None:
    alone = explain(f"{cause}\n").findings[0].failure.id
    for text in (f"ok\n{cause}\n{consequence}\n", f"ok\n{consequence}\n{cause}\n"):
        assert explain(text).findings[0].failure.id == alone, text


@pytest.mark.parametrize("consequence", CONSEQUENCES)
def test_a_consequence_alone_is_not_called_a_cause(consequence: str) -> None:
    for finding in explain(f"{consequence}\n").findings[:1]:
        assert finding.severity.value != "error" or finding.failure.stated, finding.failure.title
