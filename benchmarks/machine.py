"""What benchmarks share: a line about the machine, shell text with quoted values."""

from __future__ import annotations

import os
import platform
import shlex
from pathlib import Path


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
