"""A cluster's Slurm files out of what the roles add to them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from corral.errors import Code, CorralError
from corral.roles.inventory import Site
from corral.slurm.conf.conf_file import Setting
from corral.slurm.conf.fields import settings_of_fields
from corral.slurm.conf.model import ClusterConf, Contribution, NodeConf
from corral.spec.nodes import state_of


def cluster_conf(site: Site, given: Sequence[Contribution]) -> ClusterConf:
    """The entire cluster as Slurm's files need it.

    Args:
        site: the cluster.
        given: what the roles add.

    Raises:
        CorralError: NOT_GOOD, the machines have no cgroups.
    """
    spec = site.spec
    facts = site.facts[site.controller]
    if facts.cgroup == "none":
        raise CorralError(
            Code.NOT_GOOD,
            "no cgroups are mounted: Slurm could not isolate jobs",
            node=site.controller,
            hint="boot the machine with systemd and cgroup v2",
        )
    backup = spec.slurm.backup_controller
    return ClusterConf(
        name=spec.name,
        controller=site.controller,
        controller_address=site.addresses[site.controller],
        backup=backup.node if backup else "",
        backup_address=site.addresses[backup.node] if backup else "",
        state=state_of(spec),
        version=site.version,
        auth=site.auth,
        accounting_host=site.controller if spec.slurm.accounting else "",
        rest=spec.slurm.rest,
        cgroup=facts.cgroup,
        systemd=facts.systemd,
        nodes=tuple(_nodes(given)),
        partitions=tuple(p for role in given for p in role.partitions),
        swap_limit=all(
            f.swap_limit for f in (site.facts[n.name] for n in site.compute) if f.systemd
        ),
        # Of packages that are not the distribution's it is unknown before they are installed, and a
        # value that changed then would be a plan after every first `up`.
        pmix=site.debs is None and all(site.facts[n.name].pmix for n in site.nodes),
        settings=(
            *(setting for role in given for setting in role.settings),
            *settings_of_fields(spec),
        ),
        files=tuple(file for role in given for file in role.files),
        declared=tuple(Setting(key, value) for key, value in spec.slurm.settings.items()),
    )


def _nodes(given: Sequence[Contribution]) -> Iterator[NodeConf]:
    """All nodes, each with the features that other roles add to it."""
    for node in (node for role in given for node in role.nodes):
        added = tuple(word for role in given for word in role.features.get(node.name, ()))
        yield replace(node, features=(*node.features, *added))
