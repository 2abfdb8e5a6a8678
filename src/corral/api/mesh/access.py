"""The part of a tailnet's access policy that a cluster needs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from corral.errors import Code, CorralError

OWNER = "autogroup:admin"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the policy must contain.

    Attributes:
        tag: ``tag:NAME``; its owners are under ``tagOwners``.
        owners: who that is.
        rule: an entry of ``acls``: machines with the tag reach each other by all ports, which
            Slurm, srun, NCCL and gloo choose as they please (F18).
    """

    tag: str
    rule: Mapping[str, Any]
    owners: tuple[str, ...] = (OWNER,)

    @property
    def text(self) -> str:
        """The part as JSON, to be put into a policy by hand."""
        part = {"tagOwners": {self.tag: list(self.owners)}, "acls": [dict(self.rule)]}
        return json.dumps(part, indent=2)


def needed(tag: str, *, tailscale: bool = True) -> Wanted:
    """The part that a cluster with this tag needs.

    headscale knows no ``autogroup:admin`` (0.29.3: "invalid owner format"); a key made by its API
    carries the tag whoever owns it.
    """
    rule = {"action": "accept", "src": [tag], "dst": [f"{tag}:*"]}
    return Wanted(tag, rule, (OWNER,) if tailscale else ())


def merged(policy: str, part: Wanted) -> str | None:
    """The policy with what it lacks; None when it lacks nothing.

    Raises:
        CorralError: NOT_GOOD, it is not plain JSON: comments would be lost.
    """
    try:
        parsed: Any = json.loads(policy)
    except ValueError as error:
        raise CorralError(
            Code.NOT_GOOD,
            "the policy has comments or trailing commas, which would be lost",
            tail=part.text,
            hint="add this part by hand",
        ) from error
    if not isinstance(parsed, dict):
        raise CorralError(Code.NOT_GOOD, "the policy is not a JSON object", hint="look at it there")
    fields = cast("dict[str, Any]", parsed)
    owners = cast("dict[str, Any]", fields.get("tagOwners") or {})
    rules = cast("list[Any]", fields.get("acls") or [])
    if part.tag in owners and dict(part.rule) in rules:
        return None
    fields["tagOwners"] = {**owners, part.tag: owners.get(part.tag, list(part.owners))}
    fields["acls"] = rules if dict(part.rule) in rules else [*rules, dict(part.rule)]
    return json.dumps(fields, indent=2)
