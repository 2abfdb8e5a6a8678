"""The work by Corral's engine: one process, as ``corral apply`` does it.

Usage: python -m benchmarks.convergence.corral_engine INVENTORY.json
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.convergence import work
from corral.apply.guess import guessed, remember
from corral.apply.observe import see
from corral.apply.run import run_stages
from corral.events import ignore
from corral.hosts.fleet import Fleet
from corral.hosts.openssh import OpenSSH
from corral.hosts.state_dir import cluster_dir
from corral.hosts.target import SshTarget
from corral.plan.make import make_plan
from corral.state.accounts import UserAccount
from corral.state.base import Resource, StageWanted, Wanted
from corral.state.files import Directory, File
from corral.state.packages import Packages
from corral.state.service import Service


def resources() -> tuple[Resource, ...]:
    """The 27 actions as resources."""
    return (
        *(Directory(path) for path in work.DIRECTORIES),
        *(File(path, text, mode="640") for path, text in work.FILES.items()),
        *(UserAccount(name, uid, f"/home/{name}") for name, uid in work.USERS.items()),
        *(Packages(name, (name,)) for name in work.PACKAGES),
        *(Service(name) for name in work.SERVICES),
    )


async def converge(inventory: dict[str, dict[str, str]]) -> None:
    """Facts, probes, plan, apply: the whole way."""
    # As the command line does: connections stay for the next command (ansible.cfg does the same).
    control = Path(tempfile.gettempdir()) / f"corral-ssh-{os.getuid()}"
    transports = {
        name: OpenSSH(
            name,
            SshTarget(
                at["address"],
                key=Path(at["key"]),
                known_hosts=Path(at["known_hosts"]),
                options=("-o", f"ProxyCommand={at['proxy']}") if at["proxy"] else (),
            ),
            control,
        )
        for name, at in inventory.items()
    }
    fleet = Fleet(transports)
    stages = (StageWanted("work", "work", (Wanted(tuple(inventory), resources()),)),)
    folder = cluster_dir("bench")
    sight = await see(fleet, lambda _: stages, guessed(folder))
    remember(folder, sight.facts)
    plan = make_plan(cluster="bench", spec_digest="", stages=stages, observed=sight.seen)
    await run_stages(plan, fleet, ignore)
    changes = sum(len(c.nodes) for s in plan.stages for c in s.changes)
    print(json.dumps({"changes": changes}))


if __name__ == "__main__":
    asyncio.run(converge(json.loads(Path(sys.argv[1]).read_text())))
