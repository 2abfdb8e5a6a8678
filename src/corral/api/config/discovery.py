"""Use cases: inspect machines over ssh, and write a cluster file for them."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from corral.api.config.adoption import machine_of
from corral.api.config.cluster_draft import Draft, Reached, draft
from corral.api.operations.keys import open_jump_hosts
from corral.apply.observation import raise_all
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts import keysetup, sshkeys
from corral.hosts.fleet import Fleet
from corral.hosts.openssh import Hops, OpenSSH, control_dir
from corral.hosts.target import SSH_PORT, SshTarget
from corral.hosts.transport import check
from corral.inspect.discovery import DiscoveredMachine, discovery_inquiry, parse
from corral.inspect.facts import QUESTIONS, parse_facts
from corral.inspect.machine import HOSTNAME, OPEN_KEYS, USERS
from corral.inspect.question import inquiry
from corral.inspect.rules import Offset
from corral.runtime.tasks import concurrently
from corral.slurm.adopt.machine import Machine
from corral.spec.slurm.hostlist import expand
from corral.state_dir import cluster_dir, state_dir

ASK_S = 60.0
AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Access:
    """How machines that no file declares are reached.

    Attributes:
        user: login user; "": as in your ssh config, else your name here.
        port: port of sshd.
        key: private key file; "": ssh's own choice.
        jump: machines to go through.
        install_key: put the cluster's key there first, by password where it must be.
    """

    user: str = ""
    port: int = SSH_PORT
    key: str = ""
    jump: str = ""
    install_key: bool = False


async def discover(
    addresses: Sequence[str],
    emit: Emit = ignore,
    *,
    name: str = "lab",
    access: Access | None = None,
    file: str = "",
) -> Draft:
    """Ask machines what they are, all at once, and write a cluster file of it.

    Their host keys are pinned for the cluster of this name.

    Args:
        addresses: addresses, hostlists of them, or Hosts of the user's ssh config; the first
            machine becomes the controller.
        emit: receives an event for each machine.
        name: the cluster's name.
        access: how they are reached.
        file: what the file will be called; left out: ``<name>.yaml``.

    Raises:
        CorralError: USAGE; the failure of a machine, or NodesFailedError with all of them.
        SPEC_INVALID: no good file can be made of them.
    """
    access = access or Access()
    hosts = _expanded(addresses)
    cluster_dir(name, create=False)  # refuses an invalid cluster name
    folder = keysetup.keys_dir(name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    gate, hops = asyncio.Semaphore(AT_ONCE), Hops(control_dir())
    if access.install_key:
        first = await _target(hosts[0], access, folder)

        def through() -> tuple[SshTarget, ...]:
            return (replace(first, via=keysetup.jump_hosts(access.jump, folder)),)

        await open_jump_hosts(name, through, emit)
    emit(Event(Kind.PHASE_STARTED, "init", message="asking the machines", total=len(hosts)))
    begin = time.monotonic()

    async def inspected(at: str) -> tuple[DiscoveredMachine, float] | CorralError:
        async with gate:
            emit(Event(Kind.NODE_STARTED, "init", at))
            try:
                answer = await _ask(at, await _target(at, access, folder), name, access, hops)
            except CorralError as error:
                emit(Event(Kind.NODE_FAILED, "init", at, str(error)))
                return error
            emit(Event(Kind.NODE_DONE, "init", at, answer[0].hostname))
            return answer

    answers = await concurrently(*(inspected(at) for at in hosts))
    raise_all([a for a in answers if isinstance(a, CorralError)], "asking the machines")
    machines = [a for a in answers if not isinstance(a, CorralError)]
    skews = {m.at: skew for m, skew in machines}
    reached = Reached(access.port, access.key, access.jump)
    made = draft(name, [m for m, _ in machines], reached, skews, file)
    _rename(folder, made, installed=access.install_key)
    emit(Event(Kind.PHASE_DONE, "init", seconds=time.monotonic() - begin))
    return made


def _expanded(addresses: Sequence[str]) -> list[str]:
    try:
        hosts = [host for text in addresses for host in expand(text, strict=True)]
    except CorralError as error:
        raise CorralError(
            Code.USAGE, f"no addresses: {error.message}", hint="write them as 192.168.1.[10-12]"
        ) from error
    twice = sorted({a for a in hosts if hosts.count(a) > 1})
    if twice:
        raise CorralError(Code.USAGE, f"named twice: {', '.join(twice)}", hint="name each once")
    return hosts


async def _target(at: str, access: Access, folder: Path) -> SshTarget:
    target = SshTarget(
        at,
        port=access.port,
        user=access.user or "root",
        key=Path(os.path.expanduser(access.key)) if access.key else None,  # noqa: PTH111, ASYNC240
        only_key=False,
        known_hosts=folder / keysetup.KNOWN_HOSTS,
        user_config=True,
        pin_new=True,
        via=keysetup.jump_hosts(access.jump, folder),
    )
    if access.user:
        return target
    return replace(target, user=(await sshkeys.settings(target, any_user=True)).get("user", "root"))


async def _ask(
    at: str, target: SshTarget, name: str, access: Access, hops: Hops
) -> tuple[DiscoveredMachine, float]:
    if access.install_key:
        folder = keysetup.keys_dir(name)
        key = keysetup.key_file(folder, target)
        public = keysetup.public_key(key, f"corral-{name}")
        done = await keysetup.install(at, target, key, public)
        if done.error is not None:
            raise done.error
        target = replace(target, key=key)
    node = OpenSSH(at, target, control_dir(), hops=hops)
    try:
        before = time.time()
        asked = discovery_inquiry()
        result = check(await node.run(asked.script, timeout=ASK_S), "asking it what it is")
        after = time.time()
    except CorralError as error:
        if "may not log in" in error.message:
            error.hint = (
                f"let a key of yours in (ssh-copy-id {target.user}@{at}), or run this with --keys, "
                "which asks for the password once and installs a key"
            )
        raise
    finally:
        await node.close()
    machine = parse(at, asked.answers(result.stdout, at, "asking it what it is"))
    if machine.clock is None:
        return machine, 0.0
    return machine, Offset.between(machine.clock, before, after).surely


def _rename(folder: Path, made: Draft, *, installed: bool) -> None:
    """Pin the keys under the nodes' names, which are used from now on."""
    file = folder / keysetup.KNOWN_HOSTS
    text = file.read_text() if file.is_file() else ""
    for at, node in made.nodes.items():
        lines = [line for line in text.splitlines() if line.partition(" ")[0] == at]
        if at != node:
            sshkeys.unpin(file, at)
            sshkeys.unpin(file, node)
            sshkeys.pin(file, "".join(f"{node} {line.partition(' ')[2]}\n" for line in lines))
    if installed:
        keysetup.note_proven(folder, frozenset(made.nodes.values()))


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
            hostname = HOSTNAME.read(texts).short
            name = named[node] or hostname or node
            more = {
                "hostname": hostname,
                "uids": USERS.read(texts),
                "open_keys": OPEN_KEYS.read(texts),
            }
            machines[name] = machine_of(parse_facts(name, texts), more)
        return machines
    finally:
        await fleet.close()
