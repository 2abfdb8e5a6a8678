"""A shell with GPUs: one srun on the controller, at a terminal. Pure."""

from __future__ import annotations

from typing import Final

from corral.hosts.quote import Script, join, sh
from corral.jobs import containers
from corral.jobs.model import JobSpec
from corral.jobs.script import Place
from corral.slurm.duration import clock

# An image may have another shell than the user's.
_INSIDE: Final = "sh -c 'command -v bash >/dev/null && exec bash; exec sh'"


def shell_script(job: JobSpec, place: Place) -> Script:
    """``srun --pty`` for a login shell on the first node of what the job asks for.

    The shell has the entire allocation: srun in it starts ranks on all its nodes.
    """
    gpu = f"gpu:{job.gpu_type}" if job.gpu_type else "gpu"
    words: list[object] = [
        f"--job-name={job.name or 'shell'}",
        f"--partition={place.partition}",
        f"--nodes={job.nodes}",
        f"--ntasks-per-node={job.ranks_on_node}",
        f"--cpus-per-task={place.cpus_per_rank}",
    ]
    if job.gpus_per_node:
        words.append(f"--gres={gpu}:{job.gpus_per_node}")
    if place.mem:
        words.append(f"--mem={place.mem}")
    if job.seconds:
        words.append(f"--time={clock(job.seconds)}")
    words += job.sbatch
    exports = [sh("export {name}={value}", name=k, value=v) for k, v in sorted(job.env.items())]
    # salloc holds the entire allocation; srun alone would take as many shells as tasks. Its own
    # LaunchParameters=use_interactive_step is not set everywhere.
    inner = sh(
        "cd\n{env}\nexec salloc --quiet {words} "
        "srun --pty --nodes=1 --ntasks=1 --cpus-per-task={cpus} --overlap --mem-per-cpu=0 "
        "{container}{shell}",
        env=join(exports),
        words=words,
        cpus=place.cpus_per_rank * job.ranks_on_node,
        container=join([containers.words(job, place.mounts), sh(" ")], ""),
        shell=sh(_INSIDE) if job.container else sh('"${{SHELL:-/bin/bash}}" -l'),
    )
    return inner
