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

from corral.errors import BAD_JSON, Code, CorralError
from corral.slurm.directives import rewritten, sbatch_options
from corral.slurm.rest.adapters import NEWEST, OLDEST
from corral.slurm.rest.json_values import Record, record, text
from corral.slurm.rest.read import metadata
from corral.slurm.rest.write import Submission

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
"""Those of 22.05, whose scontrol has no ``--json``; for partitions see ``text.SHOW_PARTITIONS``."""
_PARSER: Final = re.compile(r"v0\.0\.(\d{2})")


def too_old(complaint: str) -> bool:
    """Whether a command's complaint means that it does not know ``--json``."""
    return "unrecognized option" in complaint


def body_of(output: str) -> dict[str, Any]:
    """What a command printed.

    Raises:
        CorralError: PARSE_FAILED, it is not JSON; SLURM_REFUSED, it contains an error.
    """
    try:
        body: Any = json.loads(output)
    except BAD_JSON as error:
        raise CorralError(
            Code.PARSE_FAILED,
            "Slurm's command printed no JSON",
            tail=output[-300:],
            hint="--json came with Slurm 21.08, and needs its serializer plugin",
        ) from error
    if not isinstance(body, dict):
        raise CorralError(Code.PARSE_FAILED, "Slurm's command printed JSON that is not an object")
    answer = dict(record(cast("object", body)))
    errors = metadata(answer).errors
    if errors:
        raise CorralError(Code.SLURM_REFUSED, "; ".join(errors))
    return answer


def version_of(body: Record) -> int:
    """The API version whose shape the records have: 42 for v0.0.42."""
    plugin = record(record(body.get("meta")).get("plugin"))
    words = " ".join(text(plugin.get(key)) for key in ("data_parser", "type", "name"))
    match = _PARSER.search(words)
    return min(max(int(match[1]), OLDEST), NEWEST) if match else OLDEST


SPEAKS: Final = 40
"""What requests look like that are turned into commands here: the version after which shapes stay,
and before slurmctld's small table of states, which no command prints."""


def command_of(method: str, path: str, body: Any) -> tuple[str, ...]:
    """The command that does what a request of ``write`` asks slurmrestd for.

    Args:
        method: of the request, such as ``POST``.
        path: such as ``job/12``.
        body: such as ``{"hold": true}``.

    Raises:
        CorralError: USAGE, no command does that.
    """
    kind, _, name = path.partition("/")
    changes: dict[str, Any] = body or {}
    if kind == "job" and method == "DELETE":
        return ("scancel", name)
    if kind == "job" and "hold" in changes:
        return ("scontrol", "hold" if changes["hold"] else "release", name)
    if kind == "job" and "time_limit" in changes:
        return ("scontrol", "update", f"JobId={name}", f"TimeLimit={_minutes(changes)}")
    if kind == "node" and changes.get("state") == ["DRAIN"]:
        reason = f"Reason={changes['reason']}"
        return ("scontrol", "update", f"NodeName={name}", "State=DRAIN", reason)
    if kind == "node" and changes.get("state") == ["RESUME"]:
        return ("scontrol", "update", f"NodeName={name}", "State=RESUME")
    raise CorralError(
        Code.USAGE, f"no command does {method} {path}", hint="set slurm: {rest: true} and apply"
    )


def sbatch_of(submission: Submission) -> tuple[str, ...]:
    """The sbatch that hands in a script, which comes on its standard input (``stdin_of``)."""
    named = [f"--job-name={submission.name}"] if submission.name else []
    argv = ["sbatch", "--parsable", *named, f"--chdir={submission.workdir}"]
    if submission.partition:
        argv.append(f"--partition={submission.partition}")
    if submission.stdout:
        argv.append(f"--output={submission.stdout}")
    return tuple(argv)


def stdin_of(submission: Submission) -> str:
    """The script for it, without options for a terminal: ``--wait`` waits for the job's end."""
    options = sbatch_options()
    return rewritten(submission.script, lambda o: None if options[o.name].terminal else o)


def number_of(printed: str) -> int | None:
    """The job's number, of what ``sbatch --parsable`` printed; None: there is none."""
    number = printed.strip().rpartition("\n")[2].partition(";")[0]
    return int(number) if number.isdecimal() else None


def _minutes(body: Mapping[str, Any]) -> int:
    return int(body["time_limit"]["number"])
