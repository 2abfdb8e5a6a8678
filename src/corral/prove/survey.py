"""One look at the whole cluster in one round trip; the smoke checks all judge what it saw."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from corral.errors import CorralError
from corral.hosts.fleet import FAN_OUT
from corral.hosts.quote import NOTHING, Script, join, sh
from corral.prove.context import ProveContext
from corral.roles import mlflow
from corral.slurm.records import Node
from corral.slurm.text import readable_nodes
from corral.state.mesh_supervised import UNIT_IS

LIMIT_S: Final = 60.0
"""Seconds for one node's answer; more for clusters of many names."""
EACH_NAME_S: Final = 0.05
INNER_S: Final = 20
"""Seconds for one command in it, so that what hangs is named and the rest is told."""
SLOW_S: Final = 10.0
SLOWER: Final = 5.0
"""A node is too slow to be proven when it takes 10 s and five times as long as the fastest."""
CONF_FILES: Final = ("slurm.conf", "cgroup.conf", "gres.conf")
_SECTION: Final = re.compile(r"^@@([a-z]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """What one node's own script told: sections of its output, or the error in their place.

    ``sent`` and ``received`` enclose the moment at which the node read its clock; ``seconds`` is
    how long the complete answer took.
    """

    node: str
    sections: Mapping[str, str] = field(default_factory=dict[str, str])
    sent: float = 0.0
    received: float = 0.0
    error: CorralError | None = None
    seconds: float = 0.0

    @property
    def cut(self) -> tuple[str, ...]:
        """Sections that are not complete: their command took too long."""
        return tuple(self.text("cut").split())

    def text(self, section: str) -> str:
        """One section's text, "" when it is missing."""
        return self.sections.get(section, "")

    @property
    def config(self) -> dict[str, str]:
        """``scontrol show config`` as that node sees it."""
        pairs = (line.partition("=") for line in self.text("config").splitlines())
        return {key.strip(): value.strip() for key, _, value in pairs if value}


@dataclass(frozen=True, slots=True)
class Survey:
    """The whole cluster as seen once."""

    nodes: Mapping[str, NodeSeen]
    compute: tuple[str, ...]
    slurm: Mapping[str, Node]
    slurm_output: str
    controller: str

    @property
    def usable(self) -> tuple[Node, ...]:
        """Compute nodes on which jobs can run."""
        known = (self.slurm.get(name) for name in self.compute)
        return tuple(node for node in known if node is not None and node.usable)

    @property
    def free(self) -> tuple[Node, ...]:
        """Usable nodes that start a job at once: where the proof's own jobs go.

        No other job runs there, and none blocks them (--exclusive=topo).
        """
        return tuple(n for n in self.usable if not n.cpus_used and "BLOCKED" not in n.state.flags)


def node_script(names: tuple[str, ...], units: tuple[str, ...]) -> Script:
    """What every node is asked. Read-only; the clock comes first, before anything slow."""
    return sh(
        "export LC_ALL=C; cut=; echo @@clock; date +%s.%N\n"
        "echo @@hostname; hostname\n"
        "echo @@names; n=$(timeout {limit} getent ahostsv4 {names}); [ $? -ne 124 ] ||"
        " cut=\"$cut names\"; printf '%s\\n' \"$n\" | sed -n '/STREAM/p'\n"
        "echo @@version; for p in slurmd slurmctld; do"
        ' if command -v "$p" >/dev/null; then printf \'%s %s\\n\' "$p" "$("$p" -V 2>&1)"; fi;'
        " done\n"
        "{unit_is}\necho @@units; for u in {units}; do"
        ' printf \'%s %s\\n\' "$u" "$(unit_is "$u")"; done\n'
        "echo @@config; c=$(timeout {limit} scontrol show config 2>&1);"
        ' [ $? -ne 124 ] || cut="$cut config"; printf \'%s\\n\' "$c"'
        " | grep -E '^ *(SLURM_CONF|SLURM_VERSION|HASH_VAL|SlurmdSpoolDir|AuthType) |error:'\n"
        "f=$(printf '%s\\n' \"$c\" | sed -n 's/^SLURM_CONF *= *//p')\n"
        "s=$(printf '%s\\n' \"$c\" | sed -n 's/^SlurmdSpoolDir *= *//p'"
        ' | sed "s/%[nh]/$(hostname)/g")\n'
        'echo @@files; cd / && for d in "${{f%/*}}" "${{s:-/var/spool/slurmd}}/conf-cache"; do'
        " for n in {files}; do"
        ' if [ -n "$d" ] && [ -f "$d/$n" ]; then sha256sum "$d/$n"; fi; done; done\n'
        'echo @@apart; sed -n "s/^# Cluster\'s own: //p" "$f" 2>/dev/null\n'
        'echo "@@cut"; echo $cut',
        limit=INNER_S,
        names=list(names),
        unit_is=UNIT_IS,
        units=list(units),
        files=list(CONF_FILES),
    )


def controller_script() -> Script:
    """What the controller is asked on top of that."""
    return sh(
        "echo @@nodes; timeout {limit} scontrol show nodes -o 2>&1\n"
        "echo @@listen; cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed -n '/ 0A /p'\ntrue",
        limit=INNER_S,
    )


def sections(text: str) -> dict[str, str]:
    """Split a node's output at its ``@@name`` lines."""
    parts = _SECTION.split(text)
    return {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def island(node: Node) -> str:
    """The part of a mesh that a job of several nodes does not leave.

    "" for none, and for one that jobs may leave (``roles.mesh``).
    """
    if "islands-joined" in node.features:
        return ""
    return next((f for f in node.features if f.startswith("island-")), "")


def fenced(node: Node) -> bool:
    """False where there are no cgroups (``roles.mesh_pod``)."""
    return "no-cgroups" not in node.features


async def survey(ctx: ProveContext) -> Survey:
    """Look at the cluster, once per proof."""
    return await ctx.once("survey", lambda: _look(ctx))


async def _look(ctx: ProveContext) -> Survey:
    names = tuple(dict.fromkeys((*(node.name for node in ctx.nodes), ctx.controller)))
    # As many at once as the fleet runs: what waits for others does not count as slow.
    gate = asyncio.Semaphore(FAN_OUT)
    seen = await asyncio.gather(*(_look_at(ctx, name, names, gate) for name in names))
    by_name = {one.node: one for one in seen}
    times = [one.seconds for one in seen if one.error is None]
    ctx.slack = max(times, default=0.0) + len(names) * EACH_NAME_S
    ctx.unread.update(_unread(ctx, seen, min(times, default=0.0)))
    text = by_name[ctx.controller].text("nodes")
    return Survey(by_name, ctx.compute, readable_nodes(text), text, ctx.controller)


def _unread(ctx: ProveContext, seen: Iterable[NodeSeen], fastest: float) -> dict[str, str]:
    """Why a node's answers cannot be judged: what was not read is unknown, not absent."""
    found: dict[str, str] = {}
    for one in seen:
        if one.error is not None:
            found[one.node] = f"cannot be reached ({one.error.message})"
        elif one.seconds >= SLOW_S and one.seconds >= SLOWER * fastest:
            others = f", the fastest {fastest:.1f} s" if fastest < one.seconds else ""
            found[one.node] = f"answers slowly: it took {one.seconds:.0f} s{others}"
        elif not re.fullmatch(r"\d+\.\d+", one.text("clock").strip()):
            found[one.node] = "gave no complete answer"
        elif ctx.facts and ctx.facts.get(one.node) is None:
            found[one.node] = "did not report its hardware"
    return found


async def _look_at(
    ctx: ProveContext, name: str, names: tuple[str, ...], gate: asyncio.Semaphore
) -> NodeSeen:
    lead = name == ctx.controller
    script = node_script(names, (*units_of(ctx, name), "munge"))
    script = join([script, controller_script() if lead else NOTHING])
    arrived: list[float] = []

    def on_line(line: str) -> None:
        if not line.startswith("@@") and not arrived:
            arrived.append(time.time())

    limit = LIMIT_S + len(names) * EACH_NAME_S
    async with gate:
        sent = time.time()
        try:
            result = await ctx.fleet.run(name, script, timeout=limit, on_line=on_line)
        except CorralError as error:
            return NodeSeen(name, error=error)
        seconds = time.time() - sent
    received = arrived[0] if arrived else time.time()
    return NodeSeen(name, sections(result.stdout), sent, received, seconds=seconds)


def units_of(ctx: ProveContext, node: str) -> tuple[str, ...]:
    """The systemd units that must be active on a node."""
    units = ["slurmd"] if node in ctx.compute else []
    if node == ctx.controller:
        units.append("slurmctld")
        if ctx.spec.slurm.accounting:
            units += ["mariadb", "slurmdbd"]
        if ctx.spec.slurm.rest:
            units.append("slurmrestd")
        if ctx.spec.services.mlflow:
            units.append(mlflow.UNIT)
    return tuple(units)
