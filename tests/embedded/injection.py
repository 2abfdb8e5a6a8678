"""What an injection is, and those that are made alike: a setting, a unit, /etc/hosts, a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.embedded.prove_breaks import CTL, edit, restore

from corral.hosts.quote import Script, join, sh

GRES = "/etc/slurm/gres.conf"
CGROUP = "/etc/slurm/cgroup.conf"
HOSTS = "/etc/hosts"
PLUGSTACK = "/etc/slurm/plugstack.conf"
KEY = "/etc/slurm/slurm.key"
N1 = "node1"


@dataclass(frozen=True)
class Injection:
    """One failure made to happen.

    Attributes:
        id: the failure that must be named first.
        name: what is done, in words.
        do: script per node that does it.
        undo: script per node that undoes it, whatever ``do`` got done.
        nodes: where it must be found; empty: anywhere.
        also: failures that are true as well and may be named after it.
        host: shell on this machine that does a part of it; ``$C`` is the cluster's name.
        host_undo: shell on this machine that undoes that.
    """

    id: str
    name: str
    do: Mapping[str, Script]
    undo: Mapping[str, Script]
    nodes: tuple[str, ...] = ()
    also: frozenset[str] = field(default_factory=frozenset[str])
    host: str = ""
    host_undo: str = ""


def conf(
    id_: str, name: str, path: str, expression: str, *also: str, restart: bool = False
) -> Injection:
    """A setting changed on the controller and read again by all."""
    resume = sh(
        "scontrol reconfigure; systemctl reset-failed slurmctld slurmd; systemctl restart "
        "slurmctld;"
        " i=0; until scontrol ping | grep -q ' is UP'; do i=$((i + 1)); [ $i -lt 400 ] || exit 1;"
        " sleep 0.1; done; scontrol reconfigure;"
        " scontrol update nodename=ALL state=resume 2>/dev/null; true"
    )
    # Not one that runs: stopped while it reconfigures, it is waited for until systemd kills it.
    # Without its cgroups slurmd receives no reconfigure: that one needs it (``restart``).
    slurmd = sh(
        "systemctl reset-failed slurmd;"
        " {unless} systemctl -q is-active slurmd || systemctl restart slurmd",
        unless=sh("false &&") if restart else sh(""),
    )
    return Injection(
        id_,
        name,
        {CTL: join([edit(path, expression), sh("scontrol reconfigure; true")], " && ")},
        {CTL: join([restore(path), resume, slurmd]), N1: slurmd, "node2": slurmd},
        (),
        frozenset(also),
    )


def stopped(id_: str, unit: str, node: str, *also: str) -> Injection:
    """A unit that was stopped."""
    return Injection(
        id_,
        f"{unit} stopped",
        {node: sh("systemctl stop {unit}", unit=unit)},
        {node: sh("systemctl reset-failed {unit}; systemctl start {unit}", unit=unit)},
        (node,),
        frozenset(also),
    )


def hosts(id_: str, name: str, expression: str, *also: str) -> Injection:
    """node1's /etc/hosts changed."""
    return Injection(
        id_, name, {N1: edit(HOSTS, expression)}, {N1: restore(HOSTS)}, (N1,), frozenset(also)
    )


def drained(id_: str, reason: str) -> Injection:
    """A node taken out with a reason that Slurm itself writes."""
    return Injection(
        id_,
        f"reason {reason}",
        {CTL: sh("scontrol update nodename=node1 state=drain reason={r}", r=reason)},
        {CTL: sh("scontrol update nodename=node1 state=resume")},
        (N1,),
    )
