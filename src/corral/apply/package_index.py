"""Package indexes of machines that have none yet.

A freshly installed Debian or Ubuntu may never have read its package index (cloud and container
images come without one), and then seems to offer no Slurm at all. The index is a cache:
reading it changes nothing that a machine is, so ``plan`` may do it, and reports it.
"""

from __future__ import annotations

import time
from typing import Final

from corral.apply.observe import good, read_facts
from corral.events import Emit, Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.quote import sh

READ_S: Final = 600.0

# Without a list of any release apt has never read its sources; an index that is there and still
# offers no Slurm is an answer, not a reason to ask again. (apt-get(8): update; ends with 100 when
# a source cannot be used, such as an expired Release file, failures.md F58.)
_READ: Final = sh(
    "command -v apt-get >/dev/null || exit 0; "
    'for f in /var/lib/apt/lists/*Release; do [ ! -s "$f" ] || exit 0; done; '
    "echo read; apt-get update -q -o DPkg::Lock::Timeout=300 >&2"
)


async def read_missing(fleet: Fleet, emit: Emit) -> bool:
    """Let machines that know of no Slurm read their package index, where they have none.

    Returns:
        whether any did.

    Raises:
        CorralError: a machine did not answer, or apt could not read its sources.
    """
    facts = await read_facts(fleet)
    without = [n for n, f in facts.items() if not f.slurm and not f.slurm_candidate]
    if not without:
        return False
    begin = time.monotonic()
    answers = await fleet.all(_READ, without, timeout=READ_S)
    results = good(answers, "apt-get update")
    names = [n for n, result in results.items() if result.stdout.strip() == "read"]
    for name in names:
        seconds = time.monotonic() - begin
        message = "read its package index, which it had none of"
        emit(Event(Kind.NOTE, "packages", node=name, message=message, seconds=seconds))
    return bool(names)
