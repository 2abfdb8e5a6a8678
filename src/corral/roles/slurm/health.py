"""The node health check: HealthCheckProgram, and the checks that it runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from corral import agents
from corral.durations import interval_seconds
from corral.inspect.xids import xids
from corral.roles.inventory import ConfiguredSite, Site
from corral.roles.role import Role, Share
from corral.slurm.conf.cluster import SPOOL_DIR
from corral.slurm.conf.conf_file import Setting
from corral.slurm.conf.model import Contribution, NodeConf
from corral.spec.slurm.hostlist import expand
from corral.state.base import Desired, Resource
from corral.state.files import File, Gone
from corral.tables import Row, read_table

TAG: Final = "health."
"""Begins the id of every check, and so the drain reason of every node that the program drained."""


class HealthCheck(Row):
    """One check of a node's health.

    Attributes:
        id: stable; begins the drain reason.
        title: what is wrong when it fails, as a sentence without a full stop.
        reads: what it looks at.
        fails: when it fails.
        fix: what to do.
        source: where the rule comes from.
        failure: the failure of the doctor's catalogue that it shows.
        twice: it must fail twice in a row before the node is drained.
    """

    id: str
    title: str
    reads: str
    fails: str
    fix: str
    source: str
    failure: str
    twice: bool = False


@cache
def health_checks() -> Mapping[str, HealthCheck]:
    """Each check by its id, in the order in which they run."""
    rows = read_table("corral.roles", "health_checks.yaml", tuple[HealthCheck, ...])
    return MappingProxyType({row.id: row for row in rows})


def xid_words() -> str:
    """The table as the program reads it: ``79=drain=words_with_underscores``, spaces between.

    Without those that it only warns of, as of one that is not in the table.
    """
    return " ".join(
        f"{number}={row.do}={row.action.replace(' ', '_')}"
        for row in xids()
        if row.do != "report"
        for number in row.numbers
    )


PROGRAM: Final = "/usr/local/sbin/corral-health"
CONF: Final = "/etc/corral/health.conf"


def on_nodes(site: ConfiguredSite) -> tuple[Share, ...]:
    """The program and its file on each compute node, before slurmd starts; or neither."""
    names = tuple(node.name for node in site.compute)
    if not interval_seconds(site.spec.health.every):
        return (Share((Desired(names, (Gone(PROGRAM), Gone(CONF))),)),)
    here: tuple[Resource, ...] = (File(PROGRAM, program(), mode="755"),)
    per_node = [
        Desired((node.name,), (File(CONF, settings(site, node)),)) for node in site.conf.nodes
    ]
    return (Share((Desired(names, here), *per_node)),)


def slurm_conf(site: Site) -> Contribution:
    """Slurmd runs the program on each node, by turns; how often is the field's own key."""
    if not interval_seconds(site.spec.health.every):
        return Contribution()
    return Contribution(
        (Setting("HealthCheckProgram", PROGRAM), Setting("HealthCheckNodeState", "ANY,CYCLE"))
    )


@cache
def program() -> str:
    """The program's text, with the Xid table in it."""
    text = agents.program("health.sh")
    return text.replace("@XIDS@", xid_words())


def settings(site: Site, node: NodeConf) -> str:
    """What is declared of one node, one ``key value`` a line."""
    health, data = site.spec.health, site.spec.network.data
    lines = [
        "# Written by Corral from the cluster file; read by corral-health.",
        f"node {node.name}",
        f"auth {site.auth}",
        f"spool {SPOOL_DIR}",
        f"memory_mib {node.real_memory}",
        f"gpus {node.gpu_count}",
        *(f"file {file}" for file in _files(node)),
        *(
            f"mount {storage.mount}"
            for storage in site.spec.storage
            # Of the one machine it is a plain folder.
            if storage.kind != "provider" or not any(n.group.capabilities.here for n in site.nodes)
        ),
        *([f"fabric {data.fabric}"] if data else []),
        f"drain {'yes' if health.drain else 'no'}",
        f"at_most {health.at_most}",
        *(f"skip {check}" for check in health.skip),
    ]
    return "\n".join(lines) + "\n"


def _files(node: NodeConf) -> tuple[str, ...]:
    return tuple(file for gpu in node.gpus if gpu.files for file in expand(gpu.files))


ROLE: Final = Role("health", {"base": on_nodes}, slurm_conf)
