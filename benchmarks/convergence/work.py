"""The same 27 actions for every engine: data only. All of it is under one folder or is undone."""

from __future__ import annotations

from typing import Final

ROOT: Final = "/srv/bench"
DIRECTORIES: Final = tuple(f"{ROOT}/d{i}" for i in range(10))
FILES: Final = {f"{ROOT}/d{i % 10}/f{i}.conf": f"key{i} = value\n" * 40 for i in range(11)}
USERS: Final = {"benchann": 3001, "benchbob": 3002}
PACKAGES: Final = ("procps", "openssh-server")
SERVICES: Final = ("ssh", "dbus")
ACTIONS: Final = len(DIRECTORIES) + len(FILES) + len(USERS) + len(PACKAGES) + len(SERVICES)

UNDO: Final = f"rm -rf {ROOT}; " + "; ".join(f"userdel -r {u} 2>/dev/null" for u in USERS) + "; :"
"""Shell that makes a node fresh again."""

CHECK: Final = (
    f"find {ROOT} -type f | wc -l; id -u benchann; id -u benchbob; stat -c %a {ROOT}/d3/f3.conf"
)
CHECKED: Final = "11\n3001\n3002\n640\n"
"""What CHECK prints on a node where the work is done."""
