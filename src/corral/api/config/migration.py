"""A cluster file in the newest form of its format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corral.api.config.file_edits import FileEdit, read_file
from corral.spec.format.deprecations import migrated
from corral.spec.load import load_text


@dataclass(frozen=True, slots=True)
class Migration:
    """What would be written into a cluster file that an older Corral's user wrote.

    Attributes:
        edit: the file as it would be, with its findings.
        changes: what is written, a line each.
        left: what a person must write, a line each.
    """

    edit: FileEdit
    changes: tuple[str, ...]
    left: tuple[str, ...]


def migrate_file(path: Path | str) -> Migration:
    """Find what is to be written in a cluster file; saves nothing (``save_file`` does).

    Args:
        path: the file.

    Raises:
        CorralError: NOT_FOUND, it is not there or is not text.
    """
    before = read_file(path)
    made = migrated(before.text)
    edit = FileEdit(before, made.text, load_text(made.text, str(path)).findings)
    return Migration(edit, made.changes, made.left)
