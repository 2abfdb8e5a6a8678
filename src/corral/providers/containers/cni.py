"""Podman 3.4 (Ubuntu 22.04) and its CNI plugins disagree about the version of a network's file.

Podman writes ``cniVersion`` 1.0.0, which the ``firewall`` plugin of containernetworking-plugins
0.9.1 refuses, so no container of the network starts. It can go when Ubuntu 22.04 does. Podman from
4 on with netavark writes no such file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path("/etc/cni/net.d")
WRITTEN, UNDERSTOOD = "1.0.0", "0.4.0"


def fix_version(network: str, folder: Path = FOLDER) -> bool:
    """Give the network's file the version its plugins understand.

    Returns:
        True when there was such a file with the refused version.
    """
    path = folder / f"{network}.conflist"
    if not path.is_file():
        return False
    fields: dict[str, Any] = json.loads(path.read_text())
    if fields.get("cniVersion") != WRITTEN:
        return False
    fields["cniVersion"] = UNDERSTOOD
    path.write_text(json.dumps(fields, indent=3) + "\n")
    return True
