"""RunPod, REST v2 (document of 2026-08-18): pods and Instant Clusters.

A pod is a container: no systemd, no TUN, no UDP. Its sshd is reached at ``ssh.direct``; the proxy
takes neither files nor forwarding. Capacity has no separate error code: it is a 400 that is not a
fault of the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, cast

import httpx

from corral.hosts.quote import NOTHING, Script, filled, sh
from corral.inspect.mesh import FABRIC
from corral.providers.cloud.calls import nothing
from corral.providers.cloud.client.http import Caller, Dialect
from corral.providers.cloud.client.rate_limit import Pacer
from corral.providers.cloud.client.secrets import PLACES
from corral.providers.cloud.errors import rows_of
from corral.providers.cloud.model import (
    CloudTraits,
    Extra,
    Instance,
    LaunchRequest,
    Offer,
    Volume,
)
from corral.providers.cloud.response import amount, identity, records
from corral.providers.runpod import calls
from corral.providers.runpod.offers import offers_of

IMAGE: Final = "runpod/pytorch:2.8.0-py3.11-cuda12.8.1-cudnn-devel-ubuntu22.04"
PORTS: Final = ("22/tcp",)
_PROGRAMS: Final = "../providers/runpod/programs"
"""From the folder of all programs."""


class RunPod:
    """One account; arguments as ``LambdaCloud``."""

    name: ClassVar[str] = calls.NAME
    traits: ClassVar[CloudTraits] = CloudTraits(
        dead_man="a loop in the pod removes it by the pod's own key (runpodctl)",
        limits="per minute, hour and day, as its answers report",
        notes=(
            "a pod has no systemd, no TUN and no UDP: it is in a separate island",
            "a pod's disk is gone with it",
        ),
    )

    def __init__(
        self,
        url: str,
        key: str,
        pacer: Pacer,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        dialect = Dialect(PLACES[self.name], rows_of("runpod"), _words_of)
        self.caller = Caller(dialect, url, key, pacer, transport)

    async def check(self) -> None:
        """Read the account's ssh keys: the cheapest call that a bad key is refused."""
        await self.ssh_keys()

    async def offers(self) -> tuple[Offer, ...]:
        """GPU types by data center, in the secure cloud and for single pods."""
        return await self._offers("POD")

    async def cluster_offers(self) -> tuple[Offer, ...]:
        """The same for Instant Clusters; prices are those of one pod."""
        return await self._offers("CLUSTER")

    async def _offers(self, product: str) -> tuple[Offer, ...]:
        query = {"include": "AVAILABILITY", "product": product, "cloud": "SECURE"}
        return await self.caller.call(
            "GET",
            "/v2/catalog/gpus",
            lambda data: tuple(o for gpu in records(data["gpus"]) for o in offers_of(gpu)),
            query=query,
        )

    async def instances(self) -> tuple[Instance, ...]:
        """All pods, also those of clusters: without the flag these cost money unseen (F56)."""
        return await self.caller.run(calls.instances())

    async def launch(self, request: LaunchRequest) -> str:
        """Create one pod in the secure cloud."""
        body: dict[str, Any] = {
            "name": request.label.name,
            "cloud": "SECURE",
            "gpu": {"id": request.offer.type, "count": request.offer.gpus},
            **_container(request, _timer(request.dead_man_h)),
        }
        return await self.caller.call(
            "POST", "/v2/pods", _id, body=body, again=False, limits=("launch", "calls")
        )

    async def launch_cluster(self, request: LaunchRequest, nodes: int) -> str:
        """Create an Instant Cluster of pods with its own fabric; all or nothing.

        Returns:
            id of the cluster; ``instances`` shows its pods with ``group`` set to it.
        """
        body: dict[str, Any] = {
            "name": request.label.name,
            "type": "TRAINING",
            "compute": {
                "gpuTypeId": request.offer.type,
                "gpuCountPerPod": request.offer.gpus,
                "podCount": nodes,
            },
            # No dead-man timer: a member cannot be removed alone (409).
            **_container(request, filled(f"{_PROGRAMS}/cluster-address.sh", at=FABRIC)),
        }
        return await self.caller.call(
            "POST", "/v2/clusters", _id, body=body, again=False, limits=("launch", "calls")
        )

    async def terminate(self, instances: Sequence[Instance]) -> None:
        """Delete pods; to delete a member of a cluster deletes the cluster."""
        await self.caller.run(calls.terminate(instances))

    async def stop(self, instance: Instance) -> None:
        """Stop a pod: its GPU is released, and perhaps never available again."""
        path = f"/v2/pods/{instance.id}/action"
        await self.caller.call("POST", path, nothing, body={"action": "stop"}, again=True)

    async def extras(self, cluster: str) -> tuple[Extra, ...]:
        """Instant Clusters that carry the label, with or without pods."""
        return tuple(
            Extra(self.name, "cluster", group, label.name, size)
            for group, (label, size) in (await self.caller.run(calls.clusters())).items()
            if label.cluster == cluster
        )

    async def remove(self, extra: Extra) -> None:
        """Delete an Instant Cluster."""
        await self.caller.make(calls.delete(f"/v2/clusters/{extra.id}"))

    async def volumes(self) -> tuple[Volume, ...]:
        """Network volumes."""
        return await self.caller.call(
            "GET",
            "/v2/network-volumes",
            lambda data: tuple(map(_volume, records(data["networkVolumes"]))),
        )

    async def make_volume(self, name: str, region: str, gib: int) -> Volume:
        """Make a network volume in a data center."""
        body = {"name": name, "dataCenter": region, "size": gib, "type": "STANDARD"}
        return await self.caller.call(
            "POST", "/v2/network-volumes", _volume, body=body, again=False
        )

    async def ssh_keys(self) -> tuple[str, ...]:
        """The ssh keys of the entire account."""
        return await self.caller.call("GET", "/v2/account/ssh-keys", _keys)

    async def set_ssh_keys(self, keys: Sequence[str]) -> None:
        """Replace the ssh keys of the entire account: only by ``client.accounts.change``."""
        body = {"keys": [*keys]}
        await self.caller.call("PUT", "/v2/account/ssh-keys", nothing, body=body, again=True)

    async def close(self) -> None:
        """Give up the connection."""
        await self.caller.close()


