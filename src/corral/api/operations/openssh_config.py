"""Use cases: a cluster's machines in OpenSSH's configuration, for ssh, rsync and editors."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from corral.apply.session import Session
from corral.errors import Code, CorralError
from corral.hosts import process
from corral.hosts.target import SSH_PORT, SshTarget, option_path
from corral.providers.login_host import entry_target
from corral.spec.client import ClientSpec
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controllers_of, login_nodes_of, nodes_of, users_of

RESOLVED: Final = ("hostname", "port", "proxyjump", "proxycommand")
"""Settings of the user's own configuration that count for the host of a profile."""
RESOLVE_S: Final = 20.0
ANSWER_S: Final = 10
"""As long as a profile's verbs wait for a login node."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._:-]*")
"""Safe in a shell command without quotes, and no option of ssh."""


async def ssh_config(spec: ClusterSpec, *, user: str = "") -> str:
    """Host blocks for a cluster: ``NAME`` is the login node, ``NODE.NAME`` a node.

    With a profile, or for a user of the cluster, the nodes are reached through the login node; for
    an administrator each as ``corral ssh`` reaches it. Of several login nodes ``NAME`` is the first
    one that answers.

    Args:
        spec: the cluster.
        user: the Linux user that logs in, by that user's own keys; "" for the profile's, or for
            the administrator's account.

    Raises:
        CorralError: NOT_FOUND, no such user, or the cluster is not up; FORBIDDEN, a profile is
            for its own user; USAGE, the cluster is this machine, or a path cannot be written.
    """
    title = _title(spec)
    if isinstance(spec, ClientSpec):
        if user not in ("", spec.profile.user):
            raise CorralError(
                Code.FORBIDDEN,
                f"profile {title} logs in as {spec.profile.user}, not as {user}",
                hint=f"corral login {user}@{spec.profile.host} --name NAME makes another profile",
            )
        own = spec.profile
        entered = {own.node: spec} | {o.node: spec.entered_by(o) for o in own.login_nodes}
        entries = {n: await _resolved(entry_target(each)) for n, each in entered.items()}
        return _section(title, _of_user(spec, title, entries))
    names = [known.name for known in users_of(spec)]
    if user and user not in names:
        raise CorralError(
            Code.NOT_FOUND,
            f"the cluster file has no user {user}",
            hint=f"users: {', '.join(names)}",
        )
    async with await Session.open(spec, root=False) as session:
        session.require_running()
        targets, controller = session.targets(), session.controller
    if controller not in targets:
        raise CorralError(
            Code.USAGE,
            "the cluster is this machine, which Corral does not reach by ssh",
            node=controller,
            hint="no configuration is needed: corral ssh opens a shell here",
        )
    if user:
        own = {"user": user, "key": None, "only_key": False, "privileged": False}
        names = [controller, *(n for n in login_nodes_of(spec) if n in targets)]
        return _section(
            title, _of_user(spec, title, {n: replace(targets[n], **own) for n in names})
        )
    blocks = _logins(title, {n: targets[n] for n in controllers_of(spec) if n in targets})
    blocks += [_block(f"{n}.{title}", _settings(t, n)) for n, t in targets.items()]
    return _section(title, blocks)


def write_ssh_config(path: Path, name: str, section: str) -> bool:
    """Put a cluster's section into a file, in place of an earlier one; all else stays.

    Args:
        path: the file; made, for its owner alone, when it is not there.
        name: the cluster's or profile's name.
        section: what ``ssh_config`` returned.

    Returns:
        whether the file has changed.

    Raises:
        CorralError: COMMAND_FAILED, it cannot be read or written; PARSE_FAILED, an earlier
            section has no end.
    """
    before = _read(path)
    # In front: ssh takes the first value that it finds, and "Host *" often follows.
    return _write(path, before, section + _without(before, name, path))


def remove_ssh_config(path: Path, name: str) -> bool:
    """Take a cluster's section out of a file; returns whether it had one.

    Raises:
        CorralError: as ``write_ssh_config``.
    """
    before = _read(path)
    return _write(path, before, _without(before, name, path))


def _title(spec: ClusterSpec) -> str:
    return spec.profile.name if isinstance(spec, ClientSpec) else spec.name


def _of_user(spec: ClusterSpec, title: str, entries: Mapping[str, SshTarget]) -> list[str]:
    """The login nodes, and through the first one that answers the others."""
    entry, target = next(iter(entries.items()))
    blocks = _logins(title, entries)
    for node in nodes_of(spec):
        if node.name == entry:
            blocks.append(_block(f"{node.name}.{title}", _settings(target, entry)))
            continue
        inner = replace(
            target, address=node.name, port=SSH_PORT, via=None, options=(), pin_new=True
        )
        settings = {**_settings(inner, node.name), "ProxyJump": title}
        blocks.append(_block(f"{node.name}.{title}", settings))
    return blocks


def _logins(title: str, entries: Mapping[str, SshTarget]) -> list[str]:
    """The login node; in front of it the others, each for when none before it answers.

    OpenSSH has no list of addresses for one name, but takes settings where a command succeeds. A
    node behind a ProxyCommand, or of an odd address, cannot be asked so: it has none behind it.
    """
    (first, target), *others = entries.items()
    settings, blocks = _settings(target, first), list[str]()
    silent, before = "", target
    for place, (node, other) in enumerate(others, 1):
        if not (question := _answers(before)):
            break
        silent += f' !exec "{question}"'
        follows = place < len(others) and _answers(other)
        unless = f' exec "{follows}"' if follows else ""
        own = _settings(other, node)
        own |= {name: "none" for name in ("ProxyJump", "ProxyCommand") if name not in own}
        blocks.append(_block("", own, f"Match originalhost {title}{silent}{unless}"))
        before = other
    return [*blocks, _block(title, settings)]


def _answers(target: SshTarget) -> str:
    """A command that succeeds where the target's sshd answers; "" where there is none.

    Whether it lets the user in is not asked: a refusal is to be seen.
    """
    proxies = [value for _, value in pairwise(target.options) if value.startswith("Proxy")]
    if target.via is not None or not _PLAIN.fullmatch(target.address):
        return ""
    if not proxies:
        scan = f"ssh-keyscan -T {ANSWER_S} -p {target.port} -- {target.address} 2>/dev/null"
        return f"{scan} | grep -q ."
    word, _, hop = proxies[0].partition("=")
    if word != "ProxyJump" or len(proxies) > 1 or not _PLAIN.fullmatch(hop):
        return ""
    inner = f"[{target.address}]:{target.port}"
    return (
        f"ssh -o ConnectTimeout={ANSWER_S} -W {inner} {hop} 2>/dev/null </dev/null | grep -q ^SSH-"
    )


async def _resolved(target: SshTarget) -> SshTarget:
    """The target with what the user's own configuration has for its address.

    A HostName is not looked up as a Host again: an alias there would reach nothing.
    """
    argv = ["ssh", "-G", "--", target.address]
    ended = await process.run(argv, timeout=RESOLVE_S)
    pairs = (line.partition(" ") for line in ended.out.splitlines())
    settings = {key: value for key, _, value in pairs if key in RESOLVED}
    options = target.options
    for key, word in (("proxyjump", "ProxyJump"), ("proxycommand", "ProxyCommand")):
        if settings.get(key, "none") != "none":
            options += ("-o", f"{word}={settings[key]}")
    port = target.port if target.port != SSH_PORT else int(settings.get("port", SSH_PORT))
    address = settings.get("hostname", target.address)
    return replace(target, address=address, port=port, options=options)


def _settings(target: SshTarget, node: str) -> dict[str, str]:
    settings = {"HostName": target.address, "User": target.user, "Port": str(target.port)}
    settings |= target.trust(node) if target.known_hosts is not None else {}
    if target.key is not None:
        settings |= {"IdentityFile": option_path(target.key), "IdentitiesOnly": "yes"}
        settings |= {"IdentityAgent": "none"} if target.only_key else {}
    if target.via is not None:
        settings["ProxyCommand"] = target.via.forwarding(None)
    for option, value in pairwise(target.options):
        if option == "-o":
            key, _, text = value.partition("=")
            settings[key] = text
    return settings


def _block(alias: str, settings: Mapping[str, str], head: str = "") -> str:
    lines = (f"  {key} {value}" for key, value in settings.items() if value)
    return "\n".join((head or f"Host {alias}", *lines, ""))


def _section(title: str, blocks: list[str]) -> str:
    # What follows a Host block belongs to it, up to the next one.
    return "\n".join((_begin(title), *blocks, "Match all", _end(title), ""))


def _begin(name: str) -> str:
    return f"# corral: begin {name} (written by corral ssh --config; changes are lost)"


def _end(name: str) -> str:
    return f"# corral: end {name}"


def _without(text: str, name: str, path: Path) -> str:
    quoted = re.escape(name)
    begin = re.compile(rf"^# corral: begin {quoted} .*\n", re.MULTILINE)
    end = re.compile(rf"^# corral: end {quoted}$\n?", re.MULTILINE)
    while began := begin.search(text):
        ended = end.search(text, began.end())
        if ended is None:
            raise CorralError(
                Code.PARSE_FAILED,
                f"{path}: the section of {name} has no end",
                hint=f"remove it by hand, from the line {began[0].strip()!r} on",
            )
        text = text[: began.start()] + text[ended.end() :]
    return text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise CorralError(
            Code.COMMAND_FAILED,
            f"{path} cannot be read",
            tail=str(error),
            hint="name another file with -o",
        ) from error


def _write(path: Path, before: str, after: str) -> bool:
    """Complete or not at all; a link stays one."""
    if before == after:
        return False
    real = path.resolve()
    if real.exists() and not real.is_file():
        raise CorralError(
            Code.COMMAND_FAILED, f"{path} is not a regular file", hint="name another with -o"
        )
    try:
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
        handle, new = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(after)
        Path(new).replace(real)
    except OSError as error:
        raise CorralError(
            Code.COMMAND_FAILED,
            f"{path} cannot be written: {error.strerror}",
            hint="name another file with -o",
        ) from error
    return True
