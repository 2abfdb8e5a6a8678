"""Use cases of users without root: log in to a cluster, with a client file or without."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from corral.api.config import profiles
from corral.apply.connection import Connection
from corral.errors import Code, CorralError, cannot_read
from corral.extras import own_version
from corral.hosts import sshkeys
from corral.hosts.keysetup import shown_keys
from corral.hosts.openssh import OpenSSH, control_dir
from corral.hosts.quote import sh
from corral.hosts.target import SSH_PORT, SshTarget
from corral.hosts.transport import Transport, check
from corral.inspect import machine
from corral.inspect.question import inquiry
from corral.inspect.slurm import (
    CLIENT,
    ENFORCED,
    MISSING,
    UID,
    associations_of,
    login_questions,
    person_of,
)
from corral.jobs.rest.client import (
    RestClient,
    address_of,
    claims_of,
    read_token,
    require_valid,
    shown_end,
)
from corral.jobs.upload.user_folder import entry_hint
from corral.providers.login_host import entry_target, user_target
from corral.providers.lookup import providers_of
from corral.runtime.tasks import concurrently
from corral.slurm.records import Node, Partition
from corral.spec.client import (
    PUBLISHED,
    ClientFile,
    ClientSpec,
    LoginNode,
    Profile,
    client_spec,
    public_part,
    read_client,
)
from corral.spec.models import ClusterSpec
from corral.spec.nodes import login_nodes_of, users_of
from corral.spec.providers import OWNED
from corral.spec.slurm.hostlist import fold

AcceptKey = Callable[[str, tuple[str, ...]], bool]
"""Whether a host's key is its own: the host, and fingerprints as ``ssh-keygen -l`` prints them."""

ENTRY: Final = "_login"
"""The host's name in known_hosts while its node's name is not known: one that no node can have."""
LOGIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """A new profile.

    Attributes:
        profile: what is stored of it.
        notes: what its user should know, a sentence each.
    """

    profile: Profile
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Address:
    """Where a login goes: ``HOST``, ``USER@HOST`` or, for a client file with the host, ``USER@``.

    Attributes:
        user: the account, "" where none is given.
        host: address, name, or a Host of the user's ssh config; "" where none is given.
    """

    user: str = ""
    host: str = ""

    @classmethod
    def read(cls, text: str) -> Address:
        """The address in a text."""
        user, at, host = text.rpartition("@")
        return cls(user, host) if at else cls("", text)


