"""Use cases of nodes: run a command, log in, drain, resume; Slurm's commands as a user."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from corral.apply.connection import Connection
from corral.errors import Code, CorralError
from corral.hosts.openssh import control_dir
from corral.hosts.quote import Script, call, sh
from corral.hosts.target import SSH_PORT, SshTarget
from corral.hosts.transport import Result
from corral.inspect.question import answer_to
from corral.inspect.slurm import NODES, nodes_named, strictly
from corral.jobs.follow import as_user
from corral.providers.lookup import here, providers_of
from corral.slurm.states.nodes import NodeState
from corral.spec.client import ClientSpec
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of
from corral.spec.slurm.hostlist import expand, fold

UPDATE_TIMEOUT: Final = 30.0
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\$?")
RESUMED_S: Final = 15
"""Seconds that a resumed node may take until slurmctld has pinged it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did on one node; ``error`` when it could not be run there at all."""

    node: str
    status: int | None = None
    stdout: str = ""
    stderr: str = ""
    error: CorralError | None = None

    @property
    def ok(self) -> bool:
        """True when the command ran and ended with status 0."""
        return self.status == 0

    def as_dict(self) -> dict[str, Any]:
        """Exit status and output, or the error."""
        return {
            "node": self.node,
            "status": self.status,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "error": self.error.as_dict() if self.error else None,
        }


async def execute(
    spec: ClusterSpec, command: Sequence[str], nodes: str = "", *, timeout: float = 600.0
) -> tuple[Outcome, ...]:
    """Run one command as root on nodes, all at once.

    Args:
        spec: the cluster.
        command: program and arguments, given to no shell.
        nodes: a hostlist; "" for all nodes.
        timeout: seconds until a node is given up.

    Raises:
        CorralError: NOT_FOUND, such a node is not declared; USAGE, no hostlist or no command.
    """
    names = chosen(spec, nodes)
    script = _command(command)
    async with await Connection.open(spec) as session:
        answers = await session.fleet.all(script, names, timeout=timeout)
    return tuple(_outcome(node, answer) for node, answer in answers.items())


async def ssh_argv(
    spec: ClusterSpec, node: str, command: Sequence[str] = (), *, user: str = ""
) -> list[str]:
    """The ssh command line that logs in to a node, or runs a command there, with all it needs.

    Where the node is this machine: a login shell of root, or that shell with the command.

    Args:
        spec: the cluster.
        node: the node.
        command: what to run there, joined and given to the login shell as ssh does.
        user: whose login shell it is, by way of root; "" for root's, or a profile's user's.

    Raises:
        CorralError: NOT_FOUND, no such node, or it does not run; FORBIDDEN, this machine's user
            cannot see it, or a profile is for its own user; USAGE, no user has such a name.
    """
    (name,) = chosen(spec, node)[:1]
    if isinstance(spec, ClientSpec):
        if user not in ("", spec.profile.user):
            raise CorralError(
                Code.FORBIDDEN,
                f"profile {spec.profile.name} logs in as {spec.profile.user}, not as {user}",
                hint=f"corral login {user}@{spec.profile.host} --name NAME makes another profile",
            )
        user = ""
        # By another login node where the profile's own does not answer.
        spec = (await Connection.open(spec, root=False)).spec
    provider = next(p for p in providers_of(spec) if any(n.name == name for n in p.nodes))
    if here(provider):
        if user:
            shell = _login_shell(user, command)
        else:
            shell = ["/bin/sh", "-l", *(["-c", " ".join(command)] if command else [])]
        return shell if os.geteuid() == 0 else ["sudo", "--", *shell]
    observed = await provider.read_machines()
    if not observed.machines[name].running:
        if observed.refusal is not None:
            raise observed.refusal
        raise CorralError(
            Code.NOT_FOUND, "does not run", node=name, hint="start it with: corral up FILE"
        )
    target = provider.ssh_target(name)
    if not user or user == target.user:
        return login(target, name, command)
    become = [*([] if target.user == "root" else ["sudo", "--"]), *_login_shell(user, command)]
    argv = login(target, name, [shlex.join(["exec", *become])])
    # With a command ssh asks for no terminal.
    return argv if command else [argv[0], "-t", *argv[1:]]


def _login_shell(user: str, command: Sequence[str]) -> list[str]:
    """What makes root another user, with that user's login shell."""
    if not _USER.fullmatch(user):
        raise CorralError(
            Code.USAGE,
            f"{user!r} is not the name of a Linux user",
            hint="use letters, digits, dots, underscores and dashes",
        )
    return ["runuser", "-l", user, *(["-c", " ".join(command)] if command else [])]


async def drain(spec: ClusterSpec, nodes: str, reason: str) -> dict[str, str]:
    """Take no new jobs on nodes; running jobs finish.

    Returns:
        Slurm's state of each of the nodes afterwards.

    Raises:
        CorralError: SLURM_REFUSED, NOT_FOUND, USAGE.
    """
    if not reason.strip() or not reason.isprintable():
        raise CorralError(
            Code.USAGE,
            "draining needs a reason of one line",
            hint="give a reason for the next person who looks: --reason 'new memory'",
        )
    names = chosen(spec, nodes)
    async with await Connection.open(spec) as session:
        session.require_running()
        return await _update(session, names, "State=DRAIN", f"Reason={reason}")


