"""Paperspace (DigitalOcean), API v1 (types of 2026-02-08).

No ssh-key calls: a startup script of the cluster's own lets the key in. Compute costs nothing while
a machine is off; its disk and address cost until it is deleted.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

import httpx

from corral.errors import Code
from corral.providers.cloud.calls import nothing
from corral.providers.cloud.client.http import Caller, Dialect
from corral.providers.cloud.client.rate_limit import Pacer
from corral.providers.cloud.client.secrets import PLACES
from corral.providers.cloud.errors import CloudError, Reason, rows_of
from corral.providers.cloud.model import (
    PREFIX,
    CloudTraits,
    Extra,
    Instance,
    LaunchRequest,
    Offer,
    Volume,
)
from corral.providers.cloud.response import amount, identity, records
from corral.providers.paperspace import calls
from corral.providers.paperspace.offers import offer_of

T = TypeVar("T")

TEMPLATE: Final = "Ubuntu 22.04"
REGIONS: Final = ("ny2", "ca1", "ams1")


class Paperspace:
    """One team; arguments as ``LambdaCloud``."""

    name: ClassVar[str] = calls.NAME
    traits: ClassVar[CloudTraits] = CloudTraits(
        dead_man="Paperspace itself switches the machine off (autoShutdown); its disk and address "
        "cost money until it is deleted",
        limits="not documented; Corral makes two calls a second",
        notes=("its API states no price before launch: what is shown then is an estimate",),
    )

    def __init__(
        self,
        url: str,
        key: str,
        pacer: Pacer,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        dialect = Dialect(PLACES[self.name], rows_of("paperspace"), _words_of)
        self.caller = Caller(dialect, url, key, pacer, transport)
        self._templates: list[_Template] = []
        self._scripts: dict[str, str] = {}
        self._lock = asyncio.Lock()

    async def check(self) -> None:
        """Ask for the account's standing.

        Raises:
            CloudError: no payment method, or the account is locked.
        """
        good, messages = await self.caller.call("GET", "/billing/account-standing", _account_state)
        if good:
            return
        raise CloudError(
            Code.PROVIDER_FAILED,
            "Paperspace does not rent to this account",
            tail="; ".join(messages)[:500],
            hint="check payment method and standing on its billing page",
            reason=Reason.MONEY,
        )

    async def offers(self) -> tuple[Offer, ...]:
        """Machine types that a template of the image family names, in every region."""
        available: dict[str, bool] = {}
        for template in await self._all("/os-templates", _template):
            for name, free in template.types.items():
                available[name] = available.get(name, False) or free
        return tuple(offer_of(n, free, r) for n, free in available.items() for r in REGIONS)

    async def instances(self) -> tuple[Instance, ...]:
        """All machines of the team."""
        return await self.caller.pages(calls.instances())

    async def launch(self, request: LaunchRequest) -> str:
        """Create and start one machine."""
        template = await self._template(request)
        body: dict[str, Any] = {
            "name": request.label.name,
            "machineType": request.offer.type,
            "templateId": template,
            "region": request.offer.region,
            "diskSize": request.disk_gib,
            "publicIpType": "dynamic",
            "startOnCreate": True,
            # Its default is true: a password of the machine would travel by e-mail.
            "emailPassword": False,
            "startupScriptId": await self._startup(request),
        }
        if request.dead_man_h:
            body |= {
                "autoShutdownEnabled": True,
                "autoShutdownTimeout": request.dead_man_h,
                "autoShutdownForce": True,
            }
        return await self.caller.call(
            "POST",
            "/machines",
            lambda data: identity(data["data"]["id"]),
            body=body,
            again=False,
            limits=("launch", "calls"),
        )

    async def terminate(self, instances: Sequence[Instance]) -> None:
        """Delete them; a stopped one would go on to cost its disk and address."""
        await self.caller.run(calls.terminate(instances))

    async def stop(self, instance: Instance) -> None:
        """Switch it off; its disk stays and costs."""
        await self.caller.call("PATCH", f"/machines/{instance.id}/stop", nothing, again=True)

    async def extras(self, cluster: str) -> tuple[Extra, ...]:
        """The cluster's startup scripts."""
        pattern = re.compile(rf"{PREFIX}{re.escape(cluster)}-boot-[0-9a-f]{{12}}")
        return tuple(
            Extra(self.name, "startup script", script_id, name)
            for script_id, name in await self._all("/startup-scripts", _script)
            if pattern.fullmatch(name)
        )

    async def remove(self, extra: Extra) -> None:
        """Delete a startup script."""
        await self.caller.make(calls.delete(f"/startup-scripts/{extra.id}"))

    async def volumes(self) -> tuple[Volume, ...]:
        """Shared drives."""
        return tuple(await self._all("/shared-drives", _volume))

    async def close(self) -> None:
        """Give up the connection."""
        await self.caller.close()

    async def _template(self, request: LaunchRequest) -> str:
        """Id of the template; ids in documents are hints, so it is looked up by its name."""
        family = request.image or TEMPLATE
        async with self._lock:
            self._templates = self._templates or await self._all("/os-templates", _template)
        for template in self._templates:
            if request.offer.type in template.types and family in template.names:
                return template.id
        raise CloudError(
            Code.PROVIDER_FAILED,
            f"Paperspace has no template {family} for {request.offer.type}",
            hint="name one in the group's cloud.image",
            reason=Reason.REQUEST,
        )

    async def _startup(self, request: LaunchRequest) -> str:
        async with self._lock:
            # Of many launches at once only the first asks.
            if request.boot not in self._scripts:
                self._scripts[request.boot] = await self._script(request)
            return self._scripts[request.boot]

    async def _script(self, request: LaunchRequest) -> str:
        """Id of the startup script with this text, made when there is none.

        Its name holds the text's digest, so a call that took effect unseen is found by the list.
        """
        digest = hashlib.sha256(request.boot.encode()).hexdigest()[:12]
        name = f"{PREFIX}{request.label.cluster}-boot-{digest}"

        async def known() -> str | None:
            scripts = await self._all("/startup-scripts", _script)
            return next((script for script, its_name in scripts if its_name == name), None)

        async def made() -> str:
            body = {"name": name, "script": request.boot, "isRunOnce": True}
            return await self.caller.call(
                "POST", "/startup-scripts", lambda data: identity(data["id"]), body=body
            )

        return await self.caller.find_or_make(known, made)

    async def _all(self, path: str, read: Callable[[Mapping[str, Any]], T]) -> list[T]:
        """All pages of a list."""
        return await self.caller.pages(calls.listed(path, read))


