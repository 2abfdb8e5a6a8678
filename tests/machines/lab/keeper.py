"""Runs one machine, and switches it on again when it went down to reboot.

User-mode-linux starts itself anew on a reboot while its tap is still held ("uml_tap: failed to
select tap interface", linux.uml 6.1). With ``noreboot`` it ends instead, and its console tells a
reboot from a power-off; power is cut by killing this process's whole group.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REBOOT = b"reboot: Restarting system"


def main(console: Path, argv: list[str]) -> int:
    """Run the machine until it goes down for good; its last exit status."""
    while True:
        start = console.stat().st_size
        status = subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode
        with console.open("rb") as said:
            said.seek(start)
            if REBOOT not in said.read():
                return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
