"""RunPod, REST v2 (document of 2026-08-18): pods and Instant Clusters.

A pod is a container: no systemd, no TUN, no UDP. Its sshd is reached at ``ssh.direct``; the proxy
takes neither files nor forwarding. Capacity has no error code of its own: a 400 that is no fault of
the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, ClassVar, Final

import httpx

from corral.hosts.quote import sh
from corral.providers.cloud.errors import CloudError, Reason, Row
from corral.providers.cloud.http import Caller, Manner, part, records, understood
from corral.providers.cloud.model import (
    Capacity,
    Extra,
    Instance,
    Offer,
    State,
    Told,
    Volume,
    Wanted,
    label_of,
)
from corral.providers.cloud.pacing import Pacer
from corral.providers.cloud.secrets import PLACES

GAPS: Final = MappingProxyType({"calls": 0.25, "launch": 0.5})
"""RunPod gives its limits in headers only; this stays well below what was seen."""

IMAGE: Final = "runpod/pytorch:2.8.0-py3.11-cuda12.8.1-cudnn-devel-ubuntu22.04"
PORTS: Final = ("22/tcp",)
MEBI_OF_GIB: Final = 1024

ROWS: Final = (
    Row(400, "instances available", Reason.CAPACITY, "no capacity for this GPU now",
        "name more types or data centers, or wait"),
    Row(400, "no longer any", Reason.CAPACITY, "no capacity for this GPU now",
        "name more types or data centers, or wait"),
    Row(400, "apacity", Reason.CAPACITY, "no capacity for this GPU now",
        "name more types or data centers, or wait"),
    Row(402, "", Reason.MONEY, "the account has no balance left", "add credit on its billing page"),
    Row(403, "", Reason.FORBIDDEN, "the API key may not do this",
        "give the key the right to read and write pods, or make another"),
    Row(409, "", Reason.BUSY, "it cannot be done in its state, or it is a member of a cluster",
        "wait until it has settled; a cluster's pods end with their cluster"),
)  # fmt: skip

STATES: Final[Mapping[str, State]] = MappingProxyType(
    {
        "PROVISIONING": State.STARTING,
        "STARTING": State.STARTING,
        "RUNNING": State.RUNNING,
        "EXITED": State.STOPPED,
        "ERROR": State.BROKEN,
        "TERMINATED": State.GONE,
    }
)
LEVELS: Final[Mapping[str, Capacity]] = MappingProxyType(
    {
        "NONE": Capacity.NONE,
        "LOW": Capacity.LOW,
        "MEDIUM": Capacity.SOME,
        "HIGH": Capacity.HIGH,
    }
)


def _words(data: Any) -> tuple[str, str]:
    more = "; ".join(str(one) for one in data.get("errors", ()))
    return str(data["title"]), f"{data['detail']} {more}".strip()


class RunPod:
    """One account; arguments as ``LambdaCloud``."""

    name: ClassVar[str] = "runpod"
    told: ClassVar[Told] = Told(
        dead_man="a loop in the pod removes it by the pod's own key (runpodctl)",
        limits="per minute, hour and day, as its answers say",
        notes=(
            "a pod has no systemd, no TUN and no UDP: it is a node of an island of its own",
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
        self._place = PLACES[self.name]
        self.caller = Caller(Manner(self._place, ROWS, _words), url, key, pacer, transport)

    async def check(self) -> None:
        """Read the account's ssh keys: the cheapest call that a bad key is refused."""
        await self.caller.call("GET", "/v2/account/ssh-keys")

    async def offers(self) -> tuple[Offer, ...]:
        """GPU types by data center, one GPU each, in the secure cloud and for single pods."""
        query = {"include": "AVAILABILITY", "product": "POD", "cloud": "SECURE"}
        data = await self.caller.call("GET", "/v2/catalog/gpus", query=query)
        with understood(self._place, "GPU types"):
            return tuple(o for one in records(data["gpus"]) for o in _offers(one))

    async def instances(self) -> tuple[Instance, ...]:
        """All pods, also those of clusters: without the flag these cost money unseen (F56)."""
        query = {"includeClusterPods": "true"}
        data = await self.caller.call("GET", "/v2/pods", query=query)
        with understood(self._place, "pods"):
            return tuple(_instance(one) for one in records(data["pods"]))

    async def launch(self, wanted: Wanted) -> str:
        """Create one pod in the secure cloud."""
        body: dict[str, Any] = {
            "name": wanted.label.name,
            "cloud": "SECURE",
            "gpu": {"id": wanted.offer.type, "count": wanted.offer.gpus},
            **_container(wanted),
        }
        if wanted.volumes:
            body["mounts"] = {"network": [{"volumeId": wanted.volumes[0], "path": "/workspace"}]}
        data = await self.caller.call(
            "POST", "/v2/pods", body=body, again=False, limits=("launch", "calls")
        )
        return self._id(data)

    async def launch_cluster(self, wanted: Wanted, nodes: int) -> str:
        """Create an Instant Cluster of pods with a fabric of its own; all or nothing.

        Returns:
            id of the cluster; ``instances`` shows its pods with ``group`` set to it.
        """
        body: dict[str, Any] = {
            "name": wanted.label.name,
            "type": "TRAINING",
            "compute": {
                "gpuTypeId": wanted.offer.type,
                "gpuCountPerPod": wanted.offer.gpus,
                "podCount": nodes,
            },
            **_container(wanted),
        }
        data = await self.caller.call(
            "POST", "/v2/clusters", body=body, again=False, limits=("launch", "calls")
        )
        return self._id(data)

    def _id(self, data: Any) -> str:
        with understood(self._place, "a new pod"):
            return str(data["id"])

    async def terminate(self, instances: Sequence[Instance]) -> None:
        """Delete pods; one of a cluster goes with its whole cluster, the only way there is."""
        for group in dict.fromkeys(one.group for one in instances if one.group):
            await self._delete(f"/v2/clusters/{group}")
        for one in instances:
            # After deleteCluster two pods were left and cost money for hours (F56).
            try:
                await self._delete(f"/v2/pods/{one.id}")
            except CloudError as error:
                if not (one.group and error.reason is Reason.BUSY):
                    raise

    async def _delete(self, path: str) -> None:
        try:
            await self.caller.call("DELETE", path)
        except CloudError as error:
            if error.reason is not Reason.MISSING:
                raise

    async def stop(self, instance: Instance) -> None:
        """Stop a pod: its GPU is given back, and perhaps never to be had again."""
        path = f"/v2/pods/{instance.id}/action"
        await self.caller.call("POST", path, body={"action": "stop"}, again=True)

    async def extras(self, cluster: str) -> tuple[Extra, ...]:
        """Instant Clusters that carry the label, with or without pods."""
        data = await self.caller.call("GET", "/v2/clusters")
        with understood(self._place, "clusters"):
            return tuple(
                Extra(self.name, "cluster", str(one["id"]), str(one["name"]))
                for one in records(data["clusters"])
                if label_of(str(one["name"]), cluster)
            )

    async def remove(self, extra: Extra) -> None:
        """Delete an Instant Cluster."""
        await self._delete(f"/v2/clusters/{extra.id}")

    async def volumes(self) -> tuple[Volume, ...]:
        """Network volumes."""
        data = await self.caller.call("GET", "/v2/network-volumes")
        with understood(self._place, "network volumes"):
            return tuple(_volume(v) for v in records(data["networkVolumes"]))

    async def make_volume(self, name: str, region: str, gib: int) -> Volume:
        """Make a network volume in a data center."""
        body = {"name": name, "dataCenter": region, "size": gib, "type": "STANDARD"}
        data = await self.caller.call("POST", "/v2/network-volumes", body=body, again=False)
        with understood(self._place, "a new network volume"):
            return _volume(data)

    async def ssh_keys(self) -> tuple[str, ...]:
        """The ssh keys of the whole account."""
        data = await self.caller.call("GET", "/v2/account/ssh-keys")
        with understood(self._place, "ssh keys"):
            return tuple(str(key) for key in data["keys"])

    async def set_ssh_keys(self, keys: Sequence[str]) -> None:
        """Replace the ssh keys of the whole account: only by ``cloud.whole_sets.change``."""
        await self.caller.call("PUT", "/v2/account/ssh-keys", body={"keys": [*keys]}, again=True)

    async def close(self) -> None:
        """Give up the connection."""
        await self.caller.close()


