"""The cluster's SSH key and the nodes' pinned host keys, in the cluster's own folder."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts import process

KEY: Final = "id_ed25519"
KNOWN_HOSTS: Final = "known_hosts"
_HOST_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]{68}={0,2}\Z")


class Access:
    """Keys below one folder.

    Args:
        folder: the cluster's folder; it is made by the caller when something is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def key(self) -> Path:
        """The private key file."""
        return self._folder / KEY

    @property
    def known_hosts(self) -> Path:
        """The file with the pinned host keys."""
        return self._folder / KNOWN_HOSTS

    @property
    def complete(self) -> bool:
        """True when the key pair is there."""
        return self.key.is_file() and self.key.with_suffix(".pub").is_file()

    async def public_key(self) -> str:
        """The public key; the pair is made when it is not there, in one rename each.

        Raises:
            CorralError: MISSING_TOOL or PROVIDER_FAILED.
        """
        public = self.key.with_suffix(".pub")
        if not self.complete:
            with tempfile.TemporaryDirectory(dir=self._folder, prefix=".key-") as work:
                fresh = Path(work) / KEY
                end = await process.run(
                    [
                        "ssh-keygen",
                        "-q",
                        "-t",
                        "ed25519",
                        "-N",
                        "",
                        "-C",
                        "corral",
                        "-f",
                        f"{fresh}",
                    ],
                    timeout=30.0,
                )
                if end.status != 0:
                    raise CorralError(
                        Code.PROVIDER_FAILED,
                        "ssh-keygen could not make the cluster's key",
                        status=end.status,
                        tail=end.stderr.decode(errors="replace").strip(),
                        hint=f"check that {self._folder} is writable",
                    )
                # The private key is moved last: only then does `complete` hold.
                fresh.with_suffix(".pub").replace(public)
                fresh.replace(self.key)
        return public.read_text().strip()

    def enrolled(self) -> dict[str, str]:
        """Container id that each node's host key was read from; none without the key pair."""
        containers: dict[str, str] = {}
        if not self.complete:
            return containers
        for line in self._lines():
            fields = line.split()
            if len(fields) == 4:  # noqa: PLR2004  # name, type, key, container id
                containers[fields[0]] = fields[3]
        return containers

    def pin(self, node: str, host_key: str, container_id: str) -> None:
        """Pin a node's host key; an older one of the same node goes.

        Raises:
            CorralError: PARSE_FAILED, it is not an Ed25519 public key.
        """
        if not _HOST_KEY.match(host_key):
            raise CorralError(
                Code.PARSE_FAILED,
                "the node's host key is not an Ed25519 public key",
                node=node,
                tail=host_key[:200],
                hint="recreate the node",
            )
        self._write([*self._others(node), f"{node} {host_key} {container_id}"])

    def unpin(self, node: str) -> None:
        """Forget a node's host key."""
        self._write(self._others(node))

    def remove(self) -> tuple[str, ...]:
        """Remove keys and host keys; gives what was there."""
        gone = self.files()
        for path in gone:
            path.unlink(missing_ok=True)
        return tuple(map(str, gone))

    def files(self) -> tuple[Path, ...]:
        """The key files and known_hosts, those that are there."""
        paths = (self.key, self.key.with_suffix(".pub"), self.known_hosts)
        return tuple(p for p in paths if p.exists())

    def _lines(self) -> list[str]:
        return self.known_hosts.read_text().splitlines() if self.known_hosts.is_file() else []

    def _others(self, node: str) -> list[str]:
        return [line for line in self._lines() if line.split()[:1] != [node]]

    def _write(self, lines: Iterable[str]) -> None:
        fd, name = tempfile.mkstemp(dir=self._folder, prefix=".known_hosts-")
        with os.fdopen(fd, "w") as file:
            file.writelines(f"{line}\n" for line in lines)
        Path(name).replace(self.known_hosts)
