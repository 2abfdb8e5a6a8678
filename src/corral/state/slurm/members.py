"""Who belongs to the cluster, who leaves it, and nodes that a stopped run left drained. Pure.

There is no state file, so a node that the cluster file names no longer is found in two places:
slurmctld still knows it (``Leaving``), and the controller keeps a list of the machines that hold
something of Corral's (``Roster``; containers carry labels instead). docs/decisions/0022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, call, join, sh
from corral.slurm.states.jobs import holding_states
from corral.spec.impacts import Impact
from corral.spec.slurm.hostlist import fold
from corral.state.base import ROLL_TAG, Change, Context, Seen, Standalone
from corral.state.service import STAMPS
from corral.state.slurm.state_folder import MARK

ROSTER: Final = "/var/lib/corral/members"
_PROGRAM: Final = "state/members.sh"
REASON: Final = "leaves the cluster"
"""Reason of the drain; not Corral's usual tag, because such a node is not resumed automatically."""
REPLACED: Final = "replaced by another machine"
"""Reason of a node whose machine is another one; what was wrong with it before is over."""
CLOSED: Final = "/var/lib/corral/closed"
"""On the controller: an empty file for each partition that was closed because it leaves."""
READ_ROSTER: Final = sh("cat {path} 2>/dev/null || :", path=ROSTER)
WAIT_S: Final = 600
"""Seconds that jobs on a leaving node have to end."""


@dataclass(frozen=True, slots=True)
class Member:
    """How one machine is reached: what its group declared when it joined."""

    node: str
    address: str
    port: int
    user: str

    @property
    def line(self) -> str:
        """The machine in the list."""
        return f"{self.node} {self.address} {self.port} {self.user}"


def parse_members(text: str) -> tuple[Member, ...]:
    """The list as the probe of ``Roster`` gave it; lines that are none are left out."""
    members: list[Member] = []
    for line in text.splitlines():
        match line.split():
            case [node, address, port, user] if port.isdecimal():
                members.append(Member(node, address, int(port), user))
            case _:
                continue
    return tuple(members)


@dataclass(frozen=True)
class Roster(Standalone):
    """Every declared machine is in the list on the controller; others are not taken out.

    A machine goes out when it has been released (``forget``).
    """

    members: tuple[Member, ...]

    @property
    def id(self) -> str:
        return "members"

    def probe(self) -> Script:
        """The list."""
        return sh("cat {path}", path=ROSTER)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Add who is missing, and correct how a member is reached."""
        known = {m.node: m for m in parse_members(seen.text)}
        desired = known | {m.node: m for m in self.members}
        if desired == known:
            return None
        text = "".join(f"{m.line}\n" for m in desired.values())
        return Change(
            self.id,
            f"list of machines: {fold([m.node for m in self.members])}",
            seen.text,
            text.strip(),
            _write(text),
        )


def forget(left: tuple[Member, ...]) -> Script:
    """Shell that writes the list again with those who are left in it."""
    return _write("".join(f"{m.line}\n" for m in left))


def _write(text: str) -> Script:
    return sh(
        "mkdir -p {folder} && printf %s {text} > {path}.new && mv -f {path}.new {path}",
        folder=ROSTER.rpartition("/")[0],
        text=text,
        path=ROSTER,
    )


@dataclass(frozen=True)
class Leaving(Standalone):
    """What slurmctld knows and the cluster file does not: closed to new jobs, and its jobs' end.

    A job on a node that vanishes from slurm.conf is lost (slurm.conf(5)), and so is one in a
    partition that vanishes ("CANCELLED DUE TO NODE FAILURE", seen with 24.11.5). So both are
    drained while slurmctld still knows them, and leave its file only when they are empty.

    Attributes:
        nodes: the nodes that stay.
        partitions: the partitions that stay.
        wait: seconds that jobs have to end; then the change fails and names them. All stays
            drained, and the next apply goes on.
    """

    nodes: tuple[str, ...]
    partitions: tuple[str, ...]
    wait: int = WAIT_S

    @property
    def id(self) -> str:
        return "leaving"

    def probe(self) -> Script:
        """``node NAME`` of all that slurmctld knows, ``drained`` behind those that leave.

        ``partition NAME`` likewise, and ``closed NAME`` of those that this has closed: Slurm knows
        no reason for that. Nothing where slurmctld does not answer.
        """
        return call(_PROGRAM, "leaving_probe", REASON, CLOSED)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Drain what leaves; resume a node that was to leave and stays after all."""
        known = [line.split() for line in seen.text.splitlines()]
        out = [w[1] for w in known if w[0] == "node" and w[1] not in self.nodes]
        shut = [w[1] for w in known if w[0] == "partition" and w[1] not in self.partitions]
        back = [w[1] for w in known if w[2:] == ["drained"] and w[1] in self.nodes]
        parts: list[tuple[str, Script]] = []
        for name in (w[1] for w in known if w[0] == "closed" and w[1] in self.partitions):
            parts.append((f"open partition {name}, which stays", _open(name)))
        if back:
            parts.append((f"resume {fold(back)}, which stays", _resume(back)))
        if out:
            text = f"drain {fold(out)}, which leaves: its jobs end first"
            parts.append((text, _drain(out, self.wait)))
        for name in shut:
            text = f"close partition {name}, which leaves: its jobs end first"
            parts.append((text, _close(name, self.wait)))
        if not parts:
            return None
        return Change(
            self.id,
            "; ".join(text for text, _ in parts),
            " ".join([*out, *shut]),
            "",
            join((script for _, script in parts), " && "),
            Impact.DRAIN if out or shut else Impact.NONE,
        )


