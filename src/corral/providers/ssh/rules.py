"""Rules about machines that the user has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.spec.findings import Level
from corral.spec.view import Problem, Rule, View


def addresses_missing(view: View) -> Iterator[Problem]:
    """The user's machines without an address."""
    for group in view.where(lambda c: c.owned):
        if group.group.addresses is None:
            message = f"group {group.group.name} (provider {group.group.provider}) has no addresses"
            hint = f"add addresses: 192.168.1.[10-12], or {group.group.nodes} where DNS knows them"
            yield Problem(group.at(), message, hint)


RULES: Final = (
    Rule("addresses-missing", Level.ERROR, "A group of provider ssh or local without addresses: "
         "every node gets one in slurm.conf, so that name lookup cannot break it.",
         ("groups.addresses", "groups.provider"), addresses_missing),
)  # fmt: skip
