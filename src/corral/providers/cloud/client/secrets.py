"""Keys of clouds: from the environment, a private file or the keyring; never from an argument.

And where a cloud is: its own address, or another one for a rehearsal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

import platformdirs

from corral.errors import Code, CorralError
from corral.spec.providers import RENTALS
from corral.variables import other_address

_KEY: Final = re.compile(r"[\x21-\x7e]{8,512}")
_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cloud's key and address come from.

    Attributes:
        provider: the word in the cluster file.
        title: its name for people.
        variable: environment variable of the key.
        url: address of its API.
    """

    provider: str
    title: str
    variable: str
    url: str

    @property
    def url_variable(self) -> str:
        """Environment variable that names another address: a simulated cloud."""
        return other_address(self.provider)


PLACES: Final[Mapping[str, Place]] = MappingProxyType(
    {
        name: Place(name, rental.title, rental.variable, rental.url)
        for name, rental in RENTALS.items()
    }
)


def url_of(provider: str, environ: Mapping[str, str] = os.environ) -> str:
    """The address to talk to.

    Raises:
        CorralError: USAGE, it would send the key in the clear over a network.
    """
    place = PLACES[provider]
    url = environ.get(place.url_variable, "") or place.url
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and _near(parts.hostname or "")):
        return url.rstrip("/")
    raise CorralError(
        Code.USAGE,
        f"{place.url_variable} is not an https address: the API key would travel in the clear",
        hint="http is for simulated clouds on this machine or its private network",
    )


def _near(host: str) -> bool:
    try:
        return ip_address(host).is_private
    except ValueError:
        return host == "localhost"


def key_file(provider: str) -> Path:
    """The file that may hold the key."""
    return platformdirs.user_config_path("corral") / "keys" / provider


def key_of(
    provider: str,
    environ: Mapping[str, str] = os.environ,
    keyring: Callable[[str], str] | None = None,
    file: Path | None = None,
) -> str:
    """The API key: environment, else file, else keyring.

    Args:
        provider: the cloud.
        environ: the environment.
        keyring: asks the keyring.
        file: another file than the usual one.

    Raises:
        CorralError: NOT_FOUND, there is none; USAGE, it is not a key, or others can read its file.
    """
    place = PLACES[provider]
    file = file or key_file(provider)
    key = environ.get(place.variable, "").strip() or _from_file(file)
    key = key or (keyring or _from_keyring)(provider)
    if not key:
        raise CorralError(
            Code.NOT_FOUND,
            f"no API key of {place.title}",
            hint=f"set {place.variable}, or write it to {file} (mode 600), or: "
            f"keyring set corral {provider}",
        )
    if not _KEY.fullmatch(key):
        raise CorralError(
            Code.USAGE,
            f"the value given for the API key of {place.title} is not a key",
            hint=f"{place.variable} must hold the key alone: printable, no spaces, one line",
        )
    return key


def kept_key(name: str) -> str:
    """A key that is not a cloud's, from its private file or the keyring; "" where there is none.

    Raises:
        CorralError: USAGE, others can read the file.
    """
    return _from_file(key_file(name)) or _from_keyring(name)


def _from_file(file: Path) -> str:
    try:
        mode = file.stat().st_mode
        text = file.read_text().strip()
    except OSError:
        return ""
    if mode & _OTHERS:
        raise CorralError(
            Code.USAGE, f"others can read {file}", hint=f"chmod 600 {file}, and make a new key"
        )
    return text


def _from_keyring(provider: str) -> str:
    try:
        secret = import_module("keyring").get_password("corral", provider)
    except Exception:  # no keyring here, or a locked one: it is one of three places
        return ""
    return str(secret or "")
