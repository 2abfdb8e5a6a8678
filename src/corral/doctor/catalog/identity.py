"""Who is who: keys, key daemons, clocks that make credentials old, numeric ids."""

from __future__ import annotations

from typing import Final

from corral.doctor.model import Failure, Layer, Mend, Source

_LOGS: Final = (Source.SLURMCTLD, Source.SLURMD, Source.SLURMDBD, Source.MUNGE, Source.JOB)

FAILURES: Final = (
    Failure(
        "F01",
        "key-mismatch",
        "the cluster's key differs between nodes",
        "munge.key or slurm.key is not the same on all nodes, or its daemon was not restarted "
        "after "
        "it had changed",
        "put one key everywhere: corral apply; then restart what uses it (compare sha256 sums, "
        "never "
        "the keys)",
        "SchedMD authentication.html; batchtools issue 201",
        Layer.IDENTITY,
        symptoms=(
            r"munge decode failed: invalid credential",
            r"STATUS: Invalid credential",
            r"auth/slurm: .*(?:signature|verif\w+) fail",
            r"auth_p_verify: .*fail.*key",
            r"internal_jwt_decode.*fail|could not (?:verify|decode) .*slurm(?:\.key|_internal| "
            r"auth)",
        ),
        where=_LOGS,
        mend=Mend.APPLY,
    ),
    Failure(
        "F02",
        "clock-skew",
        "a clock is off",
        "clocks differ by more than a credential lives (munge: 300 s)",
        "run chrony on every node; corral apply sets it up; on virtual machines look at the host's "
        "clock too",
        "Slurm FAQ; munge(7)",
        Layer.MACHINE,
        symptoms=(
            r"munge decode failed: (?:rewound|expired) credential",
            r"check for out of sync clocks",
            r"STATUS: (?:Expired|Rewound) credential",
            r"token (?:is )?(?:expired|not yet valid|issued in the future)",
        ),
        where=_LOGS,
        mend=Mend.APPLY,
    ),
    Failure(
        "F03",
        "munged-down",
        "munged does not run",
        "the daemon was stopped or could not start: /run/munge or its key has the wrong owner or "
        "mode",
        "systemctl restart munge, and read journalctl -u munge when it does not stay up",
        "munged(8)",
        Layer.IDENTITY,
        symptoms=(
            r"munge encode failed: failed to access \"?\S*munge\.socket",
            r"did you start munged\?",
            r"if munged is up, restart with --num-threads",
            r"munged?: error: .*(?:keyfile|logfile|socket|seed).*(?:insecure|permission|not owned)",
        ),
        mend=Mend.APPLY,
    ),
    Failure(
        "F17",
        "slurm-uid-differs",
        "the user slurm has another number on some nodes",
        "packages choose a free uid where none was pinned: credentials of the controller's slurm "
        "are "
        "another user's on the node",
        "give slurm one uid and gid on all nodes before Slurm is installed; corral apply refuses "
        "until it is so",
        "CycleCloud Slurm README",
        Layer.IDENTITY,
        symptoms=(
            r"security violation, .* rpc from uid",
            r"do you have slurmuser configured as uid",
            r"unexpected uid \(\d+\) != slurm uid",
            r"credential created by invalid user",
        ),
        where=(Source.SLURMD, Source.SLURMCTLD),
    ),
)
