"""The registry of providers, and what each of them can do: ``providers/FOLDER/provider.toml``.

A provider is a word in the cluster file, a folder and a word in ``REGISTRY``. Rules, roles and
verbs ask for a capability, never for a name. TOML, because the standard library reads it: every
verb needs these few facts, and most verbs need no other table.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from corral.tables import Row

REGISTRY: Final = ("embedded", "ssh", "gcp", "lambda_cloud", "runpod", "paperspace")
"""Folders of ``corral.providers``; the order of every list of providers."""


class Rental(Row):
    """What is particular to a cloud that rents machines.

    Attributes:
        title: its name for people.
        variable: environment variable of the API key.
        url: address of its API.
        user: the account that takes the key.
        client: name of the class in the folder's ``client`` module.
        elastic: machines can come and go one by one, with systemd.
        ends_itself: a lost machine ends after a time (``budget.dead_man``).
        clusters: fewest machines that are rented as one, with their own network and no timer; 0:
            they come one by one.
        pods: machines are containers without systemd, TUN and UDP: nodes of a tailnet only.
        marker: an environment variable that every such container has.
        image: what ``cloud.image`` names there.
        volumes: what ``cloud.volumes`` names there; "": Corral makes no file systems there.
        sized: a file system has a size.
        counts: a type comes with several numbers of GPUs.
        firewall: the account has one set of inbound rules, and its client a ``FirewallApi``.
        account_keys: the account has one set of ssh keys, and its client an ``AccountKeysApi``.
    """

    title: str
    variable: str
    url: str
    user: str
    client: str
    elastic: bool
    ends_itself: bool
    pods: bool
    clusters: int = 0
    marker: str = ""
    image: str
    volumes: str = ""
    sized: bool = False
    counts: bool = False
    firewall: bool = False
    account_keys: bool = False


class Capabilities(Row):
    """What a provider is and can do.

    Attributes:
        name: the word in the cluster file.
        folder: its folder.
        provider: module and class; "" for a cloud, all of which are ``providers.cloud``'s.
        owned: machines exist and belong to the user; nobody makes or ends them.
        containers: nodes are containers of this machine: its CPUs, memory, kernel and clock, and
            GPUs that are device files.
        configures: the provider itself sets up Slurm and what machines hold.
        dns_names: names of nodes are names of machines there.
        unused: fields of a group that it does not read.
        aliases: words that people write for it.
        rental: of a cloud that rents machines.
    """

    name: str
    folder: str = ""
    provider: str = ""
    owned: bool = False
    containers: bool = False
    configures: bool = False
    dns_names: bool = False
    unused: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    rental: Rental | None = None

    @property
    def rents(self) -> bool:
        """Whether its machines cost money until they are ended."""
        return self.rental is not None


def _read(folder: str) -> Capabilities:
    path = Path(__file__).parents[1] / "providers" / folder / "provider.toml"
    return Capabilities.model_validate({**tomllib.loads(path.read_text("utf-8")), "folder": folder})


PROVIDERS: Final[Mapping[str, Capabilities]] = MappingProxyType(
    {provider.name: provider for provider in map(_read, REGISTRY)}
)
"""By the word in the cluster file."""

CONTAINERS: Final = next(provider.name for provider in PROVIDERS.values() if provider.containers)
"""The provider on whose nodes every cluster is rehearsed."""

OWNED: Final = next(provider.name for provider in PROVIDERS.values() if provider.owned)
"""The provider of machines that the user has."""

RENTALS: Final[Mapping[str, Rental]] = MappingProxyType(
    {name: provider.rental for name, provider in PROVIDERS.items() if provider.rental}
)
"""Clouds that rent machines."""

CLOUDS: Final = tuple(RENTALS)


def clouds_with(field: str) -> tuple[str, ...]:
    """Clouds of which a field of ``Rental`` is set."""
    return tuple(name for name, rental in RENTALS.items() if getattr(rental, field))


def in_words(field: str) -> str:
    """A field of ``Rental`` for each cloud that has it: ``names (lambda) or one id (runpod)``."""
    return either(tuple(f"{getattr(RENTALS[name], field)} ({name})" for name in clouds_with(field)))


if TYPE_CHECKING:
    ProviderName = str
    CloudName = str
else:
    ProviderName = Literal[tuple(PROVIDERS)]
    CloudName = Literal[CLOUDS]


def either(names: tuple[str, ...]) -> str:
    """``lambda, runpod or paperspace``."""
    return " or ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)
