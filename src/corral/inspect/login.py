"""Questions to a login node, asked as the user: account, Slurm's commands, the client file."""

from __future__ import annotations

from typing import Final

from corral.hosts.quote import call, sh
from corral.inspect.question import Question, text
from corral.inspect.slurm import associations_of, setting
from corral.spec.client import PUBLISHED

PROGRAMS: Final = ("sbatch", "squeue", "scontrol", "scancel", "srun")
UID: Final = Question("uid", sh("id -u"), int)
MISSING: Final = Question(
    "missing-commands",
    call("jobs/user.sh", "programs_missing", *PROGRAMS),
    str.split,
)
"""Commands of Slurm that are not on the user's PATH."""
CLIENT: Final = Question("client", sh("cat {file} 2>/dev/null", file=PUBLISHED), text)
ENFORCED: Final = setting("AccountingStorageEnforce")


def questions(user: str) -> tuple[Question[object], ...]:
    """What a host is asked at a login."""
    return UID, MISSING, CLIENT, ENFORCED, associations_of(user)
