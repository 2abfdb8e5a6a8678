"""What roles work from: the cluster file, and what each machine is. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from corral.errors import Code, CorralError
from corral.inspect.facts import Facts, Traits
from corral.mesh.programs import Program
from corral.slurm.conf.conf_file import SlurmFiles
from corral.slurm.conf.model import ClusterConf
from corral.slurm.packages import DebSet
from corral.slurm.version import SlurmVersion, has
from corral.spec.models import ClusterSpec
from corral.spec.nodes import (
    Node,
    controller_of,
    controllers_of,
    nodes_of,
    partitions_of,
    users_of,
)
from corral.spec.sections.people import User
from corral.spec.slurm.releases import Feature
from corral.state.own_secret import OwnSecret
from corral.state.secrets import Watched
from corral.state.system.directory import DirectoryFiles


@dataclass(frozen=True)
class Site:
    """One cluster with the machines it really has.

    Attributes:
        spec: the cluster file.
        facts: what each node is, by node name; for machines that do not exist yet, predicted.
        traits: what the providers know beyond that, by node name.
        addresses: address of each node on the control network.
        debs: Slurm's packages where they do not come from the distribution.
        programs: the mesh client's programs where they come from this machine.
        watched: clouds that the controller's guard asks.
        udp: whether UDP goes out, ``yes`` or ``no``, of nodes that are about to join the mesh.
        directory: what this machine has for the directory of people, None without one.
        notify: secrets of messages about jobs, in files of this machine.
        unreachable: nodes that do not answer now: nothing waits for them.
    """

    spec: ClusterSpec
    facts: Mapping[str, Facts]
    traits: Mapping[str, Traits]
    addresses: Mapping[str, str]
    debs: DebSet | None = None
    programs: tuple[Program, ...] = ()
    watched: tuple[Watched, ...] = ()
    udp: Mapping[str, str] = field(default_factory=dict[str, str])
    directory: DirectoryFiles | None = None
    notify: tuple[OwnSecret, ...] = ()
    unreachable: frozenset[str] = frozenset()

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        return nodes_of(self.spec)

    @cached_property
    def controller(self) -> str:
        """The node that runs slurmctld."""
        return controller_of(self.spec)

    @cached_property
    def controllers(self) -> tuple[str, ...]:
        """The nodes that run slurmctld: the controller, and its backup where there is one."""
        return controllers_of(self.spec)

    def ip_address(self, node: str) -> str:
        """The IP address of a node; where the file has a name, the one it has.

        For what takes no names: exports of NFS, IMEX.
        """
        declared = self.addresses[node]
        try:
            return str(ipaddress.ip_address(declared))
        except ValueError:
            return self.facts[node].address or declared

    @cached_property
    def compute(self) -> tuple[Node, ...]:
        """Nodes that run slurmd: those of any group that is in a partition."""
        groups = {g for p in partitions_of(self.spec) for g in p.groups}
        return tuple(n for n in self.nodes if n.group.name in groups)

    @cached_property
    def pods(self) -> tuple[str, ...]:
        """Compute nodes where no systemd runs, such as rented containers (``roles.slurm.pods``)."""
        return tuple(n.name for n in self.compute if not self.facts[n.name].systemd)

    def is_pod(self, node: str) -> bool:
        return node in self._pods

    @cached_property
    def _pods(self) -> frozenset[str]:
        return frozenset(self.pods)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(n.name for n in self.nodes)

    @cached_property
    def users(self) -> tuple[User, ...]:
        """People who run jobs."""
        return users_of(self.spec)

    @cached_property
    def version(self) -> SlurmVersion:
        """The oldest Slurm of the cluster, installed or offered by the package source.

        Raises:
            CorralError: NOT_FOUND, a machine neither has Slurm nor is offered any.
        """
        versions: dict[str, SlurmVersion] = {}
        for node in self.nodes:
            facts = self.facts[node.name]
            offered = str(self.debs.version) if self.debs else facts.slurm_candidate
            text = facts.slurm or offered
            if not text:
                raise CorralError(
                    Code.NOT_FOUND,
                    "no Slurm is installed and its package source offers none",
                    node=node.name,
                    hint="run apt-get update on the node; on Ubuntu enable universe",
                )
            versions[text] = SlurmVersion.parse(text)
        return min(versions.values())

    @cached_property
    def auth(self) -> Literal["munge", "slurm"]:
        """auth/slurm where every node's Slurm can rotate its keys, unless the file sets it.

        23.11 has auth/slurm but cannot rotate its key (slurm.jwks came with 24.05), hence the
        bound for ``auto``.
        """
        declared = self.spec.slurm.auth
        if declared != "auto":
            return declared
        return "slurm" if has(self.version, Feature.JWKS_ROTATION) else "munge"


@dataclass(frozen=True)
class ConfiguredSite(Site):
    """A site with Slurm's files, to which all roles have contributed.

    Attributes:
        conf: the cluster as Slurm's files have it.
        slurm_files: the files, by name.
    """

    conf: ClusterConf = field(kw_only=True)
    slurm_files: SlurmFiles = field(kw_only=True)