def _container(wanted: Wanted) -> dict[str, Any]:
    """What a pod runs. The key goes by the environment: the account's own keys stay untouched."""
    found: dict[str, Any] = {
        "image": wanted.image or IMAGE,
        "disk": wanted.disk_gib,
        "ports": [*PORTS],
        "env": {"PUBLIC_KEY": wanted.public_key, "CORRAL_BOOT": wanted.boot},
    }
    if wanted.offer.region:
        found["dataCenterIds"] = [wanted.offer.region]
    script = sh(
        'if [ -n "$CORRAL_BOOT" ]; then printf %s "$CORRAL_BOOT" | sh; fi; {timer}exec /start.sh',
        timer=_timer(wanted.dead_man_h),
    )
    found["args"] = sh("bash -c {script}", script=str(script))
    return found


def _timer(hours: int) -> Any:
    """The dead-man timer: each pod holds a key that may do nothing but end that pod."""
    if not hours:
        return sh("")
    return sh(
        '(f=/run/corral-alive; touch $f; while [ -n "$(find $f -mmin -{minutes})" ]; '
        "do sleep 60; done; runpodctl remove pod $RUNPOD_POD_ID) & ",
        minutes=hours * 60,
    )


def _offers(one: Mapping[str, Any]) -> list[Offer]:
    most = int(one["maxCount"]["secure"])
    if not one["secure"] or most < 1:
        return []
    where = [(str(d["id"]), str(d["availability"])) for d in one.get("dataCenters", ())]
    where = where or [("", str(one.get("availability", "")))]
    counts = [n for n in (1, 2, 4, 8) if n <= most]
    return [
        Offer(
            "runpod",
            str(one["id"]),
            region,
            str(one["name"]),
            count,
            0,
            0,
            float(one["price"]["secure"]) * count,
            LEVELS.get(level, Capacity.UNKNOWN),
        )
        for region, level in where
        for count in counts
    ]


def _instance(pod: Mapping[str, Any]) -> Instance:
    direct = part(part(pod, "ssh"), "direct")
    cluster = part(pod, "cluster")
    status = str(pod["status"])
    name = str(pod["name"])
    return Instance(
        "runpod",
        str(pod["id"]),
        name,
        label_of(name),
        STATES.get(status, State.BROKEN),
        str(direct.get("host", "")),
        str(cluster.get("ip") or part(pod, "globalNetworking").get("ip") or ""),
        int(direct.get("port", 22)),
        type=str(part(pod, "gpu").get("id", "")),
        region=str(pod["dataCenterId"] or ""),
        price=float(pod["cost"]),
        created=datetime.fromisoformat(str(pod["createdAt"])).timestamp(),
        detail=status,
        group=str(cluster.get("id", "")),
    )


def _volume(data: Mapping[str, Any]) -> Volume:
    where = str(data["dataCenter"])
    return Volume("runpod", str(data["id"]), str(data["name"]), where, float(data["size"]))
