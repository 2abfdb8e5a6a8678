"""Files, folders and symbolic links: as they must be, shared with others, or gone. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from corral.hosts.quote import Script, call, join, sh
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Reading, ReadTogether, Seen, Standalone

_PROGRAM: Final = "state/files.sh"
SHOWN_BYTES = 65536
"""Of a file that differs, at most this much is read back to be shown in the plan."""

ImpactOf = Callable[[str, str], Impact]


def paths_read(*paths: str) -> Reading:
    """Digests, modes and owners of files and folders."""
    return Reading(_PROGRAM, "files_read", paths)


@dataclass(frozen=True)
class File(Standalone, ReadTogether):
    """A text file with an owner and a mode.

    Attributes:
        path: absolute path.
        content: the entire text.
        owner: ``user:group``.
        mode: octal without leading zero, as ``stat -c %a`` prints it.
        in_place: write into the existing file instead of renaming a new one over it; for files
            that are bind mounts in containers, such as /etc/hosts (F65).
        impact_of: impact of going from one content to another; None: no separate impact.
        note: what the plan adds to its line, "" for nothing.
        quiet: shell that runs before a change of impact drain or worse: it makes sure that no work
            is disturbed, or fails.
    """

    path: str
    content: str
    owner: str = "root:root"
    mode: str = "644"
    in_place: bool = False
    impact_of: ImpactOf | None = None
    note: str = ""
    quiet: Script | None = None

    @property
    def id(self) -> str:
        return f"file:{self.path}"

    @cached_property
    def digest(self) -> str:
        """Sha256 of the wanted content."""
        return hashlib.sha256(self.content.encode()).hexdigest()

    @property
    def reading(self) -> Reading:
        """Its path."""
        return paths_read(self.path)

    def probe(self) -> Script:
        """Digest, mode and owner; the content itself only when it is not the wanted one."""
        return call(_PROGRAM, "file_probe", self.path, self.digest, SHOWN_BYTES)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Compare content, then owner and mode."""
        first, _, encoded = seen.text.partition("\n")
        if first == f"{self.digest} {self.mode} {self.owner}":
            return None
        if first.startswith(self.digest):
            return self._attributes(first)
        before = "" if first == "absent" else _decode(encoded)
        impact = self.impact_of(before, self.content) if self.impact_of else Impact.NONE
        verb = "write" if first == "absent" else "change"
        summary, script = f"{verb} {self.path}", self._write()
        if self.note:
            summary += f": {self.note}"
        if self.quiet is not None and impact >= Impact.DRAIN:
            summary += ", when all jobs have ended"
            script = sh("( {quiet}\n) && {{ {write}\n}}", quiet=self.quiet, write=script)
        return Change(self.id, summary, before, self.content, script, impact)

    def _attributes(self, first: str) -> Change:
        before = first.partition(" ")[2]
        return Change(
            self.id,
            f"owner and mode of {self.path}",
            before,
            f"{self.mode} {self.owner}",
            call(_PROGRAM, "file_own", self.path, self.owner, self.mode),
        )

    def _write(self) -> Script:
        if self.in_place:
            return call(
                _PROGRAM, "file_write_in_place", self.path, self.owner, self.mode, self.content
            )
        return call(_PROGRAM, "file_write", self.path, self.owner, self.mode, self.content)


