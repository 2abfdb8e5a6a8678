"""Whether Slurm can have the GPUs of this machine: all of one model, working, and in no use."""

from __future__ import annotations

from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.local import Local
from corral.inspect import nvidia
from corral.inspect.gpu import MINORS, bus_address, device_files
from corral.inspect.question import Answers, inquiry
from corral.providers.containers.gpus.host_gpus import HostGpu, host_gpu_rows

HERE: Final = "this machine"
TIMEOUT_S: Final = 100.0
QUESTIONS: Final = (nvidia.LISTED, MINORS, nvidia.CARDS, nvidia.USERS, nvidia.PROGRAMS)


async def check_gpus() -> None:
    """Ask this machine.

    Raises:
        CorralError: PROVIDER_FAILED, its GPUs cannot be Slurm's; TIMED_OUT, the driver hangs.
    """
    asked = inquiry(QUESTIONS)
    result = await Local(HERE).run(asked.script, timeout=TIMEOUT_S)
    require_usable(asked.answers(result.stdout, HERE, "look at the GPUs"))


def require_usable(answers: Answers) -> None:
    """Raise why the GPUs of these answers cannot be Slurm's; nothing where there are none.

    Raises:
        CorralError: PROVIDER_FAILED.
    """
    listed = {bus_address(bus) for bus in nvidia.LISTED.read(answers)}
    if not listed:
        return
    if not any(path.endswith("/nvidia-smi") for path in nvidia.PROGRAMS.parse(answers["programs"])):
        raise _unusable(
            "nvidia-smi is not installed", "install the driver's programs, or put it on the PATH"
        )
    gpus = host_gpu_rows(answers, device_files(MINORS.read(answers)))
    if missing := sorted(listed - {gpu.bus for gpu in gpus}):
        raise _unusable(
            f"nvidia-smi does not list the GPU at {', '.join(missing)}",
            "run nvidia-smi; a GPU that fell off the bus (Xid 79) needs a reboot",
        )
    models = sorted({gpu.name for gpu in gpus})
    if len(models) > 1:
        raise _unusable(
            f"they are of {len(models)} models ({', '.join(models)}), and the GPUs of a node are "
            "of one type",
            "make embedded nodes, a group for each model: corral init laptop",
        )
    for gpu in gpus:
        _require_free(gpu)


def _require_free(gpu: HostGpu) -> None:
    if gpu.mig:
        raise _unusable(
            f"{gpu.device} ({gpu.name}) is in MIG mode",
            f"nvidia-smi -i {gpu.uuid} -mig 0 (as root, with no process on it)",
        )
    if gpu.processes:
        raise _unusable(
            f"{gpu.device} ({gpu.name}) is in use by process {', '.join(gpu.processes)}",
            "end it: Slurm would give the GPU to a job too",
        )


def _unusable(why: str, hint: str) -> CorralError:
    return CorralError(
        Code.PROVIDER_FAILED, f"Slurm cannot have the GPUs of this machine: {why}", hint=hint
    )
