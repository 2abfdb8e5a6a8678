"""What this machine has for the directory of people: the authority's certificate, the password."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec
from corral.state.system.directory import DirectoryFiles

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_MEMORY: Final = 64 * 1024 * 1024


def directory_files(spec: ClusterSpec) -> DirectoryFiles | None:
    """The files that the cluster file names, read; None where it names no directory.

    Raises:
        CorralError: NOT_FOUND, a file cannot be read; USAGE, it holds something else.
    """
    directory = spec.directory
    if directory is None:
        return None
    ca = _read("directory.ca", directory.ca).replace("\r\n", "\n") if directory.ca else ""
    if directory.ca and _BEGIN not in ca:
        raise CorralError(
            Code.USAGE,
            f"{directory.ca} has no certificate in it (PEM)",
            hint="directory.ca: the file with the authority's certificate, not a key or DER",
        )
    if not directory.password_file:
        return DirectoryFiles(ca)
    password = _read("directory.password_file", directory.password_file).partition("\n")[0]
    if "\r" in password:
        raise CorralError(
            Code.USAGE,
            f"the first line of {directory.password_file} ends in a carriage return",
            hint="directory.password_file: write it with line feeds alone (sed -i 's/\\r$//' FILE)",
        )
    # SSSD's settings drop blanks at both ends of a value.
    if not password or password != password.strip() or not password.isprintable():
        raise CorralError(
            Code.USAGE,
            f"the first line of {directory.password_file} is not a password that SSSD can hold",
            hint="directory.password_file: printable characters, no blank at either end",
        )
    path = str(Path(directory.password_file).expanduser())
    return DirectoryFiles(ca, path, _fingerprint(password, spec.name))


def _read(field: str, name: str) -> str:
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
def _fingerprint(password: str, cluster: str) -> str:
    salt = f"corral directory {cluster}".encode()
    key = hashlib.scrypt(password.encode(), salt=salt, n=2**15, r=8, p=1, maxmem=_MEMORY, dklen=16)
    return key.hex()
