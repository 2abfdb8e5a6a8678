"""NCCL's network plugins that a fabric needs: where they are, and what jobs set for them. Pure.

The node's own profile is read, since its list of settings belongs to the plugin's release. Over it
go the values that the profile sets otherwise or not at all, and the library path. A fabric with
such a plugin is a row here and a word in the ``provider.toml`` of its machine types: jobs, proof
and ``corral env`` read the row and know no name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from corral.hosts.quote import Script, filled, join, sh

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_SYSTEM: Final = "/usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True, slots=True)
class NcclPlugin:
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
        rails: names of the NICs that carry GPU traffic, in the order of the GPUs, where the plugin
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
    demanded: Mapping[str, str]
    rails: tuple[str, ...] = ()

    def environment(self, folder: str = "") -> Script:
        """Shell for a job of several nodes that sets all of it, or ends the job and prints why."""
        folder = folder or self.folder
        libraries = ":".join(self.libraries).replace(self.folder, folder)
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


_TCPXO: Final = "/var/lib/tcpxo/lib64"
_CONTROL: Final = "enp0s12"
_RAILS: Final = (
    "enp6s0", "enp7s0", "enp13s0", "enp14s0", "enp134s0", "enp135s0", "enp141s0", "enp142s0",
)  # fmt: skip
"""Two at each PCIe switch."""

TCPXO: Final = NcclPlugin(
    title="GPUDirect-TCPXO",
    network="FasTrak",
    folder=_TCPXO,
    # Written by the prolog's installer. It takes the NICs for eth0 to eth8, and Ubuntu names them
    # by their PCI places; v1.0.12 and later refuse a job with another value than the demanded one.
    profile="nccl-env-profile.sh",
    unprepared="the TCPXO prolog did not run",
    devices="/dev/aperture_devices",
    devices_title="aperture devices",
    libraries=(_TCPXO, _SYSTEM),
    mounts=(
        "/var/tmp:/var/tmp",  # noqa: S108  # as the installer's example
        f"{_TCPXO}:{_TCPXO}",
        "/dev/aperture_devices:/dev/aperture_devices",
    ),
    values=MappingProxyType(
        {
            "NCCL_FASTRAK_CTRL_DEV": _CONTROL,
            "NCCL_FASTRAK_IFNAME": ",".join(_RAILS),
            "NCCL_SOCKET_IFNAME": _CONTROL,
            "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices",
            "GLOO_SOCKET_IFNAME": _CONTROL,
        }
    ),
    demanded=MappingProxyType({"NCCL_NVLSTREE_MAX_CHUNKSIZE": "131072"}),
    rails=_RAILS,
)

_GIB: Final = "/usr/local/gib"

GIB: Final = NcclPlugin(
    title="NCCL/gIB",
    network="gIB",
    folder=_GIB,
    # The plugin finds adapters and their GIDs itself. The interface of the control traffic is the
    # one that leads to the first node: its name depends on the image.
    profile="scripts/set_nccl_env.sh",
    unprepared="the package nccl-gib is not installed",
    devices="/dev/infiniband",
    devices_title="RDMA devices",
    libraries=(f"{_GIB}/lib64",),
    mounts=(
        "/var/tmp:/var/tmp",  # noqa: S108  # as the installer's example
        f"{_GIB}:{_GIB}",
        "/dev/infiniband:/dev/infiniband",
    ),
    # Without it NCCL takes its own network for RoCE where the plugin cannot be loaded, in silence.
    values=MappingProxyType({"NCCL_NET": "gIB"}),
    demanded=_NOTHING,
)

PLUGINS: Final[Mapping[str, NcclPlugin]] = MappingProxyType({"tcpxo": TCPXO, "gib": GIB})
"""By the fabric that machine types of a ``provider.toml`` name."""


def of_fabrics(fabrics: Collection[str]) -> str:
    """The fabric among some that has a plugin, "" where none has."""
    return next((fabric for fabric in fabrics if fabric in PLUGINS), "")