@dataclass(frozen=True, slots=True)
class Directory(Standalone, ReadTogether):
    """A folder with an owner and a mode (octal as ``stat -c %a`` prints it)."""

    path: str
    owner: str = "root:root"
    mode: str = "755"

    @property
    def id(self) -> str:
        return f"directory:{self.path}"

    @property
    def reading(self) -> Reading:
        """Its path."""
        return paths_read(self.path)

    def probe(self) -> Script:
        """Mode and owner."""
        return call(_PROGRAM, "folder_probe", self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Compare mode and owner."""
        desired = f"{self.mode} {self.owner}"
        if seen.text == desired:
            return None
        return Change(
            self.id,
            f"folder {self.path} ({desired})",
            "" if seen.text == "absent" else seen.text,
            desired,
            call(_PROGRAM, "folder_make", self.path, self.owner, self.mode),
        )


def _decode(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode(errors="replace")
    except (binascii.Error, ValueError):
        return ""


UNITS = "/etc/systemd/system"


@dataclass(frozen=True, slots=True)
class Link(Standalone):
    """A symbolic link.

    Attributes:
        path: absolute path of the link.
        target: what it points to.
        why: shown in the plan.
    """

    path: str
    target: str
    why: str = ""

    @property
    def id(self) -> str:
        return f"file:{self.path}"

    def probe(self) -> Script:
        """Where it points to; ``other`` for something that is not a link."""
        return call(_PROGRAM, "link_probe", self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Compare the target."""
        if seen.text == self.target:
            return None
        script = sh("ln -sfn {target} {path}", target=self.target, path=self.path)
        if self.path.startswith(f"{UNITS}/"):
            script = sh("{script} && {known}", script=script, known=self._known())
        before = "" if seen.text == "absent" else seen.text
        summary = self.why or f"link {self.path} to {self.target}"
        return Change(self.id, summary, before, self.target, script)

    def _known(self) -> Script:
        # systemd goes on with a unit that it has loaded until a reload (systemctl(1)), which reads
        # all units again; one that it has not loaded it finds masked at once.
        if self.target != "/dev/null":
            return sh("systemctl daemon-reload")
        return sh(
            '[ "$(systemctl show -p LoadState {unit})" = LoadState=masked ] || '
            "systemctl daemon-reload",
            unit=self.path.rpartition("/")[2],
        )


def masked(unit: str, why: str) -> Link:
    """A unit that nothing can start any more, as ``systemctl mask`` makes it."""
    return Link(f"{UNITS}/{unit}", "/dev/null", why)


@dataclass(frozen=True, slots=True)
class Gone(Standalone):
    """A file that is removed; only for paths that nobody but Corral writes.

    Attributes:
        path: absolute path.
        folder: it is a folder, removed with all that is in it.
    """

    path: str
    folder: bool = False

    @property
    def id(self) -> str:
        return f"file:{self.path}"

    def probe(self) -> Script:
        """``there`` or ``absent``."""
        return call(_PROGRAM, "is_there", self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Remove it."""
        if seen.text != "there":
            return None
        remove = sh("rm -rf {p}", p=self.path) if self.folder else sh("rm -f {p}", p=self.path)
        return Change(self.id, f"remove {self.path}", "there", "", remove)


MARK: Final = "# Written by Corral."
"""Begins the second line of each file of Corral's."""


@dataclass(frozen=True)
class Parts(Standalone):
    """Executable files of Corral's in a folder; others' files there are left alone.

    Attributes:
        folder: absolute path.
        files: name and text of each; a file with Corral's mark that is not among them goes.
            A file of somebody else under one of their names is replaced (the ledger keeps it).

    Raises:
        ValueError: a text lacks the mark.
    """

    folder: str
    files: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        for name, text in self.files:
            if not text.startswith(f"#!/bin/sh\n{MARK}"):
                raise ValueError(f"{name} does not state that Corral wrote it")

    @property
    def id(self) -> str:
        return f"parts:{self.folder}"

    @cached_property
    def desired(self) -> dict[str, str]:
        """Digest and mode by name, as the probe prints them."""
        return {n: f"{hashlib.sha256(t.encode()).hexdigest()} 755 root:root" for n, t in self.files}

    def probe(self) -> Script:
        """``name digest mode owner`` of each file that is Corral's, by mark or by name."""
        return call(
            _PROGRAM, "parts_probe", self.folder, f"^{MARK}", *(name for name, _ in self.files)
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Write what differs, remove what is Corral's and no longer wanted."""
        present = {n: rest for n, _, rest in (line.partition(" ") for line in _lines(seen.text))}
        late = [(n, t) for n, t in self.files if present.get(n) != self.desired[n]]
        gone = sorted(present.keys() - self.desired.keys())
        if not late and not gone:
            return None
        steps = [f"write {n}" for n, _ in late] + [f"remove {n}" for n in gone]
        return Change(
            self.id,
            f"{self.folder}: {', '.join(steps)}",
            "\n".join(sorted(present)),
            "\n".join(sorted(self.desired)),
            join(
                [
                    sh("set -e; mkdir -p {f}", f=self.folder),
                    *map(self._write, late),
                    *(sh("rm -f {p}", p=self._path(n)) for n in gone),
                ]
            ),
            keeps=tuple(f"file:{self._path(n)}" for n in [*(n for n, _ in late), *gone]),
        )

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def _write(self, file: tuple[str, str]) -> Script:
        return call(_PROGRAM, "part_write", self._path(file[0]), file[1])


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]
