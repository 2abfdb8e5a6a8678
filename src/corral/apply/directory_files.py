"""What this machine has for the directory of people: the authority's certificate, the password."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from corral.apply.own_secrets import fingerprint, first_line, text_of
from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec
from corral.state.system.directory import DirectoryFiles

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"


def directory_files(spec: ClusterSpec) -> DirectoryFiles | None:
    """The files that the cluster file names, read; None where it names no directory.

    Raises:
        CorralError: NOT_FOUND, a file cannot be read; USAGE, it holds something else.
    """
    directory = spec.directory
    if directory is None:
        return None
    ca = text_of("directory.ca", directory.ca).replace("\r\n", "\n") if directory.ca else ""
    if directory.ca and _BEGIN not in ca:
        raise CorralError(
            Code.USAGE,
            f"{directory.ca} has no certificate in it (PEM)",
            hint="directory.ca: the file with the authority's certificate, not a key or DER",
        )
    if not directory.password_file:
        return DirectoryFiles(ca)
    # SSSD's settings drop blanks at both ends of a value.
    password = first_line("directory.password_file", directory.password_file)
    path = str(Path(directory.password_file).expanduser())
    return DirectoryFiles(ca, path, fingerprint(password, f"corral directory {spec.name}"))
