"""Ansible's INI inventory, as DeepOps has it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from corral.errors import Code, CorralError

_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[\d+:\d+\][A-Za-z0-9._-]*)?")


@dataclass(slots=True)
class Inventory:
    """An inventory as Ansible's INI files have it.

    Attributes:
        hosts: variables of each host, in order.
        groups: hosts of each group.
        children: groups of each group.
        variables: of groups.
    """

    hosts: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    groups: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    children: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    variables: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def members(self, group: str, seen: frozenset[str] = frozenset()) -> list[str]:
        """Hosts of a group and of the groups below it."""
        hosts = list(self.groups.get(group, []))
        for child in self.children.get(group, []):
            if child not in seen:
                hosts += self.members(child, seen | {group})
        return list(dict.fromkeys(hosts))


def read_inventory(text: str) -> Inventory:
    """Read an inventory; lines that are none of its grammar are an error.

    Raises:
        CorralError: PARSE_FAILED, with the line.
    """
    made, section, kind = Inventory(), "ungrouped", ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.split(r"(?:^|\s)[#;]", raw, maxsplit=1)[0].strip()
        if not line:
            continue
        head = re.fullmatch(r"\[([A-Za-z0-9_.-]+)(?::(children|vars))?\]", line)
        if head:
            section, kind = head[1], head[2] or ""
        elif kind == "children":
            made.children.setdefault(section, []).append(line)
        elif kind == "vars":
            name, _, value = line.partition("=")
            made.variables.setdefault(section, {})[name.strip()] = _bare(value.strip())
        else:
            _host(made, section, line, number)
    return made


def _host(made: Inventory, section: str, line: str, number: int) -> None:
    pattern, _, rest = line.partition(" ")
    if not _HOST.fullmatch(pattern):
        raise CorralError(
            Code.PARSE_FAILED,
            f"line {number} of the inventory is not Ansible's INI format: {line[:80]!r}",
            hint="give the folder config/ of DeepOps, with its INI inventory",
        )
    pairs = re.findall(r"(\w+)=('[^']*'|\"[^\"]*\"|\S+)", rest)
    for name in _spread(pattern):
        made.hosts.setdefault(name, {}).update({k: _bare(v) for k, v in pairs})
        if section not in ("all", "ungrouped"):
            made.groups.setdefault(section, []).append(name)


def _bare(text: str) -> str:
    """Without the quotes around it; those inside belong to it (a ProxyCommand's)."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _spread(pattern: str) -> list[str]:
    """Ansible's ``gpu[01:10]``."""
    match = re.fullmatch(r"(.*)\[(\d+):(\d+)\](.*)", pattern)
    if not match:
        return [pattern]
    before, first, last, after = match.groups()
    if int(last) - int(first) > 65535:  # noqa: PLR2004
        return [pattern]
    return [f"{before}{i:0{len(first)}}{after}" for i in range(int(first), int(last) + 1)]
