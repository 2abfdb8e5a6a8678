"""Chained adapters: a record of an older API version is lifted to the next, up to the newest.

Each one states the difference that it bridges, found by comparing the OpenAPI documents of the two
versions and the recorded answers (``tests/recorded/rest/``); fields that nobody reads are left as
they are. Versions that differ in none of our fields have no entry. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from corral.slurm.rest.json_values import Record, number, text, words

OLDEST: Final = 38
NEWEST: Final = 45

Lift = Callable[[dict[str, Any]], None]


def lift(kind: str, raw: Record, version: int) -> dict[str, Any]:
    """A record in the newest shape.

    Args:
        kind: node, job or partition.
        raw: the record as slurmrestd gave it.
        version: of the API that gave it: 42 for v0.0.42.
    """
    made = dict(raw)
    for at in range(version, NEWEST):
        step = LIFTS.get((kind, at))
        if step is not None:
            step(made)
    return made


def _node_38(node: dict[str, Any]) -> None:
    """v0.0.38 -> 39: ``state`` one text in lower case, its flags apart; ``cpu_load`` bare.

    Slurm 22.05 calls the real memory ``real_memory`` already, and the free one ``free_memory``.
    """
    flags = words(node.pop("state_flags", []))
    node["state"] = [word.upper() for word in (text(node.get("state")), *flags) if word]
    node.setdefault("free_mem", node.pop("free_memory", None))


def _job_38(job: dict[str, Any]) -> None:
    """v0.0.38 -> 39: the limit is bare; 4294967295 is infinite, 4294967294 not set."""
    limit = number(job.get("time_limit"))
    job["time_limit"] = {"set": limit is not None, "infinite": limit is None, "number": limit or 0}


def _partition_38(partition: dict[str, Any]) -> None:
    """v0.0.38 -> 39: flat fields were grouped: ``nodes``, ``maximums``, ``partition``."""
    if isinstance(partition.get("nodes"), str):
        partition["nodes"] = {
            "configured": partition["nodes"],
            "total": partition.get("total_nodes", 0),
        }
        partition["maximums"] = {
            "time": partition.get("maximum_time_per_job", partition.get("max_time_limit")),
            "nodes": partition.get("maximum_nodes_per_job"),
        }
        partition["partition"] = {"state": [text(partition.get("state")).upper()]}


def _job_39(job: dict[str, Any]) -> None:
    """v0.0.39 -> 40: ``job_state`` a list; ``exit_code`` the raw wait status taken apart.

    The raw one is bare in v0.0.38 and ``{"set", "infinite", "number"}`` in v0.0.39.
    """
    if isinstance(job.get("job_state"), str):
        job["job_state"] = [job["job_state"]]
    raw = number(job.get("exit_code"))
    if raw is not None:
        job["exit_code"] = {
            "return_code": {"set": True, "infinite": False, "number": int(raw) >> 8},
            "signal": {"id": {"set": True, "infinite": False, "number": int(raw) & 0x7F}},
        }


LIFTS: Final = MappingProxyType[tuple[str, int], Lift](
    {
        ("node", 38): _node_38,
        ("job", 38): _job_38,
        ("partition", 38): _partition_38,
        ("job", 39): _job_39,
    }
)
"""By kind and by the version they lift from."""
