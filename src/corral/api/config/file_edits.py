"""Use cases of one entry of a cluster file: change it as text, see what that means, save it."""

from __future__ import annotations

import difflib
import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from corral.api.config.entry_edits import SECTIONS, EntryEdit, EntryField, edited, entry_fields
from corral.errors import Code, CorralError, cannot_read
from corral.roles.machine.people import declared_accounts
from corral.spec import explain
from corral.spec.findings import Finding, near_file
from corral.spec.load import BYTES_AT_MOST, load_text
from corral.spec.models import ClusterSpec
from corral.spec.tree import parse
from corral.state.slurm.accounts import NO_LIMIT, fields_of, qos_fields


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a cluster file at one moment.

    Attributes:
        path: of the file.
        text: its content.
    """

    path: Path
    text: str

    @property
    def digest(self) -> str:
        """Names this content."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A change of a cluster file that nobody has saved.

    Attributes:
        before: the file as it is.
        text: as it would be.
        findings: what is wrong with that, and what is worth knowing.
    """

    before: FileText
    text: str
    findings: tuple[Finding, ...]

    def diff(self) -> str:
        """The change, for ``patch``; "" where nothing changes."""
        name = self.before.path.name
        old, new = self.before.text.splitlines(), self.text.splitlines()
        return "\n".join(difflib.unified_diff(old, new, name, name, lineterm=""))


def read_file(path: Path | str) -> FileText:
    """A cluster file's text.

    Raises:
        CorralError: NOT_FOUND, it is not there or is not text.
    """
    place = Path(path)
    try:
        with place.open("rb") as file:
            return FileText(place, file.read(BYTES_AT_MOST + 1).decode())
    except (OSError, ValueError) as error:
        raise CorralError(
            Code.NOT_FOUND,
            cannot_read(place, error),
            hint=near_file(place, "*.y*ml") or "name the cluster file",
        ) from error


def edit_entry(
    path: Path | str, section: str, name: str, words: Mapping[str, str] | None, digest: str = ""
) -> FileEdit:
    """Change one entry of a list of the cluster file, as text; saves nothing.

    Args:
        path: the file.
        section: one of ``SECTIONS``.
        name: the entry's name; one that is not there is added.
        words: what is set by the field's name, "" to take the field out; None takes out the entry.
        digest: of the content that is to be changed; "": of whatever is there.

    Raises:
        CorralError: USAGE, the section, field or entry is unknown, or the file is written in a
            form that cannot be changed so; NOT_FOUND; SPEC_INVALID, the file is not YAML;
            STALE_PLAN, somebody else changed it.
    """
    if section not in SECTIONS:
        raise CorralError(
            Code.USAGE,
            f"{section} is not a list that can be edited",
            hint=f"write {near} in its place"
            if (near := explain.near(section, SECTIONS))
            else f"write one of {', '.join(SECTIONS)} in its place",
        )
    before = require_unchanged(path, digest) if digest else read_file(path)
    text = edited(before.text, EntryEdit(section, name, words))
    return FileEdit(before, text, load_text(text, str(path)).findings)


def require_unchanged(path: Path | str, digest: str) -> FileText:
    """The file, which has the content that was changed.

    Raises:
        CorralError: STALE_PLAN, somebody else changed the file meanwhile; NOT_FOUND.
    """
    now = read_file(path)
    if now.digest != digest:
        raise CorralError(
            Code.STALE_PLAN,
            f"{now.path.name} was changed by somebody else meanwhile, and was left as it is",
            hint="look at it, and make the change again",
        )
    return now


def save_file(path: Path | str, digest: str, text: str) -> FileText:
    """Put a changed text in the file's place: complete or not at all; a link stays one.

    Args:
        path: the file.
        digest: of the content that was changed.
        text: the new content.

    Returns:
        the file as it was, to be put back.

    Raises:
        CorralError: STALE_PLAN, somebody else changed the file meanwhile; COMMAND_FAILED, it cannot
            be written.
    """
    was = require_unchanged(path, digest)
    try:
        real = was.path.resolve()
        about = real.stat()
        handle, new = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), about.st_mode & 0o777)
            if os.geteuid() == 0:
                os.fchown(file.fileno(), about.st_uid, about.st_gid)
            file.write(text.encode())
        Path(new).replace(real)
    except OSError as error:
        raise CorralError(
            Code.COMMAND_FAILED,
            f"{was.path} cannot be written: {error.strerror}",
            hint="make the file and its folder writable",
        ) from error
    return was


def editable() -> Mapping[str, tuple[EntryField, ...]]:
    """The lists of a cluster file that ``edit_entry`` changes, each with its entries' fields."""
    return {section: entry_fields(section) for section in SECTIONS}


def entries_of(text: str) -> dict[str, dict[str, dict[str, str]]]:
    """The entries of those lists as written: the fields' words by list and name."""
    top, _ = parse(text)
    data: Any = top.plain() if top and top.pairs is not None else {}
    made: dict[str, dict[str, dict[str, str]]] = {}
    for section in SECTIONS:
        listed: Any = data.get(section)
        entries = cast("list[Any]", listed) if isinstance(listed, list) else []
        named = [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]
        made[section] = {str(entry["name"]): _words(entry) for entry in named if "name" in entry}
    return made


def _words(entry: Mapping[str, Any], above: str = "") -> dict[str, str]:
    words: dict[str, str] = {}
    for name, value in entry.items():
        if isinstance(value, dict):
            words |= _words(cast("dict[str, Any]", value), f"{above}{name}.")
        elif isinstance(value, list):
            words[above + name] = ", ".join(str(part) for part in cast("list[Any]", value))
        elif isinstance(value, bool):
            words[above + name] = str(value).lower()
        elif value is not None and (above or name != "name"):
            words[above + name] = str(value)
    return words


def declared_limits(spec: ClusterSpec) -> dict[str, dict[str, int]]:
    """The limits that a file's accounts, users and QOS have in Slurm, by what they are of.

    Returns:
        for ``account NAME``, ``user ACCOUNT NAME`` and ``qos NAME`` the limits by Slurm's word,
        with the resource behind ``=``: ``GrpTRES=gres/gpu``; MiB of memory, seconds of a time.
    """
    desired = declared_accounts(spec)
    if desired is None:
        return {}
    fields = {f"account {a.name}": fields_of(a) for a in desired.accounts}
    fields |= {f"user {u.account} {u.name}": fields_of(u) for u in desired.users}
    fields |= {f"qos {q.name}": qos_fields(q) for q in desired.qos}
    return {
        of: {
            word.replace(" ", "="): int(value)
            for word, value in words.items()
            if word.startswith(("Grp", "Max")) and value != NO_LIMIT
        }
        for of, words in fields.items()
    }


def holds_limits(spec: ClusterSpec) -> bool:
    """Whether applying the file sets shares and limits back that were set by hand."""
    desired = declared_accounts(spec)
    return desired is not None and desired.limits
