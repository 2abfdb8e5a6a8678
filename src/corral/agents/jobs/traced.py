# Installed as: lib/traced.py in the job's folder (jobs/profile/profiler, jobs/submit)
# Started by: srun, for each rank of a job that PyTorch profiles
# Runs as: the job's user
# pyright: basic, reportMissingImports=false
# It runs under the node's own PyTorch, which is not installed where Corral is checked.
"""Runs a training script as it is, and records a few of its steps with torch.profiler.

    python3 traced.py SCRIPT [ARGS...]

A step is one call of an optimizer's step(), whatever optimizer that is. The first ones are left out
(CORRAL_PROFILE_SKIP, 3): they load libraries and choose kernels. The next ones are recorded
(CORRAL_PROFILE_STEPS, 5), with a marker at each end; then the script runs on unprofiled. A script
that never steps (inference) is recorded completely with CORRAL_PROFILE_SKIP=all.

Each rank writes ``$CORRAL_JOB_FOLDER/profile/rank-N.json.gz``, a Chrome trace, under another name
first: so it is complete or not there.
"""

import os
import runpy
import sys
import warnings
from pathlib import Path

MARK = "corral step"
SKIP, STEPS = "CORRAL_PROFILE_SKIP", "CORRAL_PROFILE_STEPS"


class Recorder:
    """One rank's recording: started and stopped by the optimizer's steps."""

    def __init__(self, torch):
        self.torch = torch
        self.rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
        self.complete = os.environ.get(SKIP) == "all"
        self.skip = 0 if self.complete else int(os.environ.get(SKIP, "3"))
        self.steps = int(os.environ.get(STEPS, "5"))
        self.seen = 0
        self.pid = os.getpid()
        self.profiler = None

    def start(self):
        """Record from here on."""
        profiler = self.torch.profiler
        # PyTorch 2.11 warns of recordings with several cycles; this one has one.
        warnings.filterwarnings("ignore", message="Warning: Profiler clears events")
        activities = [profiler.ProfilerActivity.CPU]
        if self.torch.cuda.is_available():
            activities.append(profiler.ProfilerActivity.CUDA)
        self.profiler = profiler.profile(activities=activities)
        self.profiler.start()
        self.mark()

    def mark(self):
        """A point in the trace: a step begins or ends."""
        with self.torch.profiler.record_function(f"{MARK} {self.seen}"):
            pass

    def stepped(self, *_):
        """After each step of any optimizer."""
        self.seen += 1
        if self.complete:
            return
        if self.profiler is not None:
            self.mark()
            if self.seen >= self.skip + self.steps:
                self.finish()
        elif self.seen == self.skip:
            self.start()

    def finish(self):
        """Write what was recorded; nothing in a child process, which inherits all of this."""
        profiler, self.profiler = self.profiler, None
        if profiler is None or os.getpid() != self.pid:
            return
        if self.torch.cuda.is_available():
            self.torch.cuda.synchronize()
        profiler.stop()
        self.skip = self.steps = 0
        folder = Path(os.environ.get("CORRAL_JOB_FOLDER", ".")) / "profile"
        folder.mkdir(parents=True, exist_ok=True)
        # The ending decides whether PyTorch compresses it.
        new = folder / f".rank-{self.rank}.new.json.gz"
        profiler.export_chrome_trace(str(new))
        new.replace(folder / f"rank-{self.rank}.json.gz")


def main():
    """Run the script; its ending is this program's."""
    program, *arguments = sys.argv[1:]
    try:
        import torch  # noqa: PLC0415
        from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: PLC0415
    except ImportError as error:
        sys.exit(f"corral: --profile torch needs PyTorch 2.0 or newer on the node: {error}")
    recorder = Recorder(torch)
    register_optimizer_step_post_hook(recorder.stepped)
    leave = os._exit

    def exit_at_once(status):
        # Scripts that end so skip every other way of noticing that they do.
        recorder.finish()
        leave(status)

    os._exit = exit_at_once
    sys.argv = [program, *arguments]
    sys.path[0] = str(Path(program).resolve().parent)
    if recorder.skip == 0:
        recorder.start()
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        recorder.finish()
        if recorder.seen < recorder.skip:
            print(
                f"corral: no profile: {recorder.seen} optimizer steps, {recorder.skip} are left "
                f"out; {SKIP}=all records a script that makes none",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
