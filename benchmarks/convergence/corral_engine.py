"""The work by Corral's engine: one process, as ``corral apply`` does it.

Usage: python -m benchmarks.convergence.corral_engine INVENTORY.json
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from benchmarks.convergence import work
from corral.testing.engine import Held, apply

HELD = Held(work.DIRECTORIES, work.FILES, work.USERS, work.PACKAGES, work.SERVICES)

if __name__ == "__main__":
    inventory = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps({"changes": asyncio.run(apply("bench", inventory, HELD))}))
