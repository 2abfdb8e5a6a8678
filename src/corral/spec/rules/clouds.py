"""Rules about rented groups and the budget."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Final

from corral.spec.findings import Level
from corral.spec.providers import CLOUDS, PROVIDERS, RENTALS, clouds_with, either
from corral.spec.view import GroupView, Problem, Rule, View, some

LABEL_ROOM: Final = 37
"""Characters that cluster and node may have together (``providers.cloud.model.LABEL_ROOM``)."""

_ELASTIC: Final = tuple(name for name, rental in RENTALS.items() if rental.elastic)
_NO_TIMER: Final = frozenset(name for name, rental in RENTALS.items() if not rental.ends_itself)
_BILLED: Final = tuple(name for name, provider in PROVIDERS.items() if provider.billed)
_PODS: Final = frozenset(name for name, rental in RENTALS.items() if rental.pods)
_CLUSTERS: Final = tuple(name for name, rental in RENTALS.items() if rental.clusters)
_OWN: Final = tuple(map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
"""RFC 1918."""


def cloud_missing(view: View) -> Iterator[Problem]:
    """A rented group that does not state what is rented."""
    for group in view.where(lambda c: c.rents):
        if group.group.cloud is None:
            provider = group.group.provider
            message = f"group {group.group.name} does not state what to rent at {provider}"
            hint = f"add cloud: {{type: ...}}; what there is: corral offers -p {provider}"
            yield Problem(group.at(), message, hint)


def cloud_unused(view: View) -> Iterator[Problem]:
    """Renting fields on a group that is not rented."""
    for group in view.groups:
        if group.group.cloud is not None and not group.group.capabilities.rents:
            message = f"cloud has no effect with provider {group.group.provider}"
            hint = f"remove it, or take provider {either(CLOUDS)}"
            yield Problem(group.at("cloud"), message, hint)
        if group.group.capabilities.rents and group.group.addresses is not None:
            message = "rented machines get their addresses from the provider"
            yield Problem(group.at("addresses"), message, "remove addresses")


def cloud_name_long(view: View) -> Iterator[Problem]:
    """Names of cluster and node that do not fit into an instance's name."""
    for group in view.where(lambda c: c.rents):
        as_cluster = group.group.cloud is not None and group.group.cloud.cluster
        long = max((*group.names, group.group.name if as_cluster else ""), key=len)
        if len(long) + len(view.spec.name) > LABEL_ROOM:
            message = (
                f"{view.spec.name} and {long} together are longer than {LABEL_ROOM} characters"
            )
            hint = "instances are found again by both in their names: shorten one of them"
            yield Problem(group.at("nodes"), message, hint)


def no_budget(view: View) -> Iterator[Problem]:
    """Rented machines without a limit of money."""
    rented = view.where(lambda c: c.rents)
    if rented and view.spec.budget is None:
        message = f"group {rented[0].group.name} is rented, and nothing limits what it may cost"
        yield Problem(rented[0].at("provider"), message, "add budget: {per_hour: 20, total: 300}")


def budget_unused(view: View) -> Iterator[Problem]:
    """A budget that limits none of the file's groups."""
    if view.spec.budget is None or view.where(lambda c: c.rents):
        return
    billed = view.where(lambda c: c.billed)
    message = "budget limits nothing: no group is rented by Corral"
    hint = f"remove it; it is for groups of provider {either(CLOUDS)}"
    if billed:
        group = billed[0].group
        message = f"budget does not limit group {group.name} of provider {group.provider}"
        hint = f"remove it; limit {_named(billed)} by the quotas of its project there"
    yield Problem(("budget",), message, hint)


def budget_part(view: View) -> Iterator[Problem]:
    """A budget of rented groups next to groups that cost money and are not counted."""
    if view.spec.budget is None or not view.where(lambda c: c.rents):
        return
    for group in view.where(lambda c: c.billed):
        message = f"budget does not limit group {group.group.name}: what it costs is not counted"
        hint = "limit it by the quotas of its project there; see the guide, Cost"
        yield Problem(group.at("provider"), message, hint)


