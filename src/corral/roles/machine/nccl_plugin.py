"""NCCL's network plugins that a fabric needs: where they are, and what jobs set for them. Pure.

The node's own profile is read, since its list of settings belongs to the plugin's release. Over it
go the values that the profile sets otherwise or not at all, and the library path. A fabric with
such a plugin is a row here and a word in the ``provider.toml`` of its machine types: jobs, proof
and ``corral env`` read the row and know no name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from corral.hosts.quote import Script, filled, join, sh
from corral.spec.providers import packages_with
from corral.tables import Row, read_table


class NcclPlugin(Row):
    """A plugin and its environment.

    Attributes:
        title: its name for people.
        network: what NCCL's log calls its network.
        folder: where its installer puts it.
        profile: its list of settings, shell below the folder.
        unprepared: why a node has no such profile.
        devices: the folder of its devices; a node without any cannot use it.
        devices_title: what they are called.
        libraries: folders that the linker looks in first.
        mounts: of the node, in a job's container; devices among them, as Enroot's own /dev has few
            where ENROOT_RESTRICT_DEV is set, as Corral sets it.
        values: what the profile sets otherwise or not at all.
        demanded: values of which the plugin takes no other.
        rails_variable: the one of ``values`` that lists the NICs of GPU traffic, where the plugin
            has to be given them.
    """

    title: str
    network: str
    folder: str
    profile: str
    unprepared: str
    devices: str
    devices_title: str
    libraries: tuple[str, ...]
    mounts: tuple[str, ...]
    values: Mapping[str, str]
    demanded: Mapping[str, str] = {}
    rails_variable: str = ""

    @property
    def rails(self) -> tuple[str, ...]:
        """Names of the NICs that carry GPU traffic, in the order of the GPUs."""
        return tuple(filter(None, self.values.get(self.rails_variable, "").split(",")))

    def environment(self, folder: str = "") -> Script:
        """Shell for a job of several nodes that sets all of it, or ends the job and prints why."""
        folder = folder or self.folder
        libraries = ":".join(
            f"{folder}{path.removeprefix(self.folder)}" if path.startswith(self.folder) else path
            for path in self.libraries
        )
        return join(
            [
                filled(
                    "jobs/batch/plugin-profile.sh",
                    profile=f"{folder}/{self.profile}",
                    folder=folder,
                    unprepared=self.unprepared,
                    devices=self.devices,
                    kind=self.devices_title,
                ),
                *(
                    sh("export {pair}", pair=f"{name}={value}")
                    for name, value in (*self.values.items(), *self.demanded.items())
                ),
                sh(
                    'export LD_LIBRARY_PATH={libs}"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"',
                    libs=libraries,
                ),
            ]
        )

    def mistakes(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """What is wrong with a job's environment, one sentence each; empty: nothing.

        Args:
            environment: as the ranks see it (``env`` in the job).
        """
        problems = [
            f"{name} is {environment.get(name) or 'not set'}, and the plugin demands {value}"
            for name, value in self.demanded.items()
            if environment.get(name) != value
        ]
        problems += [
            self._mistake(name, environment.get(name, ""), value)
            for name, value in self.values.items()
            if environment.get(name) != value
        ]
        first = self.libraries[0]
        if first not in environment.get("LD_LIBRARY_PATH", "").split(":"):
            problems.append(
                f"LD_LIBRARY_PATH lacks {first}: NCCL loads no plugin and takes TCP sockets"
            )
        return tuple(problems)

    def _mistake(self, name: str, given: str, value: str) -> str:
        if value != ",".join(self.rails):
            return f"{name} is {given or 'not set'}: it must be {value}"
        if sorted(given.split(",")) == sorted(self.rails):
            return f"{name} has the NICs in another order than the GPUs: {value}"
        return f"{name} is {given or 'not set'}: the NICs are {value}"


def _plugins() -> Mapping[str, NcclPlugin]:
    packages = ("corral.roles.machine", *packages_with("nccl_plugins.yaml"))
    tables = [read_table(p, "nccl_plugins.yaml", dict[str, NcclPlugin]) for p in packages]
    return MappingProxyType({fabric: row for table in tables for fabric, row in table.items()})


PLUGINS: Final = _plugins()
"""By the fabric that machine types of a ``provider.toml`` name."""

TCPXO: Final = PLUGINS["tcpxo"]
"""The one that the proof has a check for; nodes of an undeclared kind may be set up for it too."""


def of_fabrics(fabrics: Collection[str]) -> str:
    """The fabric among some that has a plugin, "" where none has."""
    return next((fabric for fabric in fabrics if fabric in PLUGINS), "")
