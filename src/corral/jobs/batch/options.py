"""The options of sbatch and salloc that a job's fields stand for. Pure."""

from __future__ import annotations

from typing import Final

from corral.jobs.model import JobSpec
from corral.jobs.requests import option_in

_AT_THE_END: Final = "END,FAIL"


def pairs(job: JobSpec) -> tuple[tuple[str, str], ...]:
    """Options of sbatch and salloc with their values; an option without a value has ""."""
    address, _, events = (job.mail or "").partition(":")
    after = (each.partition(":") for each in job.after)
    fields = {
        "account": job.account,
        "qos": job.qos,
        "nodelist": job.nodelist,
        "exclude": job.exclude,
        "constraint": job.constraint,
        "licenses": job.licenses,
        "begin": job.begin,
        "dependency": ",".join(f"after{how or 'ok'}:{number}" for number, _, how in after),
        "mail-user": address,
        "mail-type": (events or _AT_THE_END).upper() if address else "",
    }
    given = tuple((name, value) for name, value in fields.items() if value)
    return (*given, ("exclusive", "")) if job.exclusive else given


def words(job: JobSpec) -> list[str]:
    """The options as words, those of ``JobSpec.sbatch`` last."""
    named = [f"--{name}={value}" if value else f"--{name}" for name, value in pairs(job)]
    return [*named, *job.sbatch]


def ended_in_vain(job: JobSpec) -> tuple[str, ...]:
    """What ends a job whose dependency can never come true, for sbatch; salloc has no such option.

    Slurm else leaves it pending for good (DependencyNeverSatisfied), and who follows it with it.
    """
    option = "--kill-on-invalid-dep"
    return (f"{option}=yes",) if job.after and option_in(job.sbatch, option) is None else ()
