"""The registry of providers, and what each of them can do: ``providers/FOLDER/provider.toml``.

A provider is a word in the cluster file, a folder and a word in ``REGISTRY``. Rules, roles and
verbs ask for a capability, never for a name. TOML, because the standard library reads it: every
verb needs these few facts, and most verbs need no other table.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from corral.tables import Row, read_table

REGISTRY: Final = ("embedded", "ssh", "local", "gcp", "lambda_cloud", "runpod", "paperspace")
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


class MachineType(Row):
    """A type of machine that groups name (``groups[].machine``).

    Attributes:
        title: its name for people.
        vendor: whose machine it is.
        fabric: the network between its GPUs, where that needs its own software.
        nccl_tests: field of the cluster file that names the folder of nccl-tests there.
        hardware: its entry in a table of known hardware (``prove.fabric.hardware``).
        guide: its page of the guide.
        group: what examples call a group of such machines.
    """

    title: str
    vendor: str
    fabric: str = ""
    nccl_tests: str = ""
    hardware: str = ""
    guide: str = ""
    group: str = ""


class Tool(Row):
    """A tool of somebody else for a provider's machines, whose files ``corral export`` writes.

    Attributes:
        writes: ``module:function`` from a cluster and a folder's name to a
            ``providers.export_files.Export``.
        help: of the verb: one line, then details.
        examples: of the verb; the first is one of ``corral export`` too.
        place: where its commands are run; "" is the folder that was written.
    """

    writes: str
    help: str
    examples: tuple[str, ...]
    place: str = ""


class Reader(Row):
    """A tool of somebody else whose files ``corral init`` makes a cluster file from.

    Attributes:
        reads: ``module:function`` from a folder to the file's text and what is not carried over.
        option: of the verb.
        help: of the option.
        example: of the verb.
    """

    reads: str
    option: str
    help: str
    example: str


class Capabilities(Row):
    """What a provider is and can do.

    What is named as ``module:name`` is read by ``part_of``, so that this package imports nothing
    of a provider's.

    Attributes:
        name: the word in the cluster file.
        folder: its folder.
        summary: what it is, in a few words.
        provider: ``module:class``; "" for a cloud, all of which are ``providers.cloud``'s.
        section: ``module:class`` of its own section of the cluster file, which has its name: a
            ``spec.sections.provider_section.Section``.
        completes: ``module:function`` from a cluster to the same with what the provider sets up
            filled in.
        rules: ``module:table`` of the rules that are about it alone.
        tables: tables in its folder whose rows go with those of the same kind: ``failures.yaml``
            (the doctor's catalogue), ``hardware.yaml`` (figures of networks and GPUs),
            ``nccl_plugins.yaml`` and ``virtual_nics.yaml`` (drivers).
        machines: types of machine that groups name, by that name.
        exports: other tools that its machines can be set up with, by verb of ``corral export``.
        reader: the tool whose files are read for it.
        login: whom ``groups[].ssh.user`` names, where that is not an account of the machine.
        owned: machines exist and belong to the user; nobody makes or ends them.
        check: ``module:function`` that raises why a machine cannot be taken, for a machine that is
            here.
        here: the one node is the machine that Corral runs on, reached without ssh.
        containers: nodes are containers of this machine: its CPUs, memory, kernel and clock, and
            GPUs that are device files.
        billed: its machines cost money that Corral neither knows nor counts nor limits.
        configures: the provider itself sets up Slurm and what machines hold.
        dns_names: names of nodes are names of machines there.
        unused: fields of a group that it does not read.
        aliases: words that people write for it.
        variables: own environment variables, with what each means.
        rental: of a cloud that rents machines.
    """

    name: str
    folder: str = ""
    summary: str = ""
    provider: str = ""
    section: str = ""
    completes: str = ""
    rules: str = ""
    tables: tuple[str, ...] = ()
    machines: Mapping[str, MachineType] = {}
    exports: Mapping[str, Tool] = {}
    reader: Reader | None = None
    login: str = ""
    owned: bool = False
    check: str = ""
    here: bool = False
    containers: bool = False
    billed: bool = False
    configures: bool = False
    dns_names: bool = False
    unused: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    rental: Rental | None = None

    @property
    def rents(self) -> bool:
        """Whether its machines cost money until they are ended."""
        return self.rental is not None


def _read(folder: str) -> Capabilities:
    declared = read_table(f"corral.providers.{folder}", "provider.toml", Capabilities)
    return declared.model_copy(update={"folder": folder})


PROVIDERS: Final[Mapping[str, Capabilities]] = MappingProxyType(
    {provider.name: provider for provider in map(_read, REGISTRY)}
)
"""By the word in the cluster file."""

CONTAINERS: Final = next(provider.name for provider in PROVIDERS.values() if provider.containers)
"""The provider on whose nodes every cluster is rehearsed."""

OWNED: Final = next(provider.name for provider in PROVIDERS.values() if provider.owned)
"""The provider of machines that the user has."""

HERE: Final = next(provider.name for provider in PROVIDERS.values() if provider.here)
"""The provider of the machine that Corral runs on."""

RENTALS: Final[Mapping[str, Rental]] = MappingProxyType(
    {name: provider.rental for name, provider in PROVIDERS.items() if provider.rental}
)
"""Clouds that rent machines."""

CLOUDS: Final = tuple(RENTALS)


MACHINES: Final[Mapping[str, MachineType]] = MappingProxyType(
    {name: kind for provider in PROVIDERS.values() for name, kind in provider.machines.items()}
)
"""Types of machine that a group can name."""


TOOLS: Final[Mapping[str, Tool]] = MappingProxyType(
    {verb: tool for provider in PROVIDERS.values() for verb, tool in provider.exports.items()}
)
"""By verb of ``corral export``."""

READER: Final = next(provider.reader for provider in PROVIDERS.values() if provider.reader)
"""Whose files ``corral init`` reads."""


def part_of(path: str) -> Any:
    """What a provider has under ``module:name``."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def packages_with(table: str) -> tuple[str, ...]:
    """Packages of the providers that have their own such table (``Capabilities.tables``)."""
    having = (provider for provider in PROVIDERS.values() if table in provider.tables)
    return tuple(f"corral.providers.{provider.folder}" for provider in having)


def machines_on(fabric: str) -> Mapping[str, MachineType]:
    """Types of machine whose GPUs are on a fabric."""
    return {name: kind for name, kind in MACHINES.items() if kind.fabric == fabric}


def clouds_with(field: str) -> tuple[str, ...]:
    """Clouds of which a field of ``Rental`` is set."""
    return tuple(name for name, rental in RENTALS.items() if getattr(rental, field))


def in_words(field: str) -> str:
    """A field of ``Rental`` for each cloud that has it: ``names (lambda) or one id (runpod)``."""
    return either(tuple(f"{getattr(RENTALS[name], field)} ({name})" for name in clouds_with(field)))


if TYPE_CHECKING:
    ProviderName = str
    CloudName = str
    MachineName = str
else:
    ProviderName = Literal[tuple(PROVIDERS)]
    CloudName = Literal[CLOUDS]
    MachineName = Literal[tuple(MACHINES)]


def either(names: tuple[str, ...]) -> str:
    """``lambda, runpod or paperspace``."""
    return " or ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)
