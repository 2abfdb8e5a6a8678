"""Rounds of the scheduled proof, as the controller keeps them, read as proofs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from corral.hosts.quote import Script, call
from corral.prove.model import CheckResult, Evidence, Figure, Proof, Verdict
from corral.tables import Hint, hints_for, read_table

FOLDER: Final = "/var/lib/corral/proof/rounds"
MOST: Final = 60
CHECK: Final = "schedule.nodes"
_ROUND: Final = re.compile(r"round (\d{1,12})")
_HINT: Final = (
    "a node that was drained for it is measured again by the next round, behind a reservation; "
    "begin with corral doctor --health"
)


@cache
def round_hints() -> tuple[Hint, ...]:
    """What is likely, by the words of a round."""
    return read_table("corral.prove", "round_hints.yaml", tuple[Hint, ...])


def rounds_script(after: int = 0) -> Script:
    """Read-only shell that prints all rounds after a moment (unix seconds), oldest first."""
    return call("prove/jobs.sh", "rounds_print", FOLDER, after)


def parse_rounds(cluster: str, text: str) -> tuple[Proof, ...]:
    """Proofs of the rounds in a text; a round that was cut off is left out."""
    proofs: list[Proof] = []
    lines: list[str] = []
    begun: int | None = None
    for line in text.splitlines():
        begin = _ROUND.fullmatch(line)
        if begin:
            begun, lines = int(begin[1]), []
        elif line.startswith("end ") and begun is not None:
            proofs.append(_proof(cluster, begun, lines))
            begun = None
        else:
            lines.append(line)
    return tuple(proofs)


def _proof(cluster: str, at: int, lines: list[str]) -> Proof:
    words: dict[str, tuple[str, str]] = {}
    groups: dict[str, tuple[str, str]] = {}
    figures: dict[str, dict[str, Figure]] = {}
    for kind, node, rest in _parts(lines):
        if kind in {"node", "group"}:
            word, _, message = rest.partition(" ")
            (words if kind == "node" else groups)[node] = word, message
        elif kind == "figure":
            name, _, value = rest.partition(" ")
            number = _number(value)
            if number is not None:
                figures.setdefault(node, {})[name] = number
    evidence = tuple(
        Evidence(node, "corral-proof-round", f"{word}: {message}", figures.get(node, {}))
        for node, (word, message) in (*words.items(), *groups.items())
    )
    verdict, summary = _jointly(groups, *_judged(words))
    hint = _hint(summary) if verdict in {Verdict.FAIL, Verdict.WARN} else ""
    title = "Idle nodes measure as their peers and their past"
    result = CheckResult(CHECK, title, "schedule", verdict, summary, hint, evidence)
    return Proof(cluster, float(at), (result,))


def _hint(summary: str) -> str:
    return "; ".join(hints_for(round_hints(), summary)) or _HINT


def _judged(words: dict[str, tuple[str, str]]) -> tuple[Verdict, str]:
    by = {word: [n for n, (w, _) in words.items() if w == word] for word, _ in words.values()}
    bad = [f"{node}: {words[node][1]}" for node in by.get("fail", [])]
    broken = [f"{node} was not measured: {words[node][1]}" for node in by.get("broken", [])]
    away = len(by.get("preempted", [])) + len(by.get("busy", []))
    rest = f"; {away} gave way to jobs" if away else ""
    if bad:
        return Verdict.FAIL, "; ".join([*bad, *broken]) + rest
    if broken:
        return Verdict.WARN, "; ".join(broken) + rest
    good = len(by.get("pass", []))
    if not good:
        return Verdict.SKIP, "no node was idle" + rest
    return Verdict.PASS, f"{good} node{'' if good == 1 else 's'} healthy" + rest


def _jointly(
    groups: dict[str, tuple[str, str]], verdict: Verdict, summary: str
) -> tuple[Verdict, str]:
    """The verdict over single nodes with that of the collectives over all of them."""
    for nodes, (word, message) in groups.items():
        if word == "fail":
            return Verdict.FAIL, f"collectives over {nodes}: {message}; {summary}"
        if word == "broken":
            worse = Verdict.FAIL if verdict is Verdict.FAIL else Verdict.WARN
            return worse, f"collectives over {nodes} were not measured: {message}; {summary}"
        if word == "pass":
            return verdict, f"{summary}, and together"
    return verdict, summary


def _parts(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    for line in lines:
        match line.split(" ", 2):
            case [kind, node, rest]:
                yield kind, node, rest
            case _:
                continue


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e15 else None  # noqa: PLR2004 - nan and inf are none either
