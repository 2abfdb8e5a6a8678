"""Every command of the guide's page about Slurm prints what the page shows, on a real cluster."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from corral.hosts.quote import Script, join, reread, sh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

PAGE = Path(__file__).parents[2] / "docs/guide/slurm-basics.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", flags=re.M | re.S)
# The page's cluster is new; this one may still end jobs of other tests (completing), or slurmctld
# has not heard from a slurmd in time (idle*).
IDLE = sh(
    'for i in $(seq 300); do [ "$(sinfo --noheader --format=%t | sort -u)" = idle ] && break;'
    " sleep 0.2; done"
)
CLEAN_UP = sh("rm -f /shared/hello.sh /shared/hello-*.out /shared/part-*.out")


def blocks() -> list[tuple[str, str]]:
    """Slurm's commands in the page's order, each with the output that is shown."""
    pairs = [(m[1], m[2] or "") for m in BLOCK.finditer(PAGE.read_text())]
    return [(text, shown) for text, shown in pairs if not text.startswith("corral ")]


def pattern(line: str) -> str:
    """Numbers and widths of columns differ from run to run, except digits in names of nodes."""
    words = [
        re.escape(w) if re.search(r"node[\[\d]", w) else re.sub(r"\d+", r"\\d+", re.escape(w))
        for w in line.split()
    ]
    return r"\s*" + r"\s+".join(words) + r"\s*"


def waited(shown: str) -> list[Script]:
    """What comes before a command whose output names nodes: which ones it has, all being idle."""
    return [IDLE] if re.search(r"\bnode[\[\d]", shown) else []


def missing(shown: str, printed: str) -> list[str]:
    """Lines that the page shows, and that are not in the output in that order."""
    rest = iter(printed.splitlines())
    return [
        line
        for line in shown.splitlines()
        if not any(re.fullmatch(pattern(line), other) for other in rest)
    ]


def test_the_page_shows_what_slurm_prints(cluster: Live) -> None:
    commands = blocks()
    assert len(commands) >= 11
    setup = sh("exec 2>&1; cd /shared || exit 1")
    scripts = [
        (cluster.controller, join([setup, *waited(shown), reread(text)]))
        for text, shown in commands
    ]
    try:
        answers = cluster.each(scripts, timeout=120)
    finally:
        cluster.each([(cluster.controller, CLEAN_UP)])
    wrong = [
        f"{text}status {answer.status}, not printed: {lines}\nprinted:\n{answer.stdout}"
        for (text, shown), answer in zip(commands, answers, strict=True)
        if (lines := missing(shown, answer.stdout)) or answer.status
    ]
    assert not wrong, "\n".join(wrong)


def test_a_line_that_is_not_printed_is_missing() -> None:
    assert missing("node0 idle 2\n", "node0   idle  16\n") == []
    assert missing("node0 idle 2\n", "node1 idle 2\n") == ["node0 idle 2"]
    assert missing("a\nb\n", "b\na\n") == ["b"]
