"""Judging a file takes time that grows with its size, whatever fills it: no rule is quadratic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from corral.spec.load import BYTES_AT_MOST, load_text
from corral.spec.rules import PROBLEMS_AT_MOST
from corral.spec.slurm.hostlist import NODES_AT_MOST
from tests.growth import AT_MOST, TIMES, growth

LARGE: Final = BYTES_AT_MOST // 4
SMALLER: Final = 16
"""Each run judges a sixteenth of it, the slow tests all of it."""

HEAD: Final = "corral: v1\nname: big\n"
MAIN: Final = "groups:\n- {name: g, provider: ssh, nodes: n0, addresses: 10.0.0.1}\n"
WIDE: Final = "[0-255].[0-255]"


def _list(
    size: int, title: str, entry: Callable[[int], str], *, head: str = MAIN, indent: str = ""
) -> str:
    """A file whose list ``title`` is as long as ``size`` lets it be."""
    text = [f"{HEAD}{head}{title}:\n"]
    taken = len(text[0])
    number = 0
    while True:
        line = f"{indent}- {entry(number)}\n"
        taken += len(line)
        if taken > size:
            return "".join(text)
        text.append(line)
        number += 1


def _groups(size: int, entry: Callable[[int], str]) -> str:
    return _list(size, "groups", entry, head="")


def _nodes(size: int) -> int:
    """Nodes of a file of this size: all that Slurm takes at the largest."""
    return NODES_AT_MOST * size // LARGE


def _wide(count: int, size: int = LARGE) -> str:
    last = _nodes(size) - 1
    return "".join(
        f"- {{name: g{i}, provider: ssh, nodes: 'n{i}x[0-{last}]', "
        f"addresses: '10.{i}.[0-{last // 256}].[0-255]'}}\n"
        for i in range(count)
    )


TOPOLOGY: Final = "network:\n  topology:\n    plugin: tree\n    switches"
FILES: Final[dict[str, Callable[[int], str]]] = {
    "one group of all nodes": lambda size: f"{HEAD}groups:\n{_wide(1, size)}",
    "16 groups of all nodes": lambda size: f"{HEAD}groups:\n{_wide(16, size)}",
    "groups of one node": lambda size: _groups(
        size, lambda i: f"{{name: g{i}, provider: ssh, nodes: n{i}, addresses: a{i}}}"
    ),
    "groups of all nodes": lambda size: _groups(
        size,
        lambda i: f"{{name: g{i}, provider: embedded, nodes: 'n{i}x[0-{NODES_AT_MOST - 1}]'}}",
    ),
    "groups of all addresses": lambda size: _groups(
        size, lambda i: f"{{name: g{i}, provider: ssh, nodes: n{i}, addresses: '10.9.{WIDE}'}}"
    ),
    "groups of one name": lambda size: _groups(
        size, lambda _: "{name: g, provider: ssh, nodes: n}"
    ),
    "names written out": lambda size: (
        f"{HEAD}groups:\n- {{name: g, provider: ssh, nodes: '"
        + ",".join(f"n{i}" for i in range(60_000 * size // LARGE))
        + f"', addresses: '10.0.{WIDE}'}}\n"
    ),
    "many ranges": lambda size: (
        f"{HEAD}groups:\n- {{name: g, provider: ssh, nodes: 'n["
        + ",".join(f"{i}-{i}" for i in range(60_000 * size // LARGE))
        + "]', addresses: x}\n"
    ),
    "users": lambda size: _list(size, "users", lambda i: f"{{name: u{i}, uid: {2000 + i}}}"),
    "users of one name": lambda size: _list(size, "users", lambda _: "{name: u, uid: 2000}"),
    "accounts": lambda size: _list(size, "accounts", lambda i: f"{{name: a{i}}}"),
    "partitions": lambda size: _list(size, "partitions", lambda i: f"{{name: p{i}, groups: [g]}}"),
    "partitions of no group": lambda size: _list(
        size, "partitions", lambda i: f"{{name: p{i}, groups: [h]}}"
    ),
    "storage": lambda size: _list(
        size, "storage", lambda i: f"{{mount: /s{i}, kind: nfs, server: n0, path: /e{i}}}"
    ),
    "servers that are not nodes": lambda size: _list(
        size,
        "storage",
        lambda i: f"{{mount: /s{i}, kind: nfs, server: m{i}, path: /e{i}}}",
        head="groups:\n- {name: g, provider: embedded, nodes: "
        f"'a-long-name-of-a-node-[0-{_nodes(size) - 1}]'}}\n",
    ),
    "storage of one place": lambda size: _list(
        size, "storage", lambda _: "{mount: /s, kind: existing}"
    ),
    "switches": lambda size: _list(
        size, TOPOLOGY, lambda i: f"{{name: s{i}, switches: [t{i}]}}", indent="    "
    ),
    "switches of all nodes": lambda size: _list(
        size,
        TOPOLOGY,
        lambda i: f"{{name: s{i}, nodes: 'n0x[0-{_nodes(size) - 1}]'}}",
        indent="    ",
        head=f"groups:\n{_wide(1, size)}",
    ),
    "one switch of all nodes": lambda size: (
        f"{HEAD}groups:\n{_wide(1, size)}{TOPOLOGY}:\n"
        f"    - {{name: s, nodes: 'n0x[0-{_nodes(size) - 1}]'}}\n"
    ),
    "login nodes": lambda size: (
        f"{HEAD}groups:\n{_wide(1, size)}access: {{login: 'n0x[0-{_nodes(size) - 1}]'}}\n"
    ),
    "unknown keys": lambda size: (
        HEAD + "".join(f"k{i}: 1\n" for i in range(22_000 * size // LARGE))
    ),
    "partitions of other groups": lambda size: (
        f"{HEAD}groups:\n"
        + "".join(
            f"- {{name: group{i}, provider: embedded, nodes: n{i}}}\n"
            for i in range(1500 * size // LARGE)
        )
        + "partitions:\n"
        + "".join(f"- {{name: p{i}, groups: [grupp{i}]}}\n" for i in range(3000 * size // LARGE))
    ),
    "one long word": lambda size: f"{HEAD}{'k' * (250_000 * size // LARGE)}: 1\n",
}


def judge(kind: str, size: int) -> Callable[[], object]:
    """A file of this kind and size, to be judged."""
    text = FILES[kind](size)
    assert len(text) <= BYTES_AT_MOST
    return lambda: load_text(text, "big.yaml")


@pytest.mark.parametrize("size", [LARGE // SMALLER, pytest.param(LARGE, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", FILES)
def test_judging_grows_with_the_size_of_the_file(kind: str, size: int) -> None:
    """Quadratic rules took 10.8 s for 16 groups of 65,536 nodes."""
    assert growth(judge(kind, size // TIMES), judge(kind, size)) < AT_MOST


def test_too_many_nodes_are_counted_and_not_made() -> None:
    findings = load_text(f"{HEAD}groups:\n{_wide(16)}", "big.yaml").findings
    [finding] = [f for f in findings if f.rule == "too-many-nodes"]
    assert finding.message == f"{16 * NODES_AT_MOST} nodes; Slurm takes {NODES_AT_MOST} at most"


def test_a_rule_lists_its_first_problems_and_reports_more() -> None:
    text = _list(LARGE // SMALLER, "partitions", lambda i: f"{{name: p{i}, groups: [h]}}")
    findings = [
        f for f in load_text(text, "big.yaml").findings if f.rule == "partition-group-unknown"
    ]
    assert len(findings) == PROBLEMS_AT_MOST + 1
    assert findings[-1].message.startswith(f"more than {PROBLEMS_AT_MOST} problems")


def test_no_rule_blames_what_was_not_read() -> None:
    text = f"{HEAD}groups:\n{_wide(2)}controller: n1x5\naccess: {{login: n0x4}}\n"
    assert [f.rule for f in load_text(text, "big.yaml").findings] == ["too-many-nodes"]
