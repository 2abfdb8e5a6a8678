"""Where machines come from: one class per provider, made from the cluster file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from corral.providers.base import Provider
from corral.providers.cloud.provider import CloudProvider
from corral.providers.embedded import EmbeddedProvider
from corral.providers.gcp import GcpProvider
from corral.providers.ssh import SshProvider
from corral.spec.cloud import CLOUDS
from corral.spec.models import ClusterSpec

Kind = type[EmbeddedProvider] | type[SshProvider] | type[CloudProvider] | type[GcpProvider]

PROVIDERS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "embedded": EmbeddedProvider,
        "ssh": SshProvider,
        "gcp": GcpProvider,
        **dict.fromkeys(CLOUDS, CloudProvider),
    }
)
"""Provider by the word in the cluster file."""


def providers_of(spec: ClusterSpec) -> tuple[Provider, ...]:
    """The providers that a cluster file names, each once, in its order."""
    words = dict.fromkeys(g.provider for g in spec.groups)
    return tuple(kind(spec) for kind in dict.fromkeys(PROVIDERS[word] for word in words))
