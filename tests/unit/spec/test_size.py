"""A large file is judged in seconds, whatever fills it: no rule is quadratic."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pytest

from corral.spec.hostlist import NODES_AT_MOST
from corral.spec.load import BYTES_AT_MOST, load_text
from corral.spec.rules import PROBLEMS_AT_MOST

SIZE: Final = BYTES_AT_MOST // 4
LIMIT_S: Final = 6.0
"""CPU seconds: four times what the slowest takes, half of what the quadratic rules took."""

HEAD: Final = "corral: v1\nname: big\n"
MAIN: Final = "groups:\n- {name: g, provider: ssh, nodes: n0, addresses: 10.0.0.1}\n"
WIDE: Final = "[0-255].[0-255]"


def _list(title: str, entry: Callable[[int], str], *, head: str = MAIN, indent: str = "") -> str:
    """A file whose list ``title`` is as long as the limit lets it be."""
    text = [f"{HEAD}{head}{title}:\n"]
    size = len(text[0])
    number = 0
    while True:
        line = f"{indent}- {entry(number)}\n"
        size += len(line)
        if size > SIZE:
            return "".join(text)
        text.append(line)
        number += 1


def _groups(entry: Callable[[int], str]) -> str:
    return _list("groups", entry, head="")


def _wide(count: int) -> str:
    return "".join(
        f"- {{name: g{i}, provider: ssh, nodes: 'n{i}x[0-65535]', addresses: '10.{i}.{WIDE}'}}\n"
        for i in range(count)
    )


TOPOLOGY: Final = "network:\n  topology:\n    plugin: tree\n    switches"
FILES: Final[dict[str, Callable[[], str]]] = {
    "one group of all nodes": lambda: f"{HEAD}groups:\n{_wide(1)}",
    "16 groups of all nodes": lambda: f"{HEAD}groups:\n{_wide(16)}",
    "groups of one node": lambda: _groups(
        lambda i: f"{{name: g{i}, provider: ssh, nodes: n{i}, addresses: a{i}}}"
    ),
    "groups of all nodes": lambda: _groups(
        lambda i: f"{{name: g{i}, provider: embedded, nodes: 'n{i}x[0-65535]'}}"
    ),
    "groups of all addresses": lambda: _groups(
        lambda i: f"{{name: g{i}, provider: ssh, nodes: n{i}, addresses: '10.9.{WIDE}'}}"
    ),
    "groups of one name": lambda: _groups(lambda _: "{name: g, provider: ssh, nodes: n}"),
    "names written out": lambda: (
        f"{HEAD}groups:\n- {{name: g, provider: ssh, nodes: '"
        + ",".join(f"n{i}" for i in range(60_000))
        + f"', addresses: '10.0.{WIDE}'}}\n"
    ),
    "many ranges": lambda: (
        f"{HEAD}groups:\n- {{name: g, provider: ssh, nodes: 'n["
        + ",".join(f"{i}-{i}" for i in range(60_000))
        + "]', addresses: x}\n"
    ),
    "users": lambda: _list("users", lambda i: f"{{name: u{i}, uid: {2000 + i}}}"),
    "users of one name": lambda: _list("users", lambda _: "{name: u, uid: 2000}"),
    "accounts": lambda: _list("accounts", lambda i: f"{{name: a{i}}}"),
    "partitions": lambda: _list("partitions", lambda i: f"{{name: p{i}, groups: [g]}}"),
    "partitions of no group": lambda: _list("partitions", lambda i: f"{{name: p{i}, groups: [h]}}"),
    "storage": lambda: _list(
        "storage", lambda i: f"{{mount: /s{i}, kind: nfs, server: n0, path: /e{i}}}"
    ),
    "servers that are no nodes": lambda: _list(
        "storage", lambda i: f"{{mount: /s{i}, kind: nfs, server: m{i}, path: /e{i}}}",
        head="groups:\n- {name: g, provider: embedded, nodes: 'a-long-name-of-a-node-[0-65535]'}\n",
    ),
    "storage of one place": lambda: _list("storage", lambda _: "{mount: /s, kind: existing}"),
    "switches": lambda: _list(
        TOPOLOGY, lambda i: f"{{name: s{i}, switches: [t{i}]}}", indent="    "
    ),
    "switches of all nodes": lambda: _list(
        TOPOLOGY, lambda i: f"{{name: s{i}, nodes: 'n0x[0-65535]'}}", indent="    ",
        head=f"groups:\n{_wide(1)}",
    ),
    "one switch of all nodes": lambda: (
        f"{HEAD}groups:\n{_wide(1)}{TOPOLOGY}:\n    - {{name: s, nodes: 'n0x[0-65535]'}}\n"
    ),
    "login nodes": lambda: f"{HEAD}groups:\n{_wide(1)}access: {{login: 'n0x[0-65535]'}}\n",
    "keys that nobody knows": lambda: HEAD + "".join(f"k{i}: 1\n" for i in range(22_000)),
    "partitions of other groups": lambda: (
        f"{HEAD}groups:\n"
        + "".join(f"- {{name: group{i}, provider: embedded, nodes: n{i}}}\n" for i in range(1500))
        + "partitions:\n"
        + "".join(f"- {{name: p{i}, groups: [grupp{i}]}}\n" for i in range(3000))
    ),
    "one long word": lambda: f"{HEAD}{'k' * 250_000}: 1\n",
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_a_large_file_is_judged_in_seconds(kind: str) -> None:
    text = FILES[kind]()
    assert len(text) <= BYTES_AT_MOST
    began = time.process_time()
    load_text(text, "big.yaml")
    assert time.process_time() - began < LIMIT_S


def test_too_many_nodes_are_counted_and_not_made() -> None:
    findings = load_text(f"{HEAD}groups:\n{_wide(16)}", "big.yaml").findings
    [found] = [f for f in findings if f.rule == "too-many-nodes"]
    assert found.message == f"{16 * NODES_AT_MOST} nodes; Slurm takes {NODES_AT_MOST} at most"


def test_a_rule_lists_its_first_problems_and_says_so() -> None:
    text = _list("partitions", lambda i: f"{{name: p{i}, groups: [h]}}")
    found = [f for f in load_text(text, "big.yaml").findings if f.rule == "partition-group-unknown"]
    assert len(found) == PROBLEMS_AT_MOST + 1
    assert found[-1].message.startswith(f"more than {PROBLEMS_AT_MOST} problems")


def test_no_rule_blames_what_was_not_read() -> None:
    text = f"{HEAD}groups:\n{_wide(2)}controller: n1x5\naccess: {{login: n0x4}}\n"
    assert [f.rule for f in load_text(text, "big.yaml").findings] == ["too-many-nodes"]
