"""A Python environment from wheels that come from this machine: pinned, with digests. Pure.

The wheels travel by the script's stdin, so that a machine needs neither pip nor a package
index; pip itself is one of them (docs/guide/tracking.md).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call, sh
from corral.spec.impacts import Impact
from corral.state.base import HERE, Change, Context, SecretRef, Seen, Standalone

WHEELS: Final = "wheels"
"""Folder of wheels in this machine's cache, as it is in a ``SecretRef``."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel: its file name, and its SHA-256 as the lock has it."""

    file: str
    sha256: str

    @property
    def requirement(self) -> str:
        """``name==version``, as its file name states (PEP 427)."""
        name, version, *_ = self.file.split("-")
        return f"{name}=={version}"

    @property
    def place(self) -> str:
        """Where it is in this machine's cache."""
        return f"{WHEELS}/{self.sha256}/{self.file}"


@dataclass(frozen=True, slots=True)
class PythonEnv(Standalone):
    """A virtual environment with exactly these wheels.

    Attributes:
        path: its folder.
        title: what it holds, for people: ``MLflow 3.17.2``.
        wheels: everything in it, and pip.
    """

    path: str
    title: str
    wheels: tuple[Wheel, ...]

    @property
    def id(self) -> str:
        return f"pyenv:{self.path}"

    @property
    def digest(self) -> str:
        """What distinguishes it from another set of wheels."""
        text = "".join(f"{w.sha256} {w.file}\n" for w in self.wheels)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def marker(self) -> str:
        """The file that is written last, with the digest."""
        return f"{self.path}/.corral"

    def probe(self) -> Script:
        """The digest of a complete environment; "" where there is none."""
        return sh("[ ! -x {path}/bin/python ] || cat {marker}", path=self.path, marker=self.marker)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Re-create it."""
        if seen.text == self.digest:
            return None
        return Change(
            self.id,
            f"{self.title} in {self.path}, from {len(self.wheels)} wheels",
            "another one" if seen.text else "",
            self.digest,
            self._make(),
            Impact.RESTART if seen.text else Impact.NONE,
            secrets=tuple(SecretRef(w.file, HERE, w.place) for w in self.wheels),
        )

    def _make(self) -> Script:
        sums = "".join(f"{w.sha256}  {w.file}\n" for w in self.wheels)
        return call(
            "state/packages.sh",
            "python_make",
            self.path,
            self.digest,
            sums,
            *(w.file for w in self.wheels),
        )