def client_file(path: Path) -> ClientFile:
    """Read a client file.

    Raises:
        CorralError: NOT_FOUND; PARSE_FAILED, it is not one, or a newer Corral's.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CorralError(
            Code.NOT_FOUND,
            f"the client file {path} cannot be read",
            tail=str(error),
            hint="an administrator writes one with: corral export client -o FILE",
        ) from error
    again = "an administrator writes another with: corral export client -o FILE"
    return read_client(text, ClientFile, f"the client file {path}", again)


async def export_client(spec: ClusterSpec, *, user: str = "") -> str:
    """Text of a client file: how users reach the cluster, and what they may ask it for.

    Args:
        spec: the cluster.
        user: for whom; "" for anybody, who then names the account.

    Raises:
        CorralError: NOT_FOUND, no such user, or the cluster is not up; FORBIDDEN, a profile's.
    """
    names = [known.name for known in users_of(spec)]
    known = not user or user in names
    if not known and spec.directory is None:
        raise CorralError(
            Code.NOT_FOUND,
            f"the cluster file has no user {user}",
            hint=f"add {user} under users:, then corral up; users: {', '.join(names)}",
        )
    async with await Connection.open(spec) as session:
        session.require_running()
        asked = sh("getent passwd -- {user} >/dev/null", user=user)
        if not known and not (await session.fleet.run(session.controller, asked, timeout=60)).ok:
            raise CorralError(
                Code.NOT_FOUND,
                f"neither the cluster file nor the directory has a user {user}",
                node=session.controller,
                hint=entry_hint(user, person=True),
            )
        target = session.targets().get(session.controller)
    if target is None:
        raise CorralError(
            Code.USAGE,
            "the cluster is this machine, which Corral does not reach by ssh",
            node=session.controller,
            hint="others log in by its own address: corral login USER@ADDRESS",
        )
    pinned = "\n".join(target.pinned(session.controller))
    lines = pinned or await sshkeys.known_to_user(session.controller, target)
    return ClientFile(
        corral=own_version(),
        node=session.controller,
        cluster=public_part(spec),
        host=target.address,
        port=target.port,
        user=user,
        host_keys=tuple(line.partition(" ")[2] for line in lines.splitlines()),
        login_nodes=_login_nodes(spec, session),
    ).text()


def _login_nodes(spec: ClusterSpec, session: Connection) -> tuple[LoginNode, ...]:
    """Login nodes next to the controller that are reached by a pinned key."""
    targets = session.targets()
    names = [name for name in login_nodes_of(spec) if name in targets]
    pinned = {name: targets[name].pinned(name) for name in names if name != session.controller}
    return tuple(
        LoginNode(
            node=name,
            host=targets[name].address,
            port=targets[name].port,
            host_keys=tuple(line.partition(" ")[2] for line in lines),
        )
        for name, lines in pinned.items()
        if lines
    )


async def login(
    address: Address,
    *,
    name: str = "",
    identity: Path | None = None,
    client: ClientFile | None = None,
    port: int = 0,
    accept: AcceptKey,
) -> LoggedIn:
    """Log in to a cluster as one of its users, with plain ssh, and keep a profile of it.

    Args:
        address: user and host; what it leaves out comes from ``client``.
        name: of the profile; "" for the cluster's.
        identity: private key file; None leaves the choice to ssh (agent, ssh config, ~/.ssh).
        client: an administrator's client file.
        port: TCP port; 0 for the client file's, else ssh's own choice.
        accept: asked about a host key that neither the client file nor known_hosts has.

    Raises:
        CorralError: USAGE, no user or host, or the key was not accepted; UNREACHABLE;
            HOST_KEY_CHANGED; NOT_FOUND, the host is not a login node of a cluster of Corral's;
            MISSING_TOOL, it has no commands of Slurm; PARSE_FAILED.
    """
    user, host = _who_and_where(address, client)
    client = client and _entered_by(client, host)
    key = str(_identity(identity)) if identity else ""
    with tempfile.TemporaryDirectory(prefix="corral-login-") as folder:
        known_hosts = Path(folder) / profiles.KNOWN_HOSTS
        chosen = port or (client.port if client else SSH_PORT)
        target = user_target(host, user, port=chosen, identity=key, known_hosts=known_hosts)
        await _trust(target, client.host_keys if client else (), accept)
        node = OpenSSH(ENTRY, target, control_dir(), shared=False)
        try:
            file, uid, notes = await asked(node, host, user, client)
        except CorralError as error:
            error.node = host
            raise
        profile = Profile(
            **file.model_dump(include={"format", "node", "cluster"}),
            corral=own_version(),
            host=host,
            port=chosen,
            user=user,
            name=name or str(file.cluster.get("name", "")),
            uid=uid,
            identity=key,
        )
        spec = client_spec(profile, known_hosts)  # before it is kept: can this Corral read it?
        publics = tuple(line.partition(" ")[2] for line in target.pinned(ENTRY))
        keys = _pins(profile.node, target, publics)
        sshkeys.pin(known_hosts, keys)
        others, missing = await _other_login_nodes(spec, client)
        for other in others:
            by_other = entry_target(spec.entered_by(other))
            keys += _pins(other.node, by_other, other.host_keys)
    profile = profile.model_copy(update={"login_nodes": others})
    await asyncio.to_thread(profiles.keep, profile, keys)
    return LoggedIn(profile, (*notes, *missing))


def _who_and_where(address: Address, client: ClientFile | None) -> tuple[str, str]:
    """User and host of a login.

    Raises:
        CorralError: USAGE, one of them is given nowhere.
    """
    user = address.user or (client.user if client else "")
    host = address.host or (client.host if client else "")
    if not user or not host:
        raise CorralError(
            Code.USAGE,
            "no host given" if user else "no user given",
            hint="corral login USER@HOST, with your account on the cluster",
        )
    return user, host


def _entered_by(client: ClientFile, host: str) -> ClientFile:
    """The client file as of the login node with this address."""
    for other in client.login_nodes:
        if other.host == host:
            first = LoginNode.model_validate(client.model_dump(include=set(LoginNode.model_fields)))
            rest = (each for each in client.login_nodes if each is not other)
            return client.model_copy(update={**other.model_dump(), "login_nodes": (first, *rest)})
    return client


def _pins(node: str, target: SshTarget, keys: Sequence[str]) -> str:
    """Lines of known_hosts; a login node is also the jump host to others, of another name there."""
    return "".join(f"{known} {key}\n" for known in (node, target.alias) for key in keys)


async def _other_login_nodes(
    spec: ClientSpec, client: ClientFile | None
) -> tuple[tuple[LoginNode, ...], tuple[str, ...]]:
    """Login nodes next to a profile's own, with their host keys, and notes on those left out.

    An administrator's client file has them. Otherwise the profile's node knows their addresses, and
    their keys are taken through it.
    """
    own = spec.profile.node
    if client is not None:
        return client.login_nodes, ()
    names = [name for name in login_nodes_of(spec) if name != own]
    nodes = await concurrently(*(_through(spec, name) for name in names))
    missing = [name for name, node in zip(names, nodes, strict=True) if node is None]
    notes = (f"{fold(missing)} did not answer: log in again to have it when {own} is away",)
    return tuple(node for node in nodes if node is not None), notes if missing else ()


async def _through(spec: ClientSpec, name: str) -> LoginNode | None:
    """A login node as the profile's node reaches it; None where it lets nobody in."""
    (provider,) = providers_of(spec)
    own, target = spec.profile.node, provider.ssh_target(name)
    entry = OpenSSH(own, provider.ssh_target(own), control_dir(), shared=False)
    node = OpenSSH(name, target, control_dir(), shared=False)
    named = machine.names((name,))
    try:
        result = await entry.run(named.shell, timeout=LOGIN_S)
        await node.run(sh(":"), timeout=LOGIN_S)
    except CorralError:
        return None
    known = named.parse(result.stdout).get(name, machine.Resolved())
    host = str(known.addresses[0]) if known.addresses else ""
    keys = tuple(line.partition(" ")[2] for line in target.pinned(name))
    return LoginNode(node=name, host=host, host_keys=keys) if host and keys else None