def _id(data: Any) -> str:
    return identity(data["id"])


def _keys(data: Any) -> tuple[str, ...]:
    keys = data["keys"]
    if not isinstance(keys, list):
        raise TypeError("keys is not a list")
    return tuple(map(str, cast("list[Any]", keys)))


def _container(request: LaunchRequest, first: Script) -> dict[str, Any]:
    """What a pod runs. The key goes by the environment: the account's own keys stay untouched."""
    fields: dict[str, Any] = {
        "image": request.image or IMAGE,
        "disk": request.disk_gib,
        "ports": [*PORTS],
        "env": {"PUBLIC_KEY": request.public_key, "CORRAL_BOOT": request.boot},
    }
    if request.offer.region:
        fields["dataCenterIds"] = [request.offer.region]
    if request.volumes:
        fields["mounts"] = {"network": [{"volumeId": request.volumes[0], "path": "/workspace"}]}
    before = sh("{first} ", first=first) if first else NOTHING
    script = filled(f"{_PROGRAMS}/start.sh", first=before)
    fields["args"] = sh("bash -c {script}", script=str(script))
    return fields


def _timer(hours: int) -> Script:
    return filled(f"{_PROGRAMS}/dead-man.sh", minutes=hours * 60) if hours else NOTHING


def _volume(data: Mapping[str, Any]) -> Volume:
    where = str(data["dataCenter"])
    return Volume(calls.NAME, str(data["id"]), str(data["name"]), where, amount(data["size"]))


def _words_of(data: Any) -> tuple[str, str]:
    """The cloud's own code and text from the JSON of an error."""
    more = "; ".join(str(error) for error in data.get("errors", ()))
    return str(data["title"]), f"{data['detail']} {more}".strip()