@dataclass(frozen=True)
class NoController(Standalone):
    """The machine is not the controller, and never was: moving the controller is refused.

    Its state (jobs, accounting, keys) lives on the old machine, whose slurmctld would go on at
    the same time as the new one, with the same nodes.
    """

    controller: str

    @property
    def id(self) -> str:
        return "no-controller"

    def probe(self) -> Script:
        """``here`` where Corral has started a slurmctld; no process is started to ask."""
        return sh(
            "[ ! -e {stamp} ] || [ -e {backup} ] || echo here",
            stamp=f"{STAMPS}/slurmctld",
            backup=MARK,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Never a change.

        Raises:
            CorralError: NOT_GOOD, the machine is the controller as things stand.
        """
        if seen.text != "here":
            return None
        raise CorralError(
            Code.NOT_GOOD,
            f"is the controller; the file wants {self.controller}, and Corral does not move it: "
            "jobs, accounting records and keys live here",
            node=context.node,
            hint=f"write controller: {context.node}; or corral backup, corral down with the old "
            "file, corral up --no-prove with the new one, corral restore (docs/guide/backup.md)",
        )


def _resume(nodes: list[str]) -> Script:
    return sh("scontrol update NodeName={nodes} State=RESUME", nodes=fold(nodes))


def _drain(nodes: list[str], wait: int) -> Script:
    return call(_PROGRAM, "nodes_leave", fold(nodes), REASON, wait, holding_states())


def quiet(wait: int = WAIT_S) -> Script:
    """Shell that drains the entire cluster and waits until no job runs.

    Nodes that a person drained stay as they are. The drained ones carry ``ROLL_TAG``: a last stage
    resumes them (``Resumed``), and so does this when jobs do not end in time. Pending jobs
    stay in the queue. Nothing happens where slurmctld does not run.
    """
    return call(
        _PROGRAM,
        "cluster_quiet",
        f"{ROLL_TAG}a change that no job survives",
        wait,
        holding_states(),
    )


def _open(partition: str) -> Script:
    return call(_PROGRAM, "partition_open", partition, CLOSED)


def _close(partition: str, wait: int) -> Script:
    return call(_PROGRAM, "partition_close", partition, CLOSED, wait)


@dataclass(frozen=True, slots=True)
class Resumed(Standalone):
    """On the controller: no node is drained for a stage that is over.

    Its stage is the last one, so what drained the nodes has been done by then.
    """

    @property
    def id(self) -> str:
        return "resume"

    def probe(self) -> Script:
        """Those that are drained, one a line; nothing while slurmctld does not answer."""
        return call(_PROGRAM, "resumed_probe", ROLL_TAG)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Resume those that are drained for Corral's own reason, and still are by then."""
        nodes = seen.text.split()
        if not nodes:
            return None
        return Change(
            self.id,
            f"resume {', '.join(nodes)} (drained by a corral that was stopped)",
            " ".join(nodes),
            "",
            call(_PROGRAM, "nodes_resume", ROLL_TAG, *nodes),
            Impact.NONE,
        )