def _named(groups: tuple[GroupView, ...]) -> str:
    return some([group.group.name for group in groups])


def no_dead_man(view: View) -> Iterator[Problem]:
    """Rented machines that nothing ends when Corral's own machine is lost."""
    for group in view.where(lambda c: c.rents):
        cloud = group.group.cloud
        places = {group.group.provider, *(s.provider for s in (cloud.fallback if cloud else ()))}
        budget = view.spec.budget
        clusters = set(_CLUSTERS) if cloud and cloud.cluster else set[str]()
        bare = (places & (_NO_TIMER | clusters)) - set(budget.unguarded if budget else ())
        if bare:
            names = ", ".join(sorted(bare))
            message = f"machines of {names} cannot end themselves when their controller is lost"
            hint = f"they cost money until corral reap; acknowledge it: unguarded: [{names}]"
            yield Problem(group.at("provider"), message, hint)


def pod_controller(view: View) -> Iterator[Problem]:
    """A pod as a node: a container, without what machines have."""
    for group in view.where(lambda c: bool(c.rental and c.rental.pods)):
        message = f"group {group.group.name}: pods have no systemd, no TUN and no UDP"
        hint = "each is a separate island, for jobs on one node; see the guide"
        if group.group.cloud and group.group.cloud.cluster:
            hint = "together they are an island, by the network of their cluster; see the guide"
        yield Problem(group.at("provider"), message, hint)


def pod_place(view: View) -> Iterator[Problem]:
    """Pods where they cannot be nodes: reported before they are rented."""
    tailnet = view.spec.network.control == "tailscale"
    for group in view.groups:
        cloud = group.group.cloud
        places = {group.group.provider, *(s.provider for s in (cloud.fallback if cloud else ()))}
        if not places & _PODS:
            continue
        if not tailnet:
            # A pod's one open port is sshd's, another one after each start.
            message = f"group {group.group.name}: Slurm reaches a pod by a tailnet alone"
            hint = "write network: {control: tailscale}; see the guide, Mesh"
            yield Problem(group.at("provider"), message, hint)
        if view.complete and view.controller in group.names:
            message = f"the controller {view.controller} may be a pod, without systemd"
            yield Problem(group.at("nodes"), message, "name a machine as controller")


def rented_apart(view: View) -> Iterator[Problem]:
    """Machines of one's own network that rented ones are to reach."""
    if view.spec.network.control == "tailscale" or not view.where(lambda c: c.rents):
        return
    for group in view.where(lambda c: c.owned and not c.here):
        own = [a for a in group.addresses if _own(a)]
        if own:
            message = f"rented machines do not reach {own[0]}, an address of your own network"
            hint = "write network: {control: tailscale}, or an address that the clouds reach"
            yield Problem(group.at("addresses"), message, hint)


def _own(address: str) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:  # a name: who knows
        return False
    return any(parsed in network for network in _OWN if network.version == parsed.version)


def cloud_cluster(view: View) -> Iterator[Problem]:
    """A provider's own cluster where it offers none, of one machine, or whose name is taken."""
    for group in view.groups:
        cloud = group.group.cloud
        if cloud is None or not cloud.cluster:
            continue
        places = {group.group.provider, *(s.provider for s in cloud.fallback)}
        others = places - set(_CLUSTERS)
        if others:
            message = f"{', '.join(sorted(others))}: no clusters of machines are rented there"
            hint = f"remove cluster, or rent the group and its fall-backs at {either(_CLUSTERS)}"
            yield Problem(group.at("cloud", "cluster"), message, hint)
        least = max((RENTALS[name].clusters for name in places & set(_CLUSTERS)), default=0)
        if (count := len(group.names)) < least and not group.broken:
            message = f"a cluster has {least} machines at least, and this group has {count}"
            yield Problem(group.at("nodes"), message, "remove cluster, or add nodes")
        if any(group.group.name in other.names for other in view.groups):
            message = f"{group.group.name} is a node as well, and names this group's cluster"
            yield Problem(group.at("name"), message, "give the group another name")


