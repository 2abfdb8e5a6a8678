"""Where machines come from: one class per provider, made from the cluster file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError
from corral.providers.base import Provider
from corral.providers.cloud.provider import CloudProvider
from corral.providers.embedded import EmbeddedProvider
from corral.providers.ssh import SshProvider
from corral.spec.cloud import CLOUDS
from corral.spec.models import ClusterSpec

Kind = type[EmbeddedProvider] | type[SshProvider] | type[CloudProvider]

PROVIDERS: Final[Mapping[str, Kind]] = MappingProxyType(
    {"embedded": EmbeddedProvider, "ssh": SshProvider, **dict.fromkeys(CLOUDS, CloudProvider)}
)
"""Provider by the word in the cluster file."""


def providers_of(spec: ClusterSpec) -> tuple[Provider, ...]:
    """The providers that a cluster file names, each once, in its order.

    Raises:
        CorralError: NOT_GOOD, the cluster is not Corral's to make (provider gcp).
    """
    words = dict.fromkeys(g.provider for g in spec.groups)
    if "gcp" in words:
        raise CorralError(
            Code.NOT_GOOD,
            "this cluster is made by Google's Cluster Toolkit, not by Corral itself",
            hint="corral export gcluster FILE -o DIR, and what it says next",
        )
    return tuple(kind(spec) for kind in dict.fromkeys(PROVIDERS[word] for word in words))
