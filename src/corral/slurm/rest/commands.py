"""Slurm's client commands with ``--json``: the same records as slurmrestd's, without it. Pure.

``squeue``, ``sinfo`` and ``scontrol`` print what the newest data parser of their release makes
(24.05, ``--json`` in their manuals); 22.05 has its own, of the shape of v0.0.38.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from corral.errors import Code, CorralError
from corral.slurm.rest.adapters import NEWEST, OLDEST
from corral.slurm.rest.loose import Record, record, text
from corral.slurm.rest.read import told

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "nodes": ("scontrol", "show", "nodes", "--json"),
        "jobs": ("squeue", "--all", "--states=all", "--json"),
        "partitions": ("scontrol", "show", "partitions", "--json"),
    }
)
"""By the list they print."""
OLDER: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"nodes": ("sinfo", "--all", "--json"), "jobs": ("squeue", "--all", "--json")}
)
"""Those of 22.05, whose scontrol has no ``--json``; it prints no partitions."""
_PARSER: Final = re.compile(r"v0\.0\.(\d{2})")


def body_of(output: str) -> dict[str, Any]:
    """What a command printed.

    Raises:
        CorralError: PARSE_FAILED, it is no JSON; SLURM_REFUSED, it says what is wrong.
    """
    try:
        body: Any = json.loads(output)
    except ValueError as error:
        raise CorralError(
            Code.PARSE_FAILED,
            "Slurm's command printed no JSON",
            tail=output[-300:],
            hint="--json came with Slurm 21.08, and needs its serializer plugin",
        ) from error
    if not isinstance(body, dict):
        raise CorralError(Code.PARSE_FAILED, "Slurm's command printed something else than records")
    found = dict(record(cast("object", body)))
    errors = told(found).errors
    if errors:
        raise CorralError(Code.SLURM_REFUSED, "; ".join(errors))
    return found


def version_of(body: Record) -> int:
    """The API version whose shape the records have: 42 for v0.0.42."""
    plugin = record(record(body.get("meta")).get("plugin"))
    words = " ".join(text(plugin.get(key)) for key in ("data_parser", "type", "name"))
    found = _PARSER.search(words)
    return min(max(int(found[1]), OLDEST), NEWEST) if found else OLDEST