def elastic_place(view: View) -> Iterator[Problem]:
    """Elastic groups where nothing can be rented, or that cannot come and go."""
    for group in view.groups:
        elastic = group.group.elastic
        if elastic is None:
            continue
        provider = group.group.provider
        if provider not in _ELASTIC:
            message = f"nodes of provider {provider} cannot come and go"
            hint = f"remove elastic, or rent the group at {' or '.join(_ELASTIC)}"
            yield Problem(group.at("elastic"), message, hint)
        if elastic.min > len(group.names) and not group.broken:
            message = f"min is {elastic.min}, and the group has {len(group.names)} nodes"
            yield Problem(group.at("elastic", "min"), message, "write at most the number of nodes")
        if elastic.present:
            message = "which nodes are rented is observed, not declared"
            yield Problem(group.at("elastic", "present"), message, "remove present")
        if view.complete and view.controller in group.names:
            message = f"the controller {view.controller} cannot come and go"
            hint = "name a node that stays: controller"
            yield Problem(group.at("elastic"), message, hint)


_POD_CLOUDS: Final = ", ".join(clouds_with("pods"))
RULES: Final = (
    Rule("elastic-place", Level.ERROR,
         "Nodes come and go at clouds that rent machines with systemd; the controller stays.",
         ("groups.elastic", "groups.provider", "groups.nodes"), elastic_place, ("controller",)),
    Rule("cloud-missing", Level.ERROR, "A rented group must state what is rented.",
         ("groups.cloud", "groups.provider"), cloud_missing),
    Rule("cloud-cluster", Level.ERROR,
         f"Machines come as one of the provider's own clusters at {either(_CLUSTERS)}, "
         "two or more of them.",
         ("groups.cloud", "groups.provider", "groups.nodes"), cloud_cluster, ("groups.name",)),
    Rule("cloud-unused", Level.ERROR,
         "Fields of rented machines on a group that is not rented, or addresses on one that is.",
         ("groups.cloud", "groups.provider", "groups.addresses"), cloud_unused),
    Rule("cloud-name-long", Level.ERROR,
         "Instances are found by the names of cluster and node; both must fit into theirs.",
         ("groups.nodes", "groups.provider"), cloud_name_long, ("name",)),
    Rule("budget-missing", Level.WARNING, "Rented machines cost money until somebody ends them.",
         ("groups.provider",), no_budget, ("budget",)),
    Rule("budget-unused", Level.WARNING,
         "A budget limits what Corral rents; here it limits nothing.",
         ("budget", "groups.provider"), budget_unused),
    Rule("budget-part", Level.WARNING,
         f"Groups that cost money and that no budget limits: {either(_BILLED)}.",
         ("groups.provider",), budget_part, ("budget",)),
    Rule("dead-man-missing", Level.INFO,
         "Which rented machines cannot end themselves when their controller is lost.",
         ("groups.provider", "groups.cloud"), no_dead_man, ("budget",)),
    Rule("pod-place", Level.ERROR,
         f"A pod ({_POD_CLOUDS}) is a compute node of a tailnet, and nothing else.",
         ("groups.provider", "groups.cloud", "groups.nodes"), pod_place,
         ("network.control", "controller")),
    Rule("rented-apart", Level.WARNING,
         "Rented machines reach no address of a network behind a router; a tailnet joins them.",
         ("groups.addresses", "groups.provider"), rented_apart, ("network.control",)),
    Rule("pod-limits", Level.WARNING,
         f"What a rented container ({_POD_CLOUDS}) lacks as a node.",
         ("groups.provider",), pod_controller),
)  # fmt: skip
