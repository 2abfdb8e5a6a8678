"""A folder that Corral shares with others: its own files are known by a mark. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from corral.hosts.quote import Script, join, sh
from corral.state.base import Change, Context, Seen, Standalone

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
        """``parts:<folder>``."""
        return f"parts:{self.folder}"

    @cached_property
    def wanted(self) -> dict[str, str]:
        """Digest and mode by name, as the probe prints them."""
        return {n: f"{hashlib.sha256(t.encode()).hexdigest()} 755 root:root" for n, t in self.files}

    def probe(self) -> Script:
        """``name digest mode owner`` of each file that is Corral's, by mark or by name."""
        return sh(
            'for f in {folder}/*; do [ -f "$f" ] || continue; n=${{f##*/}}; '
            'case " {names} " in *" $n "*) ;; *) '
            'sed -n 2p "$f" | grep -q {mark} || continue ;; esac; '
            'd=$(sha256sum < "$f"); printf \'%s %s %s\\n\' "$n" "${{d%% *}}" '
            '"$(stat -c \'%a %U:%G\' "$f")"; done',
            folder=self.folder,
            names=[name for name, _ in self.files],
            mark=f"^{MARK}",
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Write what differs, remove what is Corral's and no longer wanted."""
        present = {n: rest for n, _, rest in (line.partition(" ") for line in _lines(seen.text))}
        late = [(n, t) for n, t in self.files if present.get(n) != self.wanted[n]]
        gone = sorted(present.keys() - self.wanted.keys())
        if not late and not gone:
            return None
        steps = [f"write {n}" for n, _ in late] + [f"remove {n}" for n in gone]
        return Change(
            self.id,
            f"{self.folder}: {', '.join(steps)}",
            "\n".join(sorted(present)),
            "\n".join(sorted(self.wanted)),
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
        # The other name has a dot in it, so that the runner does not take it for a part.
        return sh(
            "printf %s {text} > {path}.new && chown root:root {path}.new && "
            "chmod 755 {path}.new && mv -f {path}.new {path}",
            text=file[1],
            path=self._path(file[0]),
        )


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]
