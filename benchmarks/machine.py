"""What benchmarks share: what they need, a line about the machine, quoted shell text."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements-dev.lock"


def required(*modules: str) -> None:
    """End before anything is measured where Python packages are not installed.

    Raises:
        SystemExit: with what is missing and how to install it.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        install = shlex.join([sys.executable, "-m", "pip", "install", "-r", str(LOCK)])
        raise SystemExit(f"not installed: {', '.join(missing)}\nhint: {install}")


def machine() -> str:
    """CPU, cores, memory, kernel and load of this machine."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    return (
        f"{cpu}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, load before {load:.1f}"
    )


def sh(template: str, **values: object) -> str:
    """Shell text with each value quoted."""
    return template.format(**{name: shlex.quote(str(value)) for name, value in values.items()})
