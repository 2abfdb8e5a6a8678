"""The scheduled proof: a timer on the controller, two shell programs, a user and a partition. Pure.

The controller needs no Corral and no Python for it (docs/decisions/0039).
"""

from __future__ import annotations

from functools import cache
from typing import Final

from corral import agents
from corral.durations import clock, interval_seconds
from corral.roles.inventory import Site
from corral.roles.machine.people import PROOF, own_proof_user, preemption_declared
from corral.roles.role import Role, Share
from corral.roles.slurm.partitions import PREEMPTION
from corral.slurm.conf.model import Contribution, PartitionConf
from corral.state.base import Desired, Resource
from corral.state.files import File, Gone
from corral.state.service import UNITS, Timer
from corral.state.system.users import UserAccount

NAME: Final = PROOF
"""Name of the partition, of the user, of his account and of the systemd units."""
UID: Final = 64034
"""The next free number of the range that Debian gives to packages (see ``roles.machine.base``)."""
ROUND: Final = "/usr/local/sbin/corral-proof-round"
PROGRAM: Final = "/usr/local/lib/corral/proof-node.sh"
JOINT: Final = "/usr/local/lib/corral/proof-group.sh"
CONF: Final = "/etc/corral/proof.conf"
FOLDER: Final = "/var/lib/corral/proof"

_SERVICE: Final = f"""\
# Written by Corral: one round of the scheduled proof (docs/guide/proof-report.md).
[Unit]
Description=Corral's scheduled proof
After=slurmctld.service

[Service]
Type=oneshot
ExecStart={ROUND}
TimeoutStartSec=12h
Nice=10
"""
_TIMER: Final = """\
# Written by Corral.
[Unit]
Description=Corral's scheduled proof

[Timer]
OnActiveSec={first}s
OnUnitActiveSec={every}s
RandomizedDelaySec={spread}s
AccuracySec=60s

[Install]
WantedBy=timers.target
"""


def declared(site: Site) -> bool:
    """Whether the file asks for a scheduled proof."""
    return interval_seconds(site.spec.proof.every) > 0


def users(site: Site) -> tuple[Share, ...]:
    """The user that a proof's jobs run as, on every node.

    slurmctld looks at its partition's group; and `corral prove` uses it where users have limits.
    """
    if not own_proof_user(site.spec):
        return ()
    account = UserAccount(NAME, UID, "/nonexistent", "/usr/sbin/nologin", system=True)
    return (Share((Desired(site.names, (account,)),)),)


def on_controller(site: Site) -> tuple[Share, ...]:
    """Programs and timer on the controller, once Slurm runs; or none of them."""
    files = (
        ROUND,
        PROGRAM,
        JOINT,
        CONF,
        *(f"{UNITS}/{NAME}.{kind}" for kind in ("service", "timer")),
    )
    if not declared(site):
        gone = tuple(Gone(path) for path in files)
        off = Desired((site.controller,), (Timer(NAME, on=False), *gone))
        return (Share((off,), title="no scheduled proof"),)
    every = interval_seconds(site.spec.proof.every)
    # Not at once: the machines have just been changed, and corral up proves them itself.
    timer = _TIMER.format(first=every // 2, every=every, spread=every // 20)
    resources_: tuple[Resource, ...] = (
        File(ROUND, text("proof-round.sh"), mode="755"),
        File(PROGRAM, node_program()),
        File(JOINT, group_program()),
        File(CONF, settings(site)),
        File(f"{UNITS}/{NAME}.service", _SERVICE),
        File(f"{UNITS}/{NAME}.timer", timer),
        Timer(NAME),
    )
    title = f"a proof on idle nodes every {site.spec.proof.every}"
    return (Share((Desired((site.controller,), resources_),), title=title),)


def partition(site: Site) -> tuple[PartitionConf, ...]:
    """Its partition: below all others, for its user alone, and preempted by any other job."""
    if not declared(site):
        return ()
    names = tuple(node.name for node in site.compute)
    limit = clock(site.spec.proof.minutes * 60)
    return (PartitionConf(NAME, names, default=False, max_time=limit, background_group=NAME),)


def slurm_conf(site: Site) -> Contribution:
    """The partition; its jobs end at once where no QOS preempts by other rules."""
    tiers = declared(site) and not preemption_declared(site.spec)
    return Contribution(PREEMPTION if tiers else (), partitions=partition(site))


def settings(site: Site) -> str:
    """The round's settings."""
    proof = site.spec.proof
    lines = [
        "# Written by Corral from the cluster file; read by corral-proof-round.",
        f"minutes {proof.minutes}",
        f"drain {'yes' if proof.drain and _apart(site) else 'no'}",
        f"at_most {proof.at_most}",
        *(
            [f"interface {data.interface}"]
            if (data := site.spec.network.data) and data.interface
            else []
        ),
        *(f"mount {storage.mount}" for storage in site.spec.storage),
        *(f"node {node.name} {node.group.name} {node.group.gpu_count}" for node in site.compute),
    ]
    return "\n".join(lines) + "\n"


def _apart(site: Site) -> bool:
    """Whether nodes are separate machines: containers of one machine disturb each other."""
    return any(not node.group.capabilities.containers for node in site.compute)


@cache
def text(name: str) -> str:
    return agents.program(name)


@cache
def node_program() -> str:
    """What runs on the nodes, with the program that measures GPUs in it."""
    return text("proof-node.sh").replace("@GPU@", _measuring("gpu.py"))


@cache
def group_program() -> str:
    """What runs on several nodes together, with the program that measures collectives in it."""
    return text("proof-group.sh").replace("@COLLECTIVES@", _measuring("collectives.py"))


def _measuring(name: str) -> str:
    return agents.program(f"benchmarks/{name}")


ROLE: Final = Role("proof", {"base": users, "proof": on_controller}, slurm_conf)
