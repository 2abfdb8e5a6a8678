"""Machines made ready for questions: a boot waited for, a package index read.

A freshly installed Debian or Ubuntu may never have read its package index (cloud and container
images come without one), and then seems to offer no Slurm at all. The index is a cache:
reading it changes nothing that a machine is, so ``plan`` may do it, and reports it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from corral.apply.journal import read_journal
from corral.apply.observation import good, read_facts
from corral.apply.roll import BACK, REBOOTS
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.quote import call, sh
from corral.runtime.tasks import concurrently

BOOTED: Final = sh("command -v systemctl >/dev/null && systemctl is-system-running --wait")
BOOT_S: Final = 180.0
"""Seconds a machine may take from sshd's first answer until all its services are up."""
REBOOT_S: Final = 900.0
"""Seconds a real machine may take to be back: servers test their memory (software.boot, 15 min)."""
EACH_S: Final = 1.0
_SILENT: Final = (Code.UNREACHABLE, Code.TIMED_OUT)


async def until_booted(fleet: Fleet, until: Mapping[str, float], emit: Emit) -> None:
    """Wait for machines that may still boot; who does not answer in time is for others to report.

    Args:
        fleet: the machines.
        until: unix seconds until which a machine that does not answer may be booting.
        emit: receives the machines that are waited for.
    """
    now = time.time()
    young = {n: end for n, end in until.items() if end > now and n in fleet.nodes}
    await concurrently(*(_until_node_booted(fleet, node, end, emit) for node, end in young.items()))


async def _until_node_booted(fleet: Fleet, node: str, end: float, emit: Emit) -> None:
    began = time.monotonic()
    waits = False
    while True:
        try:
            await fleet.run(node, sh(":"), timeout=15)
            break
        except CorralError as error:
            left = end - time.time()
            if error.code not in _SILENT or left <= 0:
                return
            if not waits:
                text = f"still boots ({error.message}): waiting for it, {left:.0f} s at most"
                emit(Event(Kind.NOTE, "machines", node, text))
            waits = True
            await fleet.reconnect(node)
            await asyncio.sleep(EACH_S)
    if waits:
        emit(Event(Kind.NOTE, "machines", node, "answers", time.monotonic() - began))
    try:
        await fleet.run(node, BOOTED, timeout=BOOT_S)
    except CorralError:
        return  # what it is like is read next, and its error is reported then


def rebooting(journal: Path) -> dict[str, float]:
    """Machines that a killed run was rebooting: node to when it should be back, unix seconds."""
    deadlines: dict[str, float] = {}
    for record in read_journal(journal, '"reboots"'):
        event = record.get("event", {})
        if event.get("subject") != "reboots" or event.get("kind") != Kind.NOTE.value:
            continue
        if event.get("message") == REBOOTS:
            deadlines[event["node"]] = record["at"] + REBOOT_S
        elif event.get("message") == BACK:
            deadlines.pop(event["node"], None)
    return deadlines


READ_S: Final = 600.0

# Without a list of any release apt has never read its sources; an index that is there and still
# offers no Slurm is an answer, not a reason to ask again. (apt-get(8): update; ends with 100 when
# a source cannot be used, such as an expired Release file, failures.md F58.)
_READ: Final = call("state/packages.sh", "apt_update_once")


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
