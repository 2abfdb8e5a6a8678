"""What the page knows of a cluster, in one shape for all releases of Slurm. Pure.

Times are unix seconds, memory is MiB, limits are seconds; None is "not known" or "no limit".
"""

from __future__ import annotations

from dataclasses import dataclass

USER, OPERATOR, ADMINISTRATOR = "user", "operator", "administrator"
"""Slurm's admin levels (sacctmgr(1), AdminLevel: None, Operator, Administrator), weakest first."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata of an answer.

    Attributes:
        release: Slurm's version, ``24.11.5``.
        errors: Slurm's own words, empty when all succeeded.
        last_update: when slurmctld last changed what was asked for; 0 where nothing changed since
            the time in the question.
    """

    release: str = ""
    errors: tuple[str, ...] = ()
    last_update: int | None = None