async def login_rest(
    user: str,
    url: str,
    token: str,
    *,
    name: str = "",
    client: ClientFile | None = None,
    plain: bool = False,
) -> LoggedIn:
    """Log in by a token of Slurm's to a slurmrestd, and keep a profile of it, where ssh is closed.

    Args:
        user: the account; "" for the client file's, or the token's.
        url: address of slurmrestd, or of a proxy in front of it.
        token: what ``scontrol token`` printed.
        name: of the profile; "" for the cluster's.
        client: an administrator's client file, which knows partitions and shared folders.
        plain: send the token unencrypted to another machine.

    Raises:
        CorralError: USAGE, no address, user or token, or the client file is another cluster's;
            LOGIN_REFUSED, Slurm does not take the token; UNREACHABLE; NOT_FOUND, nothing of Slurm's
            is there.
    """
    address = address_of(url, plain=plain)
    token = read_token(token)
    who = user or (client.user if client else "") or claims_of(token).user
    if not who:
        raise CorralError(
            Code.USAGE, "no user given", hint=f"corral login USER@ --rest {url}, with your account"
        )
    expires = require_valid(token, who).expires
    rest = RestClient(address, who, token)
    partitions, nodes = await rest.partitions(), await rest.nodes()
    if client:
        _same_cluster(client, rest)
    fields = client.cluster if client else _seen_by_rest(rest, partitions, nodes, name)
    profile = Profile(
        node=client.node if client else str(fields.get("controller") or nodes[0].name),
        cluster=fields,
        corral=own_version(),
        host=address,
        user=who,
        name=name or str(fields.get("name", "")),
        uid=0,
        rest=address,
    )
    client_spec(profile, Path())
    await asyncio.to_thread(profiles.keep, profile, "", token=token)
    return LoggedIn(profile, (f"the token expires: {shown_end(expires)}", *rest.notes))


def _same_cluster(client: ClientFile, rest: RestClient) -> None:
    """Compare the client file's cluster with the one that responds.

    Raises:
        CorralError: USAGE, it is another one.
    """
    name = str(client.cluster.get("name", ""))
    if name and rest.cluster and name != rest.cluster:
        raise CorralError(
            Code.USAGE,
            f"the client file is for cluster {name}, and {rest.address} is cluster {rest.cluster}",
            hint=f"correct the address, or get a client file of {rest.cluster} from an "
            "administrator: corral export client -o FILE",
        )


