"""Which offers fit a group, in which order they are tried, and the machine each will be. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from corral.errors import Code, CorralError
from corral.inspect.facts import Facts, Traits
from corral.providers.cloud.model import Capacity, Offer
from corral.providers.containers import machine
from corral.providers.containers.container import devices
from corral.spec.sections.cloud import Cloud, Source

_LIKELY: Final = {
    Capacity.HIGH: 0,
    Capacity.SOME: 1,
    Capacity.UNKNOWN: 1,
    Capacity.LOW: 2,
    Capacity.NONE: 3,
}


def sources(provider: str, cloud: Cloud) -> tuple[Source, ...]:
    """The group's own source, then those to fall back on."""
    own = Source(
        provider=provider,  # pyright: ignore[reportArgumentType]
        type=cloud.type,
        regions=cloud.regions,
        count=cloud.count,
    )
    return (own, *cloud.fallback)


def candidates(
    group: str, provider: str, cloud: Cloud, offers: Mapping[str, Sequence[Offer]]
) -> tuple[Offer, ...]:
    """The offers that a group takes, in the order in which they are tried.

    Order of the file, or of price; inside of it, where capacity is likelier comes first. Offers
    without capacity stay, last of all: the list of capacity is an advice, and wrong now and then.
    Clouds that are not in ``offers`` could not be asked, and are passed over.

    Raises:
        CorralError: NOT_FOUND, a type or region is not on sale, with near ones named; NOT_GOOD,
            none is cheap enough.
    """
    ranked: list[tuple[int, Offer]] = []
    for place, source in enumerate(sources(provider, cloud)):
        if source.provider in offers:
            ranked += [(place, o) for o in _fitting(group, source, offers[source.provider])]
    most = cloud.price_at_most
    cheap = [(p, o) for p, o in ranked if most is None or o.price is None or o.price <= most]
    if not cheap:
        least = min((o.price for _, o in ranked if o.price is not None), default=0.0)
        raise CorralError(
            Code.NOT_GOOD,
            f"group {group}: nothing costs {most:.2f} $/h or less",
            hint=f"the cheapest is {least:.2f} $/h: raise price_at_most, or name another type",
        )
    by_price = cloud.prefer == "price"

    def order(entry: tuple[int, Offer]) -> tuple[float, ...]:
        place, offer = entry
        first = (offer.price if offer.price is not None else 1e9) if by_price else float(place)
        return (float(offer.capacity is Capacity.NONE), first, _LIKELY[offer.capacity])

    return tuple(offer for _, offer in sorted(cheap, key=order))


def _fitting(group: str, source: Source, on_sale: Sequence[Offer]) -> list[Offer]:
    named = [o for o in on_sale if o.type == source.type]
    if not named:
        raise _unknown(group, "type", source.type, source.provider, {o.type for o in on_sale})
    named = [o for o in named if o.gpus == source.count] if source.count else named
    if source.count is None:
        least = min(o.gpus for o in named)
        named = [o for o in named if o.gpus == least]
    if not named:
        message = f"group {group}: {source.provider} has no {source.type} with {source.count} GPUs"
        raise CorralError(Code.NOT_FOUND, message, hint="see: corral offers")
    regions = {o.region for o in named}
    for region in source.regions:
        if region not in regions:
            raise _unknown(group, "region", region, source.provider, regions)
    region_order = source.regions or tuple(dict.fromkeys(o.region for o in named))
    return [o for region in region_order for o in named if o.region == region]


def _unknown(group: str, what: str, word: str, provider: str, known: Iterable[str]) -> CorralError:
    names = sorted(name for name in known if name)
    near = difflib.get_close_matches(word, names, 4, 0.4) or names[:6]
    return CorralError(
        Code.NOT_FOUND,
        f"group {group}: {provider} has no {what} {word}",
        hint=f"did you mean {', '.join(near)}? all of them: corral offers -p {provider}"
        if near
        else "see: corral offers",
    )


def facts(node: str, offers: Sequence[Offer], address: str) -> Facts:
    """As the first offer states; the system is Ubuntu 22.04, as all three give by default.

    Nothing is decided by it: what the machine holds is planned once it answers (decision 0006).
    """
    first = offers[0] if offers else None
    cpus = (first.vcpus if first else 0) or 1
    return Facts(
        node=node,
        os_id="ubuntu",
        os_version="22.04",
        kernel="",
        cpus=cpus,
        sockets=1,
        cores_per_socket=cpus,
        threads_per_core=1,
        memory_mib=(first.memory_mib if first else 0) or 1024,
        cgroup="v2",
        systemd=True,
        address=address,
    )


def rehearsed(gpus: int, nodes: int, shared: tuple[str, ...]) -> Traits:
    """A container of this machine that stands for a rented one.

    Args:
        gpus: its GPU device files.
        nodes: containers of the entire cluster, which share this machine's memory.
        shared: folders that all of them share.
    """
    return Traits(
        memory_mib=machine.memory_share(machine.host_memory_mib(), nodes),
        gpu_devices=devices(gpus),
        shared=shared,
        own_clock=False,
    )
