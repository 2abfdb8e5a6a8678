"""Reads what ``scontrol show node --oneliner`` prints. Pure.

That form works alike from 21.08 to 26.05, gives base state and flags in words (``IDLE+DRAIN``),
and needs one call for all nodes; ``sinfo`` squeezes the same into one word and a sign, ``--json``
changes with each release.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Final

from corral.errors import Code, CorralError
from corral.slurm.records import Node
from corral.slurm.states.nodes import NodeState

SHOW_NODES: Final = ("scontrol", "show", "node", "--oneliner")
"""The command whose answer ``parse_nodes`` reads."""

_FIELD: Final = re.compile(r"(?:^| )([A-Z][A-Za-z_]*)=")
# src/api/node_info.c: OS= is the node's own word; free text follows all that Slurm vouches for.
_OS: Final = re.compile(r" OS=(.*?) +(?=RealMemory=\d+ AllocMem=)")
_TRAILING: Final = (
    "Comment|Extra|InstanceId|InstanceType|ReservationName|TLSCertTokenSet|TLSCertLastRenewal"
    "|Topology|Parameters"
)
_TRAILING_FIELD: Final = re.compile(rf"(?:^| )({_TRAILING})=")
_TAIL: Final = re.compile(rf" (?=(?:Reason|{_TRAILING})=)")
# Slurm signs the first line of a reason; --oneliner puts eight spaces before further lines.
_REASON: Final = re.compile(
    r"Reason=(?P<text>.*?)(?: \[(?P<user>[^@\[\] ]*)@(?P<when>[^\[\] ]*)\])"
    rf"(?P<more> {{4,}}.*?)?(?P<rest> (?:{_TRAILING})=.*)?"
)
_UNSIGNED: Final = re.compile(rf"Reason=(?P<text>.*?)(?P<rest> (?:{_TRAILING})=.*)?")
_DECIMAL: Final = re.compile(r"\d+(?:\.\d+)?")
_EMPTY: Final = frozenset({"", "(null)", "N/A", "none", "None"})


def parse_nodes(text: str) -> tuple[Node, ...]:
    """Read the answer of ``SHOW_NODES``.

    Raises:
        CorralError: a line is not a node, or a number or state cannot be read.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if lines == ["No nodes in the system"]:
        return ()
    return tuple(_node(line) for line in lines)


def readable_nodes(text: str) -> dict[str, Node]:
    """The nodes by name; what is not a complete line of a node is left out."""
    found: dict[str, Node] = {}
    for line in text.splitlines():
        with contextlib.suppress(CorralError):
            found |= {node.name: node for node in parse_nodes(line)}
    return found


def fields_of(line: str) -> dict[str, str]:
    """Fields of any ``--oneliner`` line of scontrol; the first field of a name counts.

    Values may hold spaces, also text that looks like a field: trust only fields that precede
    the first free text of the line.
    """
    return _pairs(line, _FIELD)


def node_fields(line: str) -> dict[str, str]:
    """Fields of a node's line; ``Reason`` comes with ``ReasonBy`` and ``ReasonAt``.

    OS, Reason and Comment are taken out by what stands around them, so that no such text can
    change another field.
    """
    found: dict[str, str] = {}
    system = _OS.search(line)
    if system:
        found["OS"] = system[1]
        line = f"{line[: system.start()]} {line[system.end() :]}"
    head, *tail = _TAIL.split(line.rstrip(), maxsplit=1)
    found |= _pairs(head, _FIELD)
    if tail and tail[0].startswith("Reason="):
        found |= _reason(tail[0])
    elif tail:
        found |= _pairs(tail[0], _TRAILING_FIELD)
    return found


def _pairs(text: str, field: re.Pattern[str]) -> dict[str, str]:
    """``A=x B=y z`` as a mapping; the first field of a name counts."""
    found: dict[str, str] = {}
    marks = list(field.finditer(text))
    for at, mark in enumerate(marks):
        stop = marks[at + 1].start() if at + 1 < len(marks) else len(text)
        found.setdefault(mark.group(1), text[mark.end() : stop].strip())
    return found


def _reason(text: str) -> dict[str, str]:
    signed = _REASON.fullmatch(text)
    found = signed or _UNSIGNED.fullmatch(text)
    if found is None:  # only a line end inside the line could do that
        return {"Reason": text.removeprefix("Reason=")}
    parts = found.groupdict()
    rest = _pairs(parts["rest"] or "", _TRAILING_FIELD)
    more = (parts.get("more") or "").strip()
    by = {"ReasonBy": parts["user"], "ReasonAt": parts["when"]} if signed else {}
    return rest | by | {"Reason": f"{parts['text']} {more}".strip()}


def _node(line: str) -> Node:
    fields = node_fields(line)
    if "NodeName" not in fields or "State" not in fields:
        raise CorralError(
            Code.PARSE_FAILED,
            "scontrol did not describe a node",
            command=" ".join(SHOW_NODES),
            tail=line[:200],
            hint="is slurmctld up? see scontrol ping",
        )
    load = fields.get("CPULoad", "")
    return Node(
        name=fields["NodeName"],
        state=NodeState.parse(fields["State"]),
        reason=fields.get("Reason", ""),
        reason_by=fields.get("ReasonBy", ""),
        reason_at=_moment(fields.get("ReasonAt", "")),
        address=fields.get("NodeAddr", ""),
        version=_text(fields, "Version"),
        partitions=_list(fields, "Partitions"),
        features=_list(fields, "AvailableFeatures"),
        active_features=_list(fields, "ActiveFeatures"),
        cpus=_number(fields, "CPUTot"),
        cpus_used=_number(fields, "CPUAlloc"),
        threads=_number(fields, "ThreadsPerCore") or 1,
        load=float(load) if _DECIMAL.fullmatch(load) else None,
        memory=_number(fields, "RealMemory"),
        memory_used=_number(fields, "AllocMem"),
        memory_free=int(free) if (free := fields.get("FreeMem", "")).isdecimal() else None,
        gres=_text(fields, "Gres"),
        gres_used=_text(fields, "GresUsed"),
        tres=fields.get("CfgTRES", ""),
        tres_used=fields.get("AllocTRES", ""),
        boot_at=boot if isinstance(boot := _moment(fields.get("BootTime", "")), int) else None,
        watts=int(watts) or None if (watts := fields.get("CurrentWatts", "")).isdecimal() else None,
    )


def _moment(value: str) -> int | str | None:
    """Unix seconds where the command printed such, else its own text."""
    return int(value) if value.isascii() and value.isdigit() else value or None


def _text(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name, "")
    return "" if value in _EMPTY else value


def _list(fields: Mapping[str, str], name: str) -> tuple[str, ...]:
    value = _text(fields, name)
    return tuple(value.split(",")) if value else ()


def _number(fields: Mapping[str, str], name: str) -> int:
    value = fields.get(name, "0")
    if not (value.isascii() and value.isdigit()):
        raise CorralError(
            Code.PARSE_FAILED, f"{fields['NodeName']}: {name}={value!r} is not a number"
        )
    return int(value)