@dataclass(frozen=True, slots=True)
class _Template:
    """An image: its names, and which types it can have, with those that are available now."""

    id: str
    names: frozenset[str]
    types: Mapping[str, bool]


def _template(data: Mapping[str, Any]) -> _Template:
    return _Template(
        identity(data["id"]),
        frozenset(str(data[name]) for name in ("id", "name", "operatingSystemLabel")),
        {
            str(kind["machineTypeLabel"]): kind["isAvailable"] is True
            for kind in records(data["availableMachineTypes"])
        },
    )


def _account_state(data: Any) -> tuple[bool, list[str]]:
    good = data["hasPaymentMethod"] and data["isInGoodStanding"] and not data["isAdminLocked"]
    return bool(good), [str(text) for text in data["messages"]]


def _script(data: Mapping[str, Any]) -> tuple[str, str]:
    """Id and name of a startup script; no name where it was deleted."""
    return identity(data["id"]), "" if data.get("dtDeleted") else str(data["name"])


def _volume(data: Mapping[str, Any]) -> Volume:
    where = str(data["region"])
    return Volume(calls.NAME, identity(data["id"]), str(data["name"]), where, amount(data["size"]))


def _words_of(data: Any) -> tuple[str, str]:
    """The cloud's own code and text from the JSON of an error."""
    return str(data["code"]), str(data["message"])
