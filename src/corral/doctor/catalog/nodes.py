"""What Slurm itself says of a node: its state and reason."""

from __future__ import annotations

from typing import Final

from corral.doctor.model import Failure, Layer, Mend, Source

_SAID: Final = (Source.REASON, Source.SLURMCTLD)

FAILURES: Final = (
    Failure(
        "F07",
        "realmemory-too-high",
        "a node has less memory than its line in slurm.conf says",
        "RealMemory is above what slurmd reports; a kernel update may keep more for itself",
        "take slurmd -C and subtract 2 to 5 %: corral apply; never config_overrides, which hides "
        "it",
        "slurm node_mgr.c; slurm.conf(5)",
        Layer.CONFIG,
        symptoms=(r"low realmemory",),
        where=_SAID,
        mend=Mend.APPLY,
    ),
    Failure(
        "F08",
        "realmemory-unset",
        "Slurm thinks the node has 1 MiB of memory",
        "RealMemory is not written: its default is 1",
        "always write it: corral apply",
        "slurm.conf(5)",
        Layer.CONFIG,
        symptoms=(r"memory specification can not be satisfied",),
        where=(Source.JOB, Source.SLURMCTLD),
        mend=Mend.APPLY,
    ),
    Failure(
        "F09",
        "cpu-layout-wrong",
        "a node has fewer CPUs than its line in slurm.conf says",
        "CPUs, Sockets, CoresPerSocket or ThreadsPerCore are above what slurmd sees",
        "take slurmd -C: corral apply",
        "aws-plugin-for-slurm issue 10",
        Layer.CONFIG,
        symptoms=(r"low (?:socket\*core\*thread count|cpus|cores|sockets)",),
        where=_SAID,
        mend=Mend.APPLY,
    ),
    Failure(
        "F10",
        "gpu-count-low",
        "a node has fewer GPUs than its line in slurm.conf says",
        "gres.conf lists fewer, a GPU is gone, or its MIG layout changed",
        "was the file right before? then look for the GPU (nvidia-smi, dmesg); else corral apply",
        "slurm gres.c",
        Layer.CONFIG,
        symptoms=(r"gres/gpu count reported lower than configured",),
        where=_SAID,
        mend=Mend.APPLY,
    ),
    Failure(
        "F39",
        "node-rebooted",
        "a node was rebooted and is kept down",
        "ReturnToService is 0 or 1 and nobody planned the boot",
        "look why it rebooted (last -x, journalctl -b -1), then: corral resume NODE",
        "Slurm FAQ",
        Layer.NODE,
        symptoms=(r"node unexpectedly rebooted",),
        where=_SAID,
        mend=Mend.RESUME,
    ),
    Failure(
        "F51",
        "prolog-failed",
        "the prolog fails",
        "the program before each job ended with an error, so Slurm drains the node",
        "run it by hand on the node as root and read what it says, then: corral resume NODE",
        "SchedMD prolog_epilog.html",
        Layer.NODE,
        symptoms=(
            r"prolog error",
            r"prolog or job env setup failure",
            r"job prolog failed",
            r"prolog(?: \S+)? (?:failed|exit status \d)",
        ),
    ),
    Failure(
        "F83",
        "node-not-responding",
        "the controller does not hear from a node",
        "slurmd does not run there, the network is cut, or the machine is gone",
        "corral status; the machine's journalctl -u slurmd",
        "slurm.conf(5), SlurmdTimeout",
        Layer.NODE,
        symptoms=(
            r"(?:^|\W)not responding(?:$|\W)",
            r"nodes? \S+ not responding, setting down",
            r"communication connection failure",
        ),
        where=_SAID,
    ),
    Failure(
        "F84",
        "kill-task-failed",
        "a job's processes could not be ended",
        "they hang in the kernel: on a dead NFS server, a lost GPU, or a full disk",
        "ps -eo pid,stat,wchan,args | grep ' D' on the node; mend what they wait for, or reboot "
        "it; then "
        "corral resume NODE",
        "slurm.conf(5), UnkillableStepTimeout",
        Layer.NODE,
        symptoms=(r"kill task failed",),
        where=_SAID,
    ),
    Failure(
        "F85",
        "epilog-failed",
        "the epilog fails",
        "the program after each job ended with an error, so Slurm drains the node",
        "run it by hand on the node as root and read what it says, then: corral resume NODE",
        "SchedMD prolog_epilog.html",
        Layer.NODE,
        symptoms=(r"epilog error",),
        where=_SAID,
    ),
    Failure(
        "F86",
        "registration-refused",
        "slurmd cannot register with the controller",
        "the controller drops its message: keys, clocks or versions differ, or it is not up",
        "look for F01, F02, F03, F17 and F19 first; they print this as well",
        "slurm slurmd.c",
        Layer.NODE,
        symptoms=(
            r"unable to register: (?:zero bytes were transmitted|unspecified error|protocol auth)",
            r"protocol authentication error",
            r"srun: .*zero bytes were transmitted or received",
        ),
        where=(Source.SLURMD, Source.SLURMCTLD, Source.JOB),
    ),
    Failure(
        "F87",
        "health-check-failed",
        "the node's health check took it out",
        "a check of the node's health found something; the reason says which",
        "mend what the reason names; the check resumes the node itself when it is well",
        "slurm.conf(5), HealthCheckProgram",
        Layer.NODE,
        symptoms=(r"\bnhc: ", r"^health\.[a-z]+: "),
        where=(Source.REASON,),
    ),
    Failure(
        "F104",
        "measured-slow",
        "measured too slow twice by the scheduled proof",
        "the figure in the reason lies far below its fellows' or its own past: a clock that heat "
        "or power holds down, a disk that is worn, full or being rebuilt, a GPU or its link",
        "look at what the figure names on that node; well again, it is taken back by the next "
        "round (at once: corral-proof-round on the controller), and corral resume NODE takes it "
        "back as it is",
        "docs/guide/proof-report.md",
        Layer.NODE,
        symptoms=(r"^proof\.\w+: ",),
        where=(Source.REASON,),
    ),
    Failure(
        "F200",
        "job-lost",
        "a job counts as running and has no process on its node",
        "the node stopped and was back before SlurmdTimeout, or the job's slurmstepd was killed: "
        "srun takes that for the end of the tasks' output and waits, and Slurm keeps the job "
        "until its time limit",
        "scontrol requeue JOB, or scancel JOB. All of a node at once: scontrol update "
        "nodename=NODE state=down reason=lost, then scontrol update nodename=NODE state=resume",
        "Slurm 24.11.5, slurmctld node_mgr.c and srun step_launch.c",
        Layer.JOB,
    ),
    Failure(
        "F201",
        "step-left",
        "a slurmstepd runs on a node and its job is over",
        "the controller lost the job (its state folder was replaced, or it was purged while the "
        "node did not answer), or its processes cannot end; they still hold memory and GPUs that "
        "Slurm gives to others",
        "look at it with: ps -ef --forest on the node; end it with: kill PID, or reboot the node "
        "once it is drained",
        "Slurm 24.11.5, slurmd req.c",
        Layer.NODE,
    ),
)
