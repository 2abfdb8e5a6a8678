"""What the doctor asks of every machine, and how it reads its logs. One round trip. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from corral.inspect import (
    gpu,
    jobs,
    machine,
    mesh,
    network,
    services,
    slurm,
    storage,
)
from corral.inspect.question import MachineState, Question
from corral.inspect.rules import (
    UnitState,
    clock_offset,
    is_starting,
    takes_requests,
    unit_state,
)
from corral.spec.sections.directory import Directory

# systemd logs that it starts a unit before the unit logs anything; slurmd that it has started
# after it could read its files. A reconfigure restarts it without systemd.
_STARTED: Final = re.compile(
    r"^Starting .+\.\.\.$|slurm(?:ctld|d|dbd) version \S+ started", re.MULTILINE
)

# From then on a daemon takes requests, of users too (seen on 24.11.5).
_SERVES: Final = re.compile(
    r"Running as (?:primary|backup) controller|slurmd started on |slurmdbd version \S+ started"
)
# What a re-created daemon prints when it informs the one that it replaces (23.11 to 25.11).
_TOOK_OVER: Final = re.compile(r"^(?:slurm\w{1,5}: )?child started successfully$")
_FATAL: Final = re.compile(r"^(?:slurm\w{1,5}: )?(?:fatal: |error: \w{1,9} initialization failed)")


@dataclass(frozen=True, slots=True)
class Ask:
    """What to ask one node.

    Attributes:
        names: all nodes of the cluster, to be looked up.
        units: systemd units that belong there.
        mounts: shared folders that belong there.
        controller: ask Slurm as well.
        mesh: ask tailscaled as well.
        containers: try what containers of users need.
        shared: the first shared folder, whose owners and modes are read; "" for none.
        keeper: who may own that besides root, "" for nobody.
        people: the directory of people, whose servers are asked.
        backup: seconds between two scheduled backups, 0 where none are declared.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    mounts: tuple[str, ...] = ()
    controller: bool = False
    mesh: bool = False
    containers: bool = False
    shared: str = ""
    keeper: str = ""
    people: Directory | None = None
    backup: int = 0


@dataclass(frozen=True)
class MachineReport(MachineState):
    """What one node answered, with its clock and logs judged."""

    @property
    def skew(self) -> float:
        """Seconds that its clock is ahead of ours beyond what the round trip explains.

        Negative: behind.
        """
        offset = clock_offset(self)
        return offset.surely if offset else 0.0

    @cached_property
    def units(self) -> dict[str, services.Unit]:
        """What each unit does: ``active``, ``failed``, ``inactive`` ..."""
        return self.by_key(services.UNITS)

    @cached_property
    def down(self) -> tuple[str, ...]:
        """Units that should run and do not."""
        return tuple(
            name for name, unit in self.units.items() if unit_state(unit.state) is UnitState.DOWN
        )

    def unit_state(self, unit: str, default: str = "") -> str:
        """What systemd reports of a unit in a word; ``default`` where it is unknown."""
        known = self.units.get(unit)
        return known.state if known else default

    def log(self, unit: str) -> str:
        """What the unit wrote since its last start, to the journal and to its own file.

        Users choose names that daemons print, with line ends in them: what is read here needs
        another sign of the same (``launches``). ``trusted`` is what stands for itself.
        """
        journal, file = self.text(services.log(unit)), self.text(services.log_file(unit))
        return f"{_since_start(journal)}\n{_since_start(file)}"

    def trusted(self, unit: str) -> str:
        """What the unit printed while no user could make it print anything.

        That is what it printed before it took requests, in its last run; its last words where they
        are ``fatal:``, as it printed nothing after them; and, of one that runs, what a process
        printed that was to take its place and ended so (a reconfiguration that failed).
        """
        text = self.text(services.trusted_log(unit))
        state = self.unit_state(unit)
        if takes_requests(state):
            return _failed_children(text)
        if is_starting(state) or not text:
            return text
        lines = text.split("\n")
        serving = next((n for n, line in enumerate(lines) if _SERVES.search(line)), len(lines))
        last = lines[-1:] if serving < len(lines) and _FATAL.search(lines[-1]) else []
        return "\n".join([*lines[:serving], *last])


def _since_start(text: str) -> str:
    starts = list(_STARTED.finditer(text))
    return text[starts[-1].end() :] if starts else text


def _failed_children(text: str) -> str:
    """Lines ``PID message`` of processes that ended with ``fatal:`` before they took requests.

    Only those behind the last process that took over: where a reconfiguration hangs, systemd's main
    process stays the one of before (docs/guide/living.md#reconfigurations-that-hang), so the log
    goes back to failures of files that have been corrected and read since.
    """
    by_process: dict[str, list[str]] = {}
    last_line: dict[str, int] = {}
    took_over: dict[str, int] = {}
    for number, line in enumerate(text.split("\n")):
        process, _, message = line.partition(" ")
        by_process.setdefault(process, []).append(message)
        last_line[process] = number
        if _TOOK_OVER.search(message):
            took_over.setdefault(process, number)  # users may make it print the same later
    since = max(took_over.values(), default=-1)
    return "\n".join(
        line
        for process, lines in by_process.items()
        if last_line[process] > since
        and _FATAL.search(lines[-1])
        and not any(_SERVES.search(line) for line in lines)
        for line in lines
    )


def questions(ask: Ask) -> tuple[Question[object], ...]:
    """What one node is asked; the clock comes first, before anything slow."""
    slurm_units = [u for u in ask.units if u.startswith("slurm")]
    return (
        *_EVERYWHERE,
        machine.names(ask.names),
        services.units(ask.units),
        slurm.KEY_FILES,
        slurm.CONF_FILES,
        storage.ROOM,
        storage.READ_ONLY,
        storage.mounts(ask.mounts),
        *(question for unit in ask.units for question in services.logs(unit)),
        *((*_CONTROLLER, storage.owners(ask.shared, ask.keeper)) if ask.controller else ()),
        services.alone(slurm_units),
        *((machine.USER_NAMESPACES,) if ask.containers else ()),
        *((machine.directory(ask.people),) if ask.people else ()),
        *((services.backup(ask.backup),) if ask.backup and ask.controller else ()),
        *((mesh.TAILNET,) if ask.mesh else ()),
        *((mesh.TAILNET_PEERS,) if ask.mesh and ask.controller else ()),
    )


_EVERYWHERE: Final = (
    machine.CLOCK,
    machine.USERS,
    slurm.VERSIONS,
    machine.FIREWALL,
    services.LIMITS,
    gpu.DEVICES,
    machine.DRIVER,
    jobs.STEPS,
    network.LINKS,
    network.ADDRESSES,
    machine.KERNEL_LOG,
)
_CONTROLLER: Final = (
    slurm.STATE,
    slurm.PING,
    slurm.while_up(slurm.NODES),
    slurm.while_up(jobs.BATCH),
    slurm.while_up(jobs.JOBS),
    slurm.SLURM_CONF,
    slurm.GRES_CONF,
    slurm.CGROUP_CONF,
    slurm.ACCOUNTING,
    slurm.OUTAGES,
)
