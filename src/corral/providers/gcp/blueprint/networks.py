"""The networks of a blueprint: one for everything but GPU traffic, and those of the GPUs. Pure."""

from __future__ import annotations

from typing import Any, Final

from corral.providers.gcp.blueprint.entry import module
from corral.providers.gcp.machines import GpuMachine

SYSTEM_RANGE: Final = "172.16.0.0/16"
_PROFILE: Final = (
    "https://www.googleapis.com/compute/beta/projects/$(vars.project_id)/global/networkProfiles/"
    "$(vars.zone)-vpc-roce"
)
"""Google has such a profile for each zone with RDMA; a network with it is in that zone alone."""
_INTERFACES: Final = (
    "$(concat([{network=null, subnetwork=gvnicnet.subnetwork_self_link, "
    'subnetwork_project=vars.project_id, nic_type="GVNIC", queue_count=null, network_ip="", '
    "stack_type=null, access_config=[], ipv6_access_config=[], alias_ip_range=[]}], "
    "rdmanet.subnetwork_interfaces))"
)
"""All NICs but the first one: Google takes two gVNICs first, then those with RDMA."""


def system_network(kind: GpuMachine) -> dict[str, Any]:
    """The network of everything but GPU traffic."""
    subnet = {
        "subnet_name": "$(vars.subnetwork_name_system)",
        "subnet_region": "$(vars.region)",
        "new_bits": 4,
        "subnet_private_access": True,
        "description": "control network of the cluster",
    }
    return module(
        "sysnet",
        "modules/network/vpc",
        network_name="$(vars.network_name_system)",
        network_address_range=SYSTEM_RANGE,
        mtu=kind.network.mtu,
        subnetworks=[subnet],
        outputs=("network_name", "subnetwork_name"),
    )


def known_network() -> dict[str, Any]:
    """The same network, in a later blueprint than the one that made it."""
    return module(
        "sysnet",
        "modules/network/pre-existing-vpc",
        network_name="$(vars.network_name_system)",
        subnetwork_name="$(vars.subnetwork_name_system)",
    )


def gpu_networks(kind: GpuMachine) -> list[dict[str, Any]]:
    """Those that carry GPU traffic, and that of the second gVNIC."""
    network = kind.network
    if network.kind == "multivpc":
        return [
            module(
                "gpunets",
                "modules/network/multivpc",
                network_name_prefix="$(vars.deployment_name)-gpunet",
                global_ip_address_range=network.range,
                network_count=network.count,
                subnetwork_cidr_suffix=20,
                mtu=network.mtu,
            )
        ]
    return [_second(kind), _rdma(kind)]


def _second(kind: GpuMachine) -> dict[str, Any]:
    allow = [{"protocol": protocol} for protocol in ("tcp", "udp", "icmp")]
    subnet = {
        "subnet_name": "$(vars.deployment_name)-gvnic-sub",
        "subnet_region": "$(vars.region)",
        "subnet_ip": kind.network.second,
    }
    rule = {
        "name": "$(vars.deployment_name)-gvnic-internal",
        "ranges": [kind.network.second],
        "allow": allow,
    }
    return module(
        "gvnicnet",
        "modules/network/vpc",
        network_name="$(vars.deployment_name)-gvnic-net",
        mtu=kind.network.mtu,
        enable_internal_traffic=False,  # the rule below has the subnetwork's own range
        subnetworks=[subnet],
        firewall_rules=[rule],
    )


def _rdma(kind: GpuMachine) -> dict[str, Any]:
    return module(
        "rdmanet",
        "modules/network/gpu-rdma-vpc",
        network_name="$(vars.deployment_name)-rdma-net",
        network_profile=_PROFILE,
        network_routing_mode="REGIONAL",
        subnetworks_template={
            "name_prefix": "$(vars.deployment_name)-rdma-sub",
            "count": kind.network.count,
            "ip_range": kind.network.range,
            "region": "$(vars.region)",
        },
    )


def used(kind: GpuMachine) -> tuple[str, ...]:
    """Modules that a nodeset takes its interfaces of automatically."""
    return ("gpunets",) if kind.network.kind == "multivpc" else ()


def interfaces(kind: GpuMachine) -> dict[str, Any]:
    """The setting with a nodeset's interfaces, where they are not taken automatically."""
    return {} if kind.network.kind == "multivpc" else {"additional_networks": _INTERFACES}
