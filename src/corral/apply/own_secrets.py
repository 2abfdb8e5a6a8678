"""Secrets in files of this machine that the cluster file names, known by a fingerprint."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec
from corral.spec.rules.services import LOOPBACK
from corral.state.own_secret import OwnSecret

_MEMORY: Final = 64 * 1024 * 1024


def first_line(field: str, name: str) -> str:
    """The first line of a file that the cluster file names.

    Raises:
        CorralError: NOT_FOUND, the file cannot be read; USAGE, no text that a setting can hold.
    """
    secret = text_of(field, name).partition("\n")[0]
    if "\r" in secret:
        raise CorralError(
            Code.USAGE,
            f"the first line of {name} ends in a carriage return",
            hint=f"{field}: write it with line feeds alone (sed -i 's/\\r$//' FILE)",
        )
    if not secret or secret != secret.strip() or not secret.isprintable():
        raise CorralError(
            Code.USAGE,
            f"the first line of {name} is not a secret that a setting can hold",
            hint=f"{field}: printable characters, no blank at either end",
        )
    return secret


def text_of(field: str, name: str) -> str:
    """The text of a file that the cluster file names.

    Raises:
        CorralError: NOT_FOUND, it cannot be read.
    """
    try:
        # As it is: read_text would hide a carriage return.
        return Path(name).expanduser().read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text"
        raise CorralError(
            Code.NOT_FOUND,
            f"{name} cannot be read: {why}",
            hint=f"{field} of the cluster file names it; it is a file of this machine",
        ) from error


@cache
def fingerprint(secret: str, salt: str) -> str:
    """What a plan knows of a secret that people choose: a guess costs 32 MiB and some 0.1 s."""
    key = hashlib.scrypt(
        secret.encode(), salt=salt.encode(), n=2**15, r=8, p=1, maxmem=_MEMORY, dklen=16
    )
    return key.hex()


def notify_secrets(spec: ClusterSpec) -> tuple[OwnSecret, ...]:
    """The secrets of the cluster's messages: the relay's password, addresses of webhooks.

    Raises:
        CorralError: NOT_FOUND, a file cannot be read; USAGE, it holds something else.
    """
    notify = spec.services.notify
    if notify is None:
        return ()
    files = {"relay": ("services.notify.password_file", notify.password_file)}
    for hook in notify.webhooks:
        files[f"webhook-{hook.name}"] = ("services.notify.webhooks.url_file", hook.url_file)
    made: list[OwnSecret] = []
    for name, (field, path) in files.items():
        if path is None:
            continue
        secret = first_line(field, path)
        if name != "relay" and not _private(secret):
            raise CorralError(
                Code.USAGE,
                f"the first line of {path} is not an https address",
                hint=f"{field}: the address of the webhook",
            )
        mark = fingerprint(secret, f"corral notify {spec.name} {name}")
        made.append(OwnSecret(name, str(Path(path).expanduser()), mark))
    return tuple(made)


def _private(address: str) -> bool:
    """By https, or to a program of the controller's own."""
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
