"""Bare machines for tests: each a user-mode-linux kernel with systemd, cgroup v2 and sshd.

A lab is a private bridge with its own subnet and some machines on it. Several labs may exist;
each is recorded in its folder, so another process finds it again (``Lab.open``).

``python -m tests.machines.lab up NAME -n 3`` makes one by hand.
"""

from __future__ import annotations

from tests.machines.lab.image import Suite, build, needs
from tests.machines.lab.labs import Lab, Machine, lab_names

__all__ = ["Lab", "Machine", "Suite", "build", "lab_names", "needs"]
