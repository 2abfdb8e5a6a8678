"""Runs one machine, and switches it on again when it went down to reboot.

User-mode-linux starts itself again on a reboot while its tap is still held ("uml_tap: failed to
select tap interface", linux.uml 6.1). With ``noreboot`` it ends instead, and its console
distinguishes a reboot from a power-off.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REBOOT = b"reboot: Restarting system"


def main(console: Path, pid: Path, argv: list[str]) -> int:
    """Run the machine until it goes down for good; its last exit status.

    Args:
        console: file that its console is appended to.
        pid: file that keeps its process id: it leads a process group of its own making.
        argv: the machine.
    """
    while True:
        start = console.stat().st_size
        machine = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        pid.write_text(str(machine.pid))
        status = machine.wait()
        pid.unlink()
        with console.open("rb") as output:
            output.seek(start)
            if REBOOT not in output.read():
                return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