async def resume(spec: ClusterSpec, nodes: str) -> dict[str, str]:
    """Take jobs again on nodes that were drained or went down; those in service stay as they are.

    Returns:
        Slurm's state of each of the nodes afterwards.

    Raises:
        CorralError: SLURM_REFUSED (a node that does not answer), NOT_FOUND, USAGE.
    """
    names = chosen(spec, nodes)
    async with await Connection.open(spec) as session:
        session.require_running()
        before = await _states(session, names)
        # Slurm refuses RESUME for a node that needs none, and with it for the others of the list.
        owed = [name for name in names if name not in before or not before[name].in_service]
        if not owed:
            return {name: str(before[name]) for name in names}
        after = await _resume(session, owed)
    return {name: after.get(name) or str(before[name]) for name in names}


async def _states(session: Connection, names: Sequence[str]) -> dict[str, NodeState]:
    nodes = await answer_to(
        session.fleet,
        session.controller,
        strictly(nodes_named(fold(list(names)))),
        "asking Slurm for its nodes",
        timeout=UPDATE_TIMEOUT,
        hint="is slurmctld up? see: corral status",
    )
    return {info.name: info.state for info in nodes}


async def _resume(session: Connection, names: list[str]) -> dict[str, str]:
    return await _update(session, names, "State=RESUME", settle_s=RESUMED_S)


def chosen(spec: ClusterSpec, nodes: str) -> list[str]:
    """Names of a hostlist, all of them declared; "" selects all nodes.

    Raises:
        CorralError: USAGE, it is not a hostlist; NOT_FOUND, a name is not declared.
    """
    declared = [node.name for node in nodes_of(spec)]
    if not nodes:
        return declared
    try:
        names = list(dict.fromkeys(expand(nodes, strict=True)))
    except CorralError as error:
        raise CorralError(
            Code.USAGE,
            error.message,
            hint=f"write it as Slurm does, such as {fold(declared)}",
        ) from error
    unknown = [name for name in names if name not in declared]
    if unknown:
        raise CorralError(
            Code.NOT_FOUND,
            f"cluster {spec.name} has no node {fold(unknown)}",
            hint=f"its nodes: {fold(declared)}",
        )
    return names


def login(target: SshTarget, node: str, command: Sequence[str]) -> list[str]:
    """The ssh command line of a person: with a terminal, and with no shared connection.

    Args:
        target: how the node is reached.
        node: its name, under which its host key is pinned.
        command: what to run there, joined and given to the login shell as ssh does; empty: that
            shell itself.
    """
    argv = ["ssh"]
    if not target.reads_config:
        argv += ["-F", "none"]
    settings = target.trust(node) if target.known_hosts is not None else {}
    if target.via is not None:
        settings["ProxyCommand"] = target.via.forwarding(control_dir())
    if target.key is not None:
        argv += ["-i", str(target.key)]
        settings["IdentitiesOnly"] = "yes"
        settings |= {"IdentityAgent": "none"} if target.only_key else {}
    argv += target.options
    argv += [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    # As target.arguments does: port 22 is given only where no config of the user's sets another.
    if not target.reads_config or target.port != SSH_PORT:
        argv += ["-p", str(target.port)]
    argv += ["-l", target.user, "--", target.address]
    return [*argv, *command]


def _command(command: Sequence[str]) -> Script:
    if not command:
        raise CorralError(
            Code.USAGE, "no command to run", hint="write it after --: corral exec -- uptime"
        )
    try:
        return sh("exec {words}", words=list(command))
    except ValueError as error:
        raise CorralError(Code.USAGE, f"the command cannot be run: {error}") from error


def _outcome(node: str, answer: Result | CorralError) -> Outcome:
    if isinstance(answer, CorralError):
        return Outcome(node, error=answer)
    return Outcome(node, answer.status, answer.stdout, answer.stderr)


async def _update(
    session: Connection, names: list[str], *change: str, settle_s: int = 0
) -> dict[str, str]:
    script = call("gates/slurm.sh", "nodes_update", fold(names), settle_s, *change)
    answer = await session.fleet.run(session.controller, script, timeout=UPDATE_TIMEOUT)
    if not answer.ok:
        raise CorralError(
            Code.SLURM_REFUSED,
            f"Slurm did not change {fold(names)}",
            node=session.controller,
            command=shlex.join(["scontrol", "update", f"NodeName={fold(names)}", *change]),
            status=answer.status,
            tail=answer.tail,
            hint="see their states with: corral status",
        )
    nodes = NODES.parse(answer.stdout)
    return {name: str(node.state) for name, node in nodes.items()}


LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command returned: its exit status, standard output and standard error."""

    status: int
    out: str
    err: str


async def slurm_command(
    spec: ClusterSpec, user: str, command: Sequence[str], stdin: str = ""
) -> CommandResult:
    """Run a command as a user of the cluster.

    Args:
        spec: the cluster.
        user: who asks; Slurm decides what this user may.
        command: program and arguments; never a shell's text.
        stdin: what it reads.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; UNREACHABLE; TIMED_OUT.
    """
    script = as_user(user, sh("timeout {limit} {words}", limit=int(LIMIT_S), words=list(command)))
    async with await Connection.open(spec) as session:
        session.require_running()
        done = await session.fleet.run(
            session.controller, script, stdin=stdin.encode(), timeout=LIMIT_S + 10
        )
    return CommandResult(done.status, done.stdout, done.stderr)
