"""The providers of a cluster file, each made from its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from corral.providers.base import Provider
from corral.providers.login_host import LoginHost, require_ssh
from corral.spec.client import ClientSpec
from corral.spec.models import ClusterSpec
from corral.spec.providers import PROVIDERS, part_of

_CLOUD: Final = "corral.providers.cloud.provider:CloudProvider"


def provider_class(name: str) -> Callable[[ClusterSpec], Provider]:
    """The class of a provider, by the word in the cluster file; all clouds have one."""
    return part_of(PROVIDERS[name].provider or _CLOUD)


def providers_of(spec: ClusterSpec) -> tuple[Provider, ...]:
    """The providers that a cluster file names, each once, in its order; of a profile its login.

    Raises:
        CorralError: FORBIDDEN, a profile that reaches its cluster by slurmrestd alone.
    """
    if isinstance(spec, ClientSpec):
        require_ssh(spec)
        return (LoginHost(spec),)
    kinds = dict.fromkeys(provider_class(group.provider) for group in spec.groups)
    return tuple(kind(spec) for kind in kinds)


def here(provider: Provider) -> bool:
    """Whether its node is the machine that Corral runs on, reached without ssh."""
    kind = PROVIDERS.get(provider.name)
    return kind is not None and kind.here


def runs_here(spec: ClusterSpec) -> bool:
    """Whether the cluster is the machine that Corral runs on."""
    return any(here(provider) for provider in providers_of(spec))
