"""Use cases: what belongs to an entire account, firewall rules, ssh keys and file systems.

Rules and keys can only be replaced as a whole set, so each change reads, merges, asks, writes and
reads again (``providers.cloud.client.accounts``); no entry is ever dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, Final, cast

from corral.errors import Code, CorralError
from corral.providers.cloud.client.accounts import change, open_account
from corral.providers.cloud.model import (
    AccountKeysApi,
    CloudApi,
    FirewallApi,
    Volume,
    VolumesApi,
)
from corral.providers.cloud.rehearsal import rehearsal_of
from corral.spec.providers import RENTALS, clouds_with, either

Confirm = Callable[[Sequence[str], Sequence[str]], bool]
"""Asked with the set before and after, one line each."""

_RULE: Final = re.compile(r"(tcp|udp):(\d{1,5})(?:-(\d{1,5}))?:(\S+)|(icmp):(\S+)")
_KEY: Final = re.compile(r"(ssh-(ed25519|rsa)|ecdsa-sha2-\S+|sk-\S+) [A-Za-z0-9+/=]{20,}( [^\n]*)?")


@dataclass(frozen=True, slots=True)
class Changed:
    """A set that a cloud replaces as a whole, and what became of it.

    Attributes:
        entries: the set now, one line each.
        added: it was changed.
        agreed: False when the question was answered with no.
    """

    entries: tuple[str, ...]
    added: bool
    agreed: bool = True


def rule_of(text: str) -> dict[str, Any]:
    """A firewall rule from ``tcp:22:203.0.113.0/24``, ``udp:1-9:0.0.0.0/0`` or ``icmp:0.0.0.0/0``.

    Raises:
        CorralError: USAGE.
    """
    match = _RULE.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        source = str(IPv4Network(match[4] or match[6]))
        if match[5]:
            return {"protocol": "icmp", "source_network": source, "description": "corral"}
        first, last = int(match[2]), int(match[3] or match[2])
        if not 1 <= first <= last <= 65535:  # noqa: PLR2004
            raise ValueError(text)
    except ValueError as error:
        raise CorralError(
            Code.USAGE,
            f"{text} is not a firewall rule",
            hint="PROTOCOL:PORT[-PORT]:NETWORK, such as tcp:22:203.0.113.0/24; icmp:0.0.0.0/0",
        ) from error
    return {
        "protocol": match[1],
        "port_range": [first, last],
        "source_network": source,
        "description": "corral",
    }


def rule_line(rule: dict[str, Any]) -> str:
    """A rule as people write it."""
    ports = rule.get("port_range")
    middle = f":{ports[0]}-{ports[1]}" if ports and ports[0] != ports[1] else ""
    middle = middle or (f":{ports[0]}" if ports else "")
    description = f"  ({rule['description']})" if rule.get("description") else ""
    return f"{rule['protocol']}{middle}:{rule.get('source_network', '')}{description}"


async def firewall(
    allow: Sequence[str], confirm: Confirm, cluster: str = "", provider: str = ""
) -> Changed:
    """Show the inbound rules of the entire account, and add to them.

    Args:
        allow: rules to add (``rule_of``); none: only show.
        confirm: asked before anything is written.
        cluster: ask the simulated cloud of this rehearsed cluster.
        provider: the cloud; "" where only one has such rules.

    Raises:
        CorralError: USAGE; STALE_PLAN, somebody changed them meanwhile; what the cloud reports.
    """
    added = [rule_of(text) for text in allow]
    api = cast("FirewallApi", _open(_having("firewall", provider), cluster))
    try:
        before = await api.firewall_rules()

        def asked(old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> bool:
            return confirm([rule_line(r) for r in old], [rule_line(r) for r in new])

        agreed = await change(
            api.firewall_rules, api.set_firewall_rules, added, asked, same=_same_rule
        )
        after = await api.firewall_rules()
        return Changed(tuple(map(rule_line, after)), len(after) > len(before), agreed)
    finally:
        await api.close()


def _same_rule(rule: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether both allow the same; descriptions do not count."""
    return all(rule.get(k) == other.get(k) for k in ("protocol", "port_range", "source_network"))


async def account_keys(
    add: Sequence[str], confirm: Confirm, cluster: str = "", provider: str = ""
) -> Changed:
    """Show the ssh keys of the entire account, and add to them.

    Args:
        add: public keys, one line each; none: only show.
        confirm: asked before anything is written.
        cluster: ask the simulated cloud of this rehearsed cluster.
        provider: the cloud; "" where only one has such keys.

    Raises:
        CorralError: as ``firewall``.
    """
    for key in add:
        if not _KEY.fullmatch(key.strip()):
            raise CorralError(
                Code.USAGE,
                "what is to be added is not a public ssh key",
                hint="a line such as: ssh-ed25519 AAAA... you@desk",
            )
    api = cast("AccountKeysApi", _open(_having("account_keys", provider), cluster))
    try:
        before = await api.ssh_keys()
        keys = [key.strip() for key in add]
        agreed = await change(api.ssh_keys, api.set_ssh_keys, keys, confirm, same=_same_key)
        after = await api.ssh_keys()
        return Changed(after, len(after) > len(before), agreed)
    finally:
        await api.close()


def _same_key(key: str, other: str) -> bool:
    """By type and blob: comments differ."""
    return key.split()[:2] == other.split()[:2]


async def make_volume(
    provider: str, name: str, region: str, gib: int = 100, cluster: str = ""
) -> tuple[Volume, bool]:
    """A file system of the account, made unless there is one of that name in that region.

    Args:
        provider: a cloud whose ``volumes`` is set in ``provider.toml``.
        name: its name.
        region: region or data center.
        gib: its size, where the cloud asks.
        cluster: ask the simulated cloud of this rehearsed cluster.

    Returns:
        it, and whether it was made now.

    Raises:
        CorralError: USAGE, the cloud makes none; what the cloud reports.
    """
    if not RENTALS[provider].volumes:
        raise CorralError(
            Code.USAGE,
            f"corral makes no file systems at {provider}",
            hint=f"it does at {either(clouds_with('volumes'))}; elsewhere make one on the "
            "provider's page",
        )
    api = cast("VolumesApi", _open(provider, cluster))
    try:
        for volume in await api.volumes():
            if (volume.name, volume.region) == (name, region):
                return volume, False
        try:
            return await api.make_volume(name, region, gib), True
        except CorralError as error:
            if getattr(error, "unsure", False):
                for volume in await api.volumes():
                    if (volume.name, volume.region) == (name, region):
                        return volume, True
            raise
    finally:
        await api.close()


def _having(field: str, provider: str) -> str:
    """The cloud whose account has such a set: the given one, or the only one."""
    names = clouds_with(field)
    if provider in names:
        return provider
    if not provider and len(names) == 1:
        return names[0]
    raise CorralError(
        Code.USAGE,
        f"the account of {provider} has no such set" if provider else "no provider given",
        hint=f"-p {either(names)}",
    )


def _open(provider: str, cluster: str) -> CloudApi:
    return open_account(provider, rehearsal_of(cluster) if cluster else None)
