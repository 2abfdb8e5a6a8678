"""The machines' kernel: linux.uml of a release whose kernel runs programs by seccomp.

Before Linux 6.16 user-mode-linux traces each program (ptrace): 300 forks took 10.7 s on a 6.1
kernel and 2.7 s on a 7.2 one with ``seccomp=on``, the same 400,000 system calls 9.2 s and 2.6 s
(two busy cores). Debian 12 and 13 have 6.1 and 6.12, and a later one needs a later C library than
theirs: both come from the archive, into a folder of the cache.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

SUITE, PACKAGE = "forky", "user-mode-linux"
OPTIONS = ("seccomp=on",)
"""Words of its command line. In this mode it trusts its programs, which are the tests' own."""


@dataclass(frozen=True)
class Kernel:
    """The kernel in a folder with its package and what that depends on."""

    tree: Path

    @property
    def program(self) -> Path:
        return self.tree / "usr/bin/linux.uml"

    @property
    def modules(self) -> Path:
        """Its modules, in a folder named by its version."""
        return next((self.tree / "usr/lib/uml/modules").iterdir())

    def settle(self, tree: Path) -> None:
        """Have the program load the C library of its folder once that is at ``tree``.

        Raises:
            subprocess.CalledProcessError: patchelf's.
        """
        libraries = tree / next(self.tree.rglob("libc.so.6")).parent.relative_to(self.tree)
        loader = libraries / "ld-linux-x86-64.so.2"
        argv = ["patchelf", "--set-interpreter", str(loader), "--set-rpath", str(libraries)]
        subprocess.run([*argv, str(self.program)], check=True)
