"""Use case: what machines are, asked over ssh before there is any cluster file. Read-only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from corral.api.existing import machine_of
from corral.errors import Code, CorralError
from corral.events import Emit
from corral.hosts.facts import facts_inquiry, facts_of
from corral.hosts.fleet import Fleet
from corral.hosts.openssh import OpenSSH
from corral.hosts.quote import sh
from corral.hosts.state_dir import state_dir
from corral.hosts.target import SshTarget
from corral.hosts.transport import check
from corral.slurm.adopt.machine import Machine

# What the rules compare and the facts do not hold.
_WHO: Final = sh(
    """hostname -s
for u in slurm munge; do echo "$u $(id -u "$u" 2>/dev/null || echo -)"; done
h=$(getent passwd "${{SUDO_USER:-$(id -un)}}" | cut -d: -f6)
for k in "$h"/.ssh/id_*; do case $k in *.pub) ;; *)
  if [ -f "$k" ] && ssh-keygen -y -P '' -f "$k" >/dev/null 2>&1; then echo "key: $k"; fi;;
esac; done"""
)
_FROM: Final = re.compile(r"(?:(?P<node>[^=@]+)=)?(?:(?P<user>[^@]+)@)?(?P<address>[^@]+)")


async def ask_machines(
    where: Sequence[str], emit: Emit, *, timeout: float = 60.0
) -> dict[str, Machine]:
    """Ask machines what they are, read-only, all at once.

    Args:
        where: ``[NODE=][USER@]ADDRESS`` each; the node's name is what the machine calls itself
            where none is said. Ports and keys are those of the user's own ssh config.
        emit: is told nothing yet; every use case takes one.
        timeout: seconds for one machine.

    Raises:
        CorralError: USAGE, an address that is none; else what the transport raises.
    """
    del emit
    targets: dict[str, SshTarget] = {}
    named: dict[str, str] = {}
    for text in where:
        found = _FROM.fullmatch(text)
        if not found:
            raise CorralError(Code.USAGE, f"{text!r} is no address", hint="[NODE=][USER@]ADDRESS")
        key = found["node"] or found["address"]
        targets[key] = SshTarget(found["address"], user=found["user"] or "root")
        named[key] = found["node"] or ""
    fleet = Fleet({n: OpenSSH(n, t, state_dir() / "control") for n, t in targets.items()})
    asked = facts_inquiry()
    try:
        machines: dict[str, Machine] = {}
        for node, answer in (await fleet.all(asked.script, timeout=timeout)).items():
            if isinstance(answer, CorralError):
                raise answer
            who = check(
                await fleet.run(node, _WHO, timeout=timeout), "asking its name"
            ).stdout.split("\n")
            hostname = who[0].strip()
            uids = {
                words[0]: int(words[1])
                for line in who[1:]
                if len(words := line.split()) == 2 and words[1].isdigit()  # noqa: PLR2004
            }
            name = named[node] or hostname or node
            facts = facts_of(name, asked, check(answer, "reading facts").stdout)
            keys = [line.removeprefix("key: ") for line in who[1:] if line.startswith("key: ")]
            told = {"hostname": hostname, "uids": uids, "open_keys": keys}
            machines[name] = machine_of(facts, told)
        return machines
    finally:
        await fleet.close()
