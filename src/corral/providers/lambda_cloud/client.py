"""Lambda Cloud, API 1.10.0 (document of 2026-08-22).

One instance a call; it has no time limit and no way to end itself: an instance that is switched
off from inside goes on to cost money until it is terminated.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
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
from corral.providers.cloud.response import amount, identity, record, records
from corral.providers.lambda_cloud import calls
from corral.providers.lambda_cloud.offers import offers_of

T = TypeVar("T")

TAG: Final = "corral-cluster"


class LambdaCloud:
    """One account.

    Args:
        url: address of the API.
        key: the API key.
        pacer: whose turn it is.
        transport: another way than the network, in tests.
    """

    name: ClassVar[str] = calls.NAME
    traits: ClassVar[CloudTraits] = CloudTraits(
        no_dead_man="a Lambda instance cannot end itself: switched off from inside it goes on to "
        "cost money; only `corral reap` ends what a lost controller leaves",
        limits="one call a second, one launch in 12 seconds",
    )

    def __init__(
        self,
        url: str,
        key: str,
        pacer: Pacer,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        dialect = Dialect(PLACES[self.name], rows_of("lambda_cloud"), _words_of)
        self.caller = Caller(dialect, url, key, pacer, transport)
        self._registered: dict[str, str] = {}
        self._lock = asyncio.Lock()

    async def check(self) -> None:
        """One list of regions: free, and refused with a bad key."""
        await self._data("GET", "/api/v1/regions", _names)

    async def offers(self) -> tuple[Offer, ...]:
        """Every type in every region; capacity is an advice (3 of 11 launches were refused)."""
        regions = await self._data("GET", "/api/v1/regions", _names)
        return await self._data(
            "GET",
            "/api/v1/instance-types",
            lambda data: tuple(
                o for entry in record(data).values() for o in offers_of(entry, regions)
            ),
        )

    async def instances(self) -> tuple[Instance, ...]:
        """All instances of the account."""
        return await self.caller.run(calls.instances())

    async def launch(self, request: LaunchRequest) -> str:
        """Launch one; the key is registered with the account first."""
        async with self._lock:
            # Of many launches at once only the first asks: a call a second is all there is.
            key = self._registered.get(request.public_key) or await self._key(request)
            self._registered[request.public_key] = key
        body: dict[str, Any] = {
            "region_name": request.offer.region,
            "instance_type_name": request.offer.type,
            "ssh_key_names": [key],
            "name": request.label.name,
            "hostname": request.label.node[:63],
            "tags": _tags(request),
        }
        if request.boot:
            body["user_data"] = request.boot
        if request.volumes:
            body["file_system_names"] = list(request.volumes)
        if request.image:
            body["image"] = {"family": request.image}
        path = "/api/v1/instance-operations/launch"
        return await self._data(
            "POST", path, _launched_id, body, again=False, limits=("launch", "calls")
        )

    async def terminate(self, instances: Sequence[Instance]) -> None:
        """End all in one call; where one is gone already, one by one."""
        await self.caller.run(calls.terminate(instances))

    async def stop(self, instance: Instance) -> None:
        """Raise: Lambda can only terminate.

        Raises:
            CloudError: always.
        """
        raise CloudError(
            Code.PROVIDER_FAILED,
            "Lambda Cloud cannot stop an instance, only terminate it",
            hint="corral down, or corral reap",
            reason=Reason.REQUEST,
        )

    async def extras(self, cluster: str) -> tuple[Extra, ...]:
        """The cluster's ssh keys."""
        pattern = re.compile(rf"{PREFIX}{re.escape(cluster)}-key-[0-9a-f]{{12}}")
        return await self._data(
            "GET",
            "/api/v1/ssh-keys",
            lambda data: tuple(
                Extra(self.name, "ssh key", identity(k["id"]), str(k["name"]))
                for k in records(data)
                if pattern.fullmatch(str(k["name"]))
            ),
        )

    async def remove(self, extra: Extra) -> None:
        """Remove an ssh key from the account."""
        try:
            await self._data("DELETE", f"/api/v1/ssh-keys/{extra.id}", nothing)
        except CloudError as error:
            if error.reason is not Reason.MISSING:
                raise

    async def volumes(self) -> tuple[Volume, ...]:
        """File systems; their size is what is used."""
        return await self._data(
            "GET", "/api/v1/file-systems", lambda data: tuple(map(_volume, records(data)))
        )

    async def make_volume(self, name: str, region: str, gib: int) -> Volume:
        """Make a file system; it grows as needed, so ``gib`` is not asked for."""
        body = {"name": name, "region": region}
        return await self._data("POST", "/api/v1/filesystems", _volume, body, again=False)

    async def firewall_rules(self) -> tuple[dict[str, Any], ...]:
        """The inbound rules of the entire account."""
        return await self._data(
            "GET",
            "/api/v1/firewall-rules",
            lambda data: tuple({**rule, "protocol": rule["protocol"]} for rule in records(data)),
        )

    async def set_firewall_rules(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """Replace the rules of the entire account: only by ``client.accounts.change``."""
        body = {"data": [dict(rule) for rule in rules]}
        await self._data("PUT", "/api/v1/firewall-rules", nothing, body, again=True)

    async def close(self) -> None:
        """Give up the connection."""
        await self.caller.close()

    async def _key(self, request: LaunchRequest) -> str:
        """Name of the account's ssh key with this blob; it is added when there is none.

        Compared by type and blob: comments differ. Two processes that add it at once make a
        duplicate name, which the next list shows.
        """
        blob = request.public_key.split()[:2]
        name = f"{PREFIX}{request.label.cluster}-key-{_digest(blob)}"
        for _ in range(3):
            names = await self._data(
                "GET",
                "/api/v1/ssh-keys",
                lambda data: [
                    str(known["name"])
                    for known in records(data)
                    if str(known["public_key"]).split()[:2] == blob
                ],
            )
            if names:
                return names[0]
            try:
                body = {"name": name, "public_key": " ".join(blob)}
                return await self._data(
                    "POST", "/api/v1/ssh-keys", lambda data: str(data["name"]), body, again=False
                )
            except CloudError as error:
                # A name that is taken: another process was first, and the next list shows it.
                taken = error.reason is Reason.REQUEST and "exist" in error.tail
                if not (taken or error.reason is Reason.BUSY or error.unsure):
                    raise
        raise CloudError(
            Code.PROVIDER_FAILED,
            f"Lambda Cloud does not take the ssh key {name}",
            hint="run the same command again",
            reason=Reason.BUSY,
        )

    async def _data(
        self,
        method: str,
        path: str,
        read: Callable[[Any], T],
        body: Mapping[str, Any] | None = None,
        *,
        again: bool | None = None,
        limits: Sequence[str] = ("calls",),
    ) -> T:
        """A call whose result is in the response's ``data``."""
        return await self.caller.call(
            method,
            path,
            lambda response: read(response["data"]),
            body=body,
            again=again,
            limits=limits,
        )


def _names(data: Any) -> list[str]:
    return [str(entry["name"]) for entry in records(data)]


def _launched_id(data: Any) -> str:
    (only,) = data["instance_ids"]
    return identity(only)


def _volume(data: Mapping[str, Any]) -> Volume:
    return Volume(
        calls.NAME,
        str(data["id"]),
        str(data["name"]),
        str(data["region"]["name"]),
        amount(data["bytes_used"]) / 2**30 if "bytes_used" in data else None,
        str(data["mount_point"]),
    )


def _tags(request: LaunchRequest) -> list[dict[str, str]]:
    tags = {TAG: request.label.cluster}
    if request.launched:
        tags[calls.LAUNCHED] = f"{request.launched:.0f}"
    return [{"key": key, "value": value} for key, value in tags.items()]


def _digest(blob: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(blob).encode()).hexdigest()[:12]


def _words_of(data: Any) -> tuple[str, str]:
    """The cloud's own code and text from the JSON of an error."""
    error = data["error"]
    return str(error["code"]), str(error["message"])