def _seen_by_rest(
    rest: RestClient, partitions: Sequence[Partition], nodes: Sequence[Node], name: str
) -> dict[str, Any]:
    """The cluster as slurmrestd shows it: one group, and the names of the partitions.

    Raises:
        CorralError: USAGE, it does not state its name; NOT_FOUND, it has no nodes.
    """
    cluster = rest.cluster or name
    if not cluster:
        raise CorralError(
            Code.USAGE,
            "slurmrestd does not state the cluster's name",
            hint="give the profile a name: --name NAME",
        )
    if not nodes:
        raise CorralError(Code.NOT_FOUND, "Slurm has no nodes there", hint="ask an administrator")
    names = [node.name for node in nodes]
    group = {"name": "nodes", "provider": OWNED, "nodes": fold(names)}
    # The host of slurmctld need not be a node of Slurm's.
    controller = {"controller": rest.controller} if rest.controller in names else {}
    return {
        "corral": "v1",
        "name": cluster,
        "groups": [group],
        **controller,
        "partitions": [{"name": each.name, "groups": ["nodes"]} for each in partitions],
    }


def _identity(path: Path) -> Path:
    absolute = path.expanduser().absolute()
    try:
        with absolute.open("rb"):
            return absolute
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND,
            cannot_read(f"the private key {path}", error),
            hint="name a private key of yours, without .pub: --identity FILE",
        ) from error


async def _trust(target: SshTarget, keys: tuple[str, ...], accept: AcceptKey) -> None:
    """Pin the host's keys: the client file's, those of the user's known_hosts, or accepted ones.

    Raises:
        CorralError: USAGE, the key was not accepted; UNREACHABLE; PARSE_FAILED, a key is none.
    """
    if target.known_hosts is None:
        return
    lines = "".join(sshkeys.known_hosts_line(ENTRY, key) for key in keys)
    lines = lines or await sshkeys.known_to_user(ENTRY, target)
    if lines:
        sshkeys.pin(target.known_hosts, lines)
        return
    await shown_keys(ENTRY, target)
    prints = sshkeys.known_fingerprints(ENTRY, "\n".join(target.pinned(ENTRY)))
    if not accept(target.address, prints):
        raise CorralError(
            Code.USAGE,
            f"the host key of {target.address} was not accepted: {', '.join(prints)}",
            hint="compare it with the one that an administrator names, then --accept-host-key; or "
            "ask for a client file, which has it: corral export client",
        )


async def asked(
    node: Transport, host: str, user: str, client: ClientFile | None
) -> tuple[ClientFile, int, tuple[str, ...]]:
    """The host's client file, the user's uid there, and notes.

    Args:
        node: the host, where scripts run as the user.
        host: its name for people.
        user: the account.
        client: an administrator's client file, in place of the host's own.

    Raises:
        CorralError: as ``login``.
    """
    inquired, what = inquiry(login_questions(user)), f"asking {host}"
    result = check(await node.run(inquired.script, timeout=LOGIN_S), what)
    answers = inquired.answers(result.stdout, host, what)
    if missing := MISSING.read(answers):
        raise CorralError(
            Code.MISSING_TOOL,
            f"{missing[0]} is not on {user}'s PATH there",
            hint="name a node of the cluster where people log in; Slurm's commands must be on the "
            "PATH of commands by ssh, which read no ~/.profile",
        )
    if client is None:
        published = CLIENT.read(answers)
        if not published:
            raise CorralError(
                Code.NOT_FOUND,
                f"this is not a login node of a cluster of Corral's: no {PUBLISHED}",
                hint="name the controller or a node of access.login; where an earlier Corral "
                "brought it up, an administrator runs corral up FILE, or corral export client",
            )
        again = "an administrator runs: corral up FILE"
        client = read_client(published, ClientFile, PUBLISHED, again)
    notes: tuple[str, ...] = ()
    if "associations" in ENFORCED.read(answers) and not associations_of(user).read(answers):
        notes = (
            f"{user} has no association in Slurm's accounting, so Slurm refuses {user}'s jobs: "
            f"{entry_hint(user, person=person_of(user).read(answers))}",
        )
    return client, UID.read(answers), notes
