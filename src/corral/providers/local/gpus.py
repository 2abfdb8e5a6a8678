"""Whether Slurm can have the GPUs of this machine: all of one model, working, and in no use."""

from __future__ import annotations

from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.local import Local
from corral.inspect import gpu, nvidia
from corral.inspect.question import Answers, inquiry
from corral.inspect.rules import amd_only, driver_problem, gpu_problem

HERE: Final = "this machine"
TIMEOUT_S: Final = 100.0
QUESTIONS: Final = (*nvidia.DRIVER, nvidia.AMD, gpu.PCI)


async def check_gpus() -> None:
    """Ask this machine.

    Raises:
        CorralError: PROVIDER_FAILED, its GPUs cannot be Slurm's; TIMED_OUT, the driver hangs.
    """
    asked = inquiry(QUESTIONS)
    result = await Local(HERE).run(asked.script, timeout=TIMEOUT_S)
    require_usable(asked.answers(result.stdout, HERE, "look at the GPUs"))


def require_usable(answers: Answers) -> None:
    """Raise why the GPUs of these answers cannot be Slurm's.

    Nothing where there are none, or none with a driver yet: a plan may install it.

    Raises:
        CorralError: PROVIDER_FAILED.
    """
    state = nvidia.driver_state(answers)
    if not state.loaded:
        if amd_only(nvidia.AMD.read_or_empty(answers), gpu.gpu_pci(answers)):
            raise _unusable(
                "they are AMD's, and Corral supports NVIDIA's", "remove gpu: from the group"
            )
        return
    if problem := driver_problem(state.loaded, state.listed, state.programs):
        raise _unusable(problem.text, problem.hint)
    models = sorted({gpu.name for gpu in state.gpus})
    if len(models) > 1:
        raise _unusable(
            f"they are of {len(models)} models ({', '.join(models)}), and the GPUs of a node are "
            "of one type",
            "make embedded nodes, a group for each model: corral init laptop",
        )
    for problem in filter(None, map(gpu_problem, state.gpus)):
        raise _unusable(problem.text, problem.hint)


def _unusable(why: str, hint: str) -> CorralError:
    return CorralError(
        Code.PROVIDER_FAILED, f"Slurm cannot have the GPUs of this machine: {why}", hint=hint
    )
