"""Facts of the last observation, kept only to ask less often: each observation compares them.

What a machine is to hold depends on what it is, so its probes can be written only when its facts
are known: two round trips. Machines seldom change what they are, so the second one is saved by
writing the probes from the facts of last time and sending both questions together. The facts that
return decide: when they differ from the guess, the answers to its probes are discarded. The file
can be removed or damaged at any time; that costs one round trip.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from corral.errors import CorralError
from corral.inspect.facts import Facts

NAME: Final = "facts.json"


def guessed(folder: Path) -> dict[str, Facts]:
    """Facts by node as they were last read; empty when there are none that this version reads."""
    try:
        data: Any = json.loads((folder / NAME).read_text())
        if not isinstance(data, dict):
            return {}
        fields = cast("dict[str, Mapping[str, object]]", data)
        return {node: Facts.from_dict(facts) for node, facts in fields.items()}
    except (OSError, ValueError, CorralError):
        return {}


def remember(folder: Path, facts: Mapping[str, Facts]) -> None:
    """Keep facts for the next observation.

    Nothing is made where the cluster has no folder, and a full or read-only disk is not a failure:
    the next check only takes one round trip more.
    """
    if not folder.is_dir():
        return
    text = json.dumps(
        {node: node_facts.as_dict() for node, node_facts in facts.items()}, sort_keys=True
    )
    new = folder / f".{NAME}.{secrets.token_hex(4)}"
    try:
        new.write_text(text)
        new.replace(folder / NAME)
    except OSError:
        new.unlink(missing_ok=True)
