"""Use case: a cluster file for the machine that Corral runs on."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Final

from corral.api.config.cluster_draft import Draft, Reached, draft
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.local import Local
from corral.hosts.transport import check
from corral.inspect.discovery import DiscoveredMachine, discovery_inquiry, parse
from corral.spec.providers import HERE, PROVIDERS, part_of
from corral.state_dir import cluster_dir

NAME: Final = "this machine"
ASK_S: Final = 60.0


async def draft_here(emit: Emit = ignore, *, name: str = "here", file: str = "") -> Draft:
    """Read what this machine is, and write a file for a cluster of it alone.

    Args:
        emit: receives the events.
        name: the cluster's name.
        file: what the file will be called; left out: ``<name>.yaml``.

    Raises:
        CorralError: USAGE, not possible as a node; PROVIDER_FAILED, Slurm cannot use its GPUs;
            SPEC_INVALID, no valid file can be written.
    """
    if sys.platform != "linux":
        raise CorralError(
            Code.USAGE,
            f"this machine runs {sys.platform}, and a node of Slurm runs Linux",
            hint="name Linux machines: corral init --from ADDRESS",
        )
    cluster_dir(name, create=False)  # refuses an invalid cluster name
    begin = time.monotonic()
    emit(Event(Kind.PHASE_STARTED, "init", message="reading this machine", total=1))
    asked = discovery_inquiry()
    result = check(await Local(NAME).run(asked.script, timeout=ASK_S), "reading this machine")
    machine = parse(NAME, asked.answers(result.stdout, NAME, "reading this machine"))
    require_node(machine, apt=shutil.which("apt-get") is not None)
    if machine.gpu:
        await part_of(PROVIDERS[HERE].check)()
    made = draft(name, [machine], Reached(here=True), {}, file)
    emit(Event(Kind.PHASE_DONE, "init", seconds=time.monotonic() - begin))
    return made


def require_node(machine: DiscoveredMachine, *, apt: bool) -> None:
    """Check that Corral can make a node of a machine.

    Args:
        machine: what it is.
        apt: it has Debian's package manager.

    Raises:
        CorralError: USAGE.
    """
    if not machine.facts.systemd:
        raise CorralError(
            Code.USAGE,
            "no systemd runs on this machine, and Slurm's services need it",
            hint="for nodes in containers of this machine: corral init laptop",
        )
    if not machine.facts.address:
        raise CorralError(
            Code.USAGE,
            "this machine has no address but loopback's, by which Slurm's daemons do not find it",
            hint="connect it to a network; for nodes in containers of it: corral init laptop",
        )
    if not apt:
        raise CorralError(
            Code.USAGE,
            f"{machine.system or 'this system'} has no Slurm packages that Corral installs: those "
            "of Debian and Ubuntu",
            hint="for nodes in containers of this machine: corral init laptop",
        )
