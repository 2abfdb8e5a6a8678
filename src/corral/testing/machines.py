"""Many machines that exist as recorded facts alone: what a plan for them is, and takes.

``planned`` makes the plan that ``corral plan`` makes, from machines that hold nothing or everything
already, and touches none.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.inspect.facts import Facts, Gpu, Traits
from corral.plan.make import make_plan, resources_of
from corral.plan.model import Plan
from corral.roles.inventory import Site
from corral.roles.order import desired_stages
from corral.spec.models import ClusterSpec, NodeGroup
from corral.spec.models import Gpu as GpuSpec
from corral.spec.nodes import digest
from corral.spec.providers import OWNED
from corral.state.base import Resource, Seen
from corral.state.databases import Database
from corral.state.files import Directory, File, Gone, Link
from corral.state.network.firewall import Closed
from corral.state.network.host_based import HostBased
from corral.state.network.host_names import Hostname, HostsBlock
from corral.state.network.sshd import SshdAdopt
from corral.state.packages import Holds, Packages
from corral.state.secrets import Secret
from corral.state.service import Service, Stopped, Timer
from corral.state.slurm.accounts import Member, SlurmAccounts
from corral.state.slurm.members import Leaving, NoController, Resumed, Roster
from corral.state.slurm.reservations import SlurmReservations
from corral.state.slurm.state_folder import NoBackup, StateFolder
from corral.state.storage.exports import Exports
from corral.state.storage.fstab import FormerMounts
from corral.state.system.clock import Clock
from corral.state.system.directory import HomesAtLogin, KeysFromDirectory
from corral.state.system.users import FormerPeople, Person, UserAccount

RECORDED: Final = Facts(
    node="n0",
    os_id="ubuntu",
    os_version="24.04",
    kernel="6.8.0-60-generic",
    cpus=224,
    sockets=2,
    cores_per_socket=56,
    threads_per_core=2,
    memory_mib=2_063_000,
    cgroup="v2",
    systemd=True,
    address="10.0.0.1",
    gpus=tuple(Gpu(f"/dev/nvidia{i}", "NVIDIA H200", 143_771) for i in range(8)),
    slurm="24.11.5",
    slurm_candidate="24.11.5",
    plugins=frozenset({"auth_slurm.so", "cgroup_v2.so", "gpu_nvidia.so"}),
)


def site(count: int) -> tuple[ClusterSpec, dict[str, Facts], dict[str, str]]:
    """A cluster of DGX-like nodes: its file, its facts and its addresses."""
    rows, rest = divmod(count, 250)
    ranges = [f"10.0.[0-{rows - 1}].[1-250]"] * (rows > 0) + [f"10.0.{rows}.[1-{rest}]"] * (
        rest > 0
    )
    group = NodeGroup(
        name="dgx",
        provider=OWNED,
        nodes=f"dgx[0-{count - 1}]",
        addresses=",".join(ranges),
        gpu=GpuSpec(type="h200", count=8),
    )
    spec = ClusterSpec(corral="v1", name="big", groups=(group,))
    places = {f"dgx{i}": f"10.0.{i // 250}.{i % 250 + 1}" for i in range(count)}
    facts = {n: replace(RECORDED, node=n, address=at) for n, at in places.items()}
    return spec, facts, places


ANSWERS: Final[dict[type, Callable[[Any], str]]] = {
    File: lambda r: f"{r.digest} {r.mode} {r.owner}",
    Directory: lambda r: f"{r.mode} {r.owner}",
    HostsBlock: lambda r: r.digest,
    Hostname: lambda r: f"{r.name} {r.name}",
    Secret: lambda r: f"{'0' * 64} {r.mode} {r.owner}",
    Service: lambda r: "enabled running current",
    Stopped: lambda r: "disabled inactive",
    Timer: lambda r: "enabled active no" if r.on else "disabled inactive",
    UserAccount: lambda r: f"passwd\n{r.name}:x:{r.uid}:{r.uid}:::",
    Database: lambda r: "ready",
    FormerPeople: lambda r: "",
    FormerMounts: lambda r: "",
    SlurmReservations: lambda r: "",
    Exports: lambda r: "- -",
    Gone: lambda r: "absent",
    SshdAdopt: lambda r: "absent",
    Leaving: lambda r: "",
    Roster: lambda r: "\n".join(m.line for m in r.members),
    NoController: lambda r: "",
    NoBackup: lambda r: "",
    StateFolder: lambda r: "700 slurm:slurm",
    Link: lambda r: r.target,
    Clock: lambda r: "good",
    Closed: lambda r: "",
    Holds: lambda r: "",
    Resumed: lambda r: "",
    HomesAtLogin: lambda r: "on" if r.on else "off",
    KeysFromDirectory: lambda r: "on" if r.on else "off",
    Packages: lambda r: "\n".join(f"installed {n}" for n in r.names),
}
"""What the probe of a machine that holds the resource prints."""


def _accounts(r: SlurmAccounts) -> str:
    lines = ["@qos", *(f"{q.name}||{q.priority}|" for q in r.qos), "@assoc"]
    for entry in (*r.accounts, *r.users):
        member = isinstance(entry, Member)
        who = f"{entry.account}|{entry.name}|" if member else f"{entry.name}||{entry.parent}"
        lines.append(f"{who}|1||||{','.join(entry.qos)}|{entry.default_qos}")
    return "\n".join([*lines, "@user", *(f"{u.name}|{u.account}" for u in r.users)])


def _person(r: Person) -> str:
    home = r.home or f"/home/{r.name}"
    entry = f"{r.name}:x:{r.uid}:{r.uid}::{home}:{r.shell}"
    return f"passwd\n{entry}\ngroup\n{r.name}:x:{r.uid}:\nstate\n{home}|{r.uid}|||yes|{r.shell}"


def _host_based(r: HostBased) -> str:
    digests = [hashlib.sha256(t.encode()).hexdigest() if t else "absent" for _, t in r.files]
    return "\n".join([*digests, *(["yes no"] if r.groups and r.person else [])])


ANSWERS[HostBased] = _host_based
ANSWERS[SlurmAccounts] = _accounts
ANSWERS[Person] = _person


def in_desired_state(item: Resource) -> Seen:
    """The answer of a machine that holds the resource."""
    answer = ANSWERS.get(type(item))
    if answer is None:
        raise CorralError(
            Code.USAGE, f"ANSWERS lacks what a machine that holds {item.id} prints", hint="add it"
        )
    return Seen(0, answer(item))


def planned(count: int, *, complete: bool) -> tuple[Plan, float]:
    """The plan for a number of machines, and the seconds it took.

    Args:
        count: of the machines.
        complete: they hold everything already; else nothing.
    """
    spec, facts, addresses = site(count)
    traits = dict.fromkeys(facts, Traits())
    # What the machines answered is there before the planning begins.
    observed = _observed(Site(spec, facts, traits, addresses), complete=complete)
    begin = time.perf_counter()
    stages = desired_stages(Site(spec, facts, traits, addresses))
    plan = make_plan(cluster=spec.name, spec_digest=digest(spec), stages=stages, observed=observed)
    return plan, time.perf_counter() - begin


def _observed(at: Site, *, complete: bool) -> Mapping[str, Mapping[str, Seen]]:
    return {
        node: {r.id: in_desired_state(r) for r in items} if complete else {}
        for node, items in resources_of(desired_stages(at)).items()
    }
