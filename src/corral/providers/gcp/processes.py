"""Processes of this machine: children of gcluster, and a Terraform that works in a folder."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
"""Not there on macOS."""
ASK_S: Final = 10.0
GONE: Final = (FileNotFoundError, ProcessLookupError)


def children_of(parent: int) -> set[int]:
    """Processes that a process started and that still run."""
    return {pid for pid, of, state in _processes() if of == parent and state[:1] not in ("Z", "X")}


def _processes() -> list[tuple[int, int, str]]:
    """Number, parent and state of each."""
    rows: list[list[str]] = []
    if (PROC / "self").exists():
        for path in PROC.glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                # Behind the name, which may hold anything: state, parent.
                state, of = path.read_text(errors="replace").rpartition(")")[2].split()[:2]
                rows.append([path.parent.name, of, state])
    else:
        printed = _printed("ps", "-axo", "pid=,ppid=,stat=") or ""
        rows = [line.split() for line in printed.splitlines()]
    return [(int(pid), int(of), state) for pid, of, state in rows]


def terraform_in(folder: Path) -> bool:
    """Whether a Terraform of this user works in a folder; True where that cannot be found out."""
    folders = _by_proc() if (PROC / "self").exists() else _by_lsof()
    if folders is None:
        return True
    return any(path.is_relative_to(folder.resolve()) for path in folders)


def _by_proc() -> list[Path] | None:
    """Working folders of this user's Terraforms; None: unknown."""
    folders: list[Path] = []
    for process in PROC.glob("[0-9]*"):
        try:
            # Not its plugins ("terraform-provi"), which may outlive it.
            if process.stat().st_uid != os.getuid():
                continue
            if (process / "comm").read_text(errors="replace").strip() == "terraform":
                folders.append((process / "cwd").readlink())
        except GONE:
            continue
        except OSError:
            return None
    return folders


def _by_lsof() -> list[Path] | None:
    """The same on macOS."""
    which = ("-u", str(os.getuid()), "-c", "/^terraform$/", "-d", "cwd")
    printed = _printed("lsof", "-a", *which, "-Fn")
    if printed is None:
        return None
    return [Path(line[1:]) for line in printed.splitlines() if line.startswith("n")]


def _printed(*argv: str) -> str | None:
    """What a program printed, whatever its status; None where it did not run to its end."""
    try:
        ended = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.decode("utf-8", "replace")
