"""Use case: what machines are, asked over ssh before there is any cluster file. Read-only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from corral.api.config.adoption import machine_of
from corral.errors import Code, CorralError
from corral.events import Emit
from corral.hosts.fleet import Fleet
from corral.hosts.openssh import OpenSSH
from corral.hosts.target import SshTarget
from corral.hosts.transport import check
from corral.inspect.facts import QUESTIONS, parse_facts
from corral.inspect.machine import HOSTNAME, OPEN_KEYS, USERS
from corral.inspect.question import inquiry
from corral.slurm.adopt.machine import Machine
from corral.state_dir import state_dir

# What the rules compare and the facts do not hold.
_MORE: Final = (HOSTNAME, USERS, OPEN_KEYS)
_FROM: Final = re.compile(r"(?:(?P<node>[^=@]+)=)?(?:(?P<user>[^@]+)@)?(?P<address>[^@]+)")


async def ask_machines(
    where: Sequence[str], emit: Emit, *, timeout: float = 60.0
) -> dict[str, Machine]:
    """Ask machines what they are, read-only, all at once.

    Args:
        where: ``[NODE=][USER@]ADDRESS`` each; the node's name is what the machine calls itself
            where none is given. Ports and keys are those of the user's own ssh config.
        emit: receives nothing yet; every use case takes one.
        timeout: seconds for one machine.

    Raises:
        CorralError: USAGE, an address that is none; else what the transport raises.
    """
    del emit
    targets: dict[str, SshTarget] = {}
    named: dict[str, str] = {}
    for text in where:
        match = _FROM.fullmatch(text)
        if not match:
            raise CorralError(
                Code.USAGE, f"{text!r} is not an address", hint="[NODE=][USER@]ADDRESS"
            )
        key = match["node"] or match["address"]
        targets[key] = SshTarget(match["address"], user=match["user"] or "root")
        named[key] = match["node"] or ""
    fleet = Fleet({n: OpenSSH(n, t, state_dir() / "control") for n, t in targets.items()})
    asked = inquiry((*QUESTIONS, *_MORE))
    try:
        machines: dict[str, Machine] = {}
        for node, answer in (await fleet.all(asked.script, timeout=timeout)).items():
            if isinstance(answer, CorralError):
                raise answer
            texts = asked.answers(check(answer, "reading facts").stdout, node, "reading facts")
            hostname = HOSTNAME.parse(texts[HOSTNAME.name]).partition(".")[0]
            users = USERS.parse(texts[USERS.name])
            name = named[node] or hostname or node
            more = {
                "hostname": hostname,
                "uids": {user: int(uid) for user, uid in users.items() if uid.isdigit()},
                "open_keys": OPEN_KEYS.parse(texts[OPEN_KEYS.name]),
            }
            machines[name] = machine_of(parse_facts(name, texts), more)
        return machines
    finally:
        await fleet.close()
