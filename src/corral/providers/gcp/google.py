"""Google's Compute API, read only: what Corral asks before and after the toolkit made something.

Names and paths are those of the API's discovery document (compute v1); every call is a GET.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from corral.errors import Code, CorralError
from corral.hosts.process import run
from corral.providers.cloud.calls import pages
from corral.providers.cloud.client.http import Caller, Dialect
from corral.providers.cloud.client.rate_limit import Pacer
from corral.providers.cloud.client.secrets import Place
from corral.providers.cloud.errors import CloudError, Reason, rows_of
from corral.providers.cloud.response import part, record, records
from corral.providers.gcp.figures import figures
from corral.providers.gcp.image import Image, image_of, made_at
from corral.providers.gcp.recovery import IMAGE_MACHINE, Origin
from corral.state_dir import state_dir

TOKEN: Final = "GOOGLE_OAUTH_ACCESS_TOKEN"  # noqa: S105  # a variable's name
"""Environment variable with an access token, as Terraform's provider for Google reads it."""
ENDPOINT: Final = "GOOGLE_COMPUTE_CUSTOM_ENDPOINT"
"""Environment variable with another address of the API, as Terraform's provider reads it."""
PLACE: Final = Place("gcp", "Google Cloud", TOKEN, "https://compute.googleapis.com/compute/v1")
GCLOUD_S: Final = 60.0
_GAPS: Final = {"calls": 0.05}


class Google:
    """One project.

    Args:
        project: its id.
        caller: makes the calls.
        opened: gives what makes the calls to another address, of file systems or buckets;
            None: there are none of these.
    """

    def __init__(
        self, project: str, caller: Caller, opened: Callable[[str], Caller] | None = None
    ) -> None:
        self._project = project
        self._caller = caller
        self._opened = opened
        self._stores: dict[str, Caller] = {}

    @classmethod
    async def open(cls, project: str) -> Google:
        """With this machine's credentials: the ones that Terraform uses too.

        Raises:
            CorralError: NOT_FOUND, there are none; MISSING_TOOL, no gcloud; USAGE, a bad address.
        """
        token = await access_token()

        def caller(url: str) -> Caller:
            pacer = Pacer(state_dir() / "clouds" / "pace", f"{url} {project}", _GAPS)
            return Caller(Dialect(PLACE, rows_of("gcp"), _words), url, token, pacer)

        return cls(project, caller(url_of()), caller)

    async def close(self) -> None:
        """Close the connections."""
        for caller in (self._caller, *self._stores.values()):
            await caller.close()

    async def zone(self, zone: str) -> dict[str, Any] | None:
        """A zone (``zones.get``); None: there is none of that name."""
        return await self._get(f"/zones/{zone}")

    async def machine_type(self, zone: str, name: str) -> dict[str, Any] | None:
        """A machine type (``machineTypes.get``); None: the zone does not offer it."""
        return await self._get(f"/zones/{zone}/machineTypes/{name}")

    async def reservation(self, zone: str, name: str) -> dict[str, Any] | None:
        """A reservation (``reservations.get``) by name, or projects/PROJECT/reservations/NAME."""
        project = self._project
        parts = name.split("/")
        if len(parts) == 4:  # noqa: PLR2004  # projects/PROJECT/reservations/NAME
            project, name = parts[1], parts[3]
        return await self._get(f"/zones/{zone}/reservations/{name}", project)

    async def region(self, region: str) -> dict[str, Any] | None:
        """A region with its quotas (``regions.get``)."""
        return await self._get(f"/regions/{region}")

    async def project(self) -> dict[str, Any] | None:
        """The project with its quotas (``projects.get``)."""
        return await self._get("")

    async def instances(self, zone: str, cluster: str) -> list[dict[str, Any]]:
        """Machines that carry the cluster's label (``instances.list``)."""
        return await self._list(f"/zones/{zone}/instances", f"labels.slurm_cluster_name={cluster}")

    async def deployed(self, zone: str, deployment: str) -> list[dict[str, Any]]:
        """Machines with the label of a deployment, the one that makes its image among them."""
        return await self._list(f"/zones/{zone}/instances", f"labels.ghpc_deployment={deployment}")

    async def stores(self, kind: str, zone: str, deployment: str) -> list[dict[str, Any]]:
        """File systems or buckets with the label of a deployment.

        Args:
            kind: as storage of the cluster file has it; none for one of machines and disks.
            zone: where they are.
            deployment: its name.
        """
        store, caller = figures().stores.get(kind), self._store(kind)
        if store is None or caller is None:
            return []
        path, _, query = store.list.format(project=self._project, zone=zone).partition("?")
        asked = dict([query.split("=", 1)]) if query else {}

        def page(data: Any) -> tuple[list[dict[str, Any]], dict[str, str]]:
            return _page(data, store.items)

        listed = await caller.pages(pages(path, page, asked))
        return [r for r in listed if part(r, "labels").get("ghpc_deployment") == deployment]

    def _store(self, kind: str) -> Caller | None:
        """What makes the calls to the API of a kind of storage."""
        store = figures().stores.get(kind)
        if store is None or self._opened is None:
            return None
        if kind not in self._stores:
            self._stores[kind] = self._opened(url_of(name=store.variable, usual=store.url))
        return self._stores[kind]

    async def origin(self, type: str, id: str) -> Origin | None:
        """When and by which deployment a resource was made, by the type that Terraform has for it.

        Args:
            type: such as ``google_compute_network``.
            id: Google's path of it, from ``projects`` on.

        Returns:
            None where the resource does not exist, or no API here knows its type.
        """
        stores = [(kind, s) for kind, s in figures().stores.items() if s.type == type]
        caller: Caller | None = self._caller
        field = "creationTimestamp"
        if stores:
            kind, store = stores[0]
            caller, field = self._store(kind), store.made
        elif not type.startswith("google_compute_"):
            return None
        if caller is None:
            return None
        try:
            resource = await caller.call("GET", f"/{id}", _resource)
        except CloudError as error:
            if error.reason is Reason.MISSING:
                return None
            raise
        made = made_at(resource, field)
        if made is None:
            return None
        return Origin(made, str(part(resource, "labels").get("ghpc_deployment", "")))

    async def disks(self, zone: str, cluster: str) -> list[dict[str, Any]]:
        """Disks that carry the cluster's label (``disks.list``)."""
        return await self._list(f"/zones/{zone}/disks", f"labels.slurm_cluster_name={cluster}")

    async def image_disks(self, zone: str) -> list[dict[str, Any]]:
        """Disks named as those that Packer makes images of; it gives them no label."""
        disks = await self._list(f"/zones/{zone}/disks", "name eq 'packer-.*'")
        return [disk for disk in disks if IMAGE_MACHINE.fullmatch(str(disk["name"]))]

    async def images(self, family: str) -> list[Image]:
        """Images of a family (``images.list``)."""
        return [image_of(image) for image in await self._list("/global/images", f"family={family}")]

    async def networks(self, prefix: str) -> list[dict[str, Any]]:
        """Networks whose name begins so (``networks.list``)."""
        networks = await self._list("/global/networks", "")
        return [network for network in networks if str(network.get("name", "")).startswith(prefix)]

    async def _get(self, path: str, project: str = "") -> dict[str, Any] | None:
        path = f"/projects/{project or self._project}{path}"
        try:
            return await self._caller.call("GET", path, _resource)
        except CloudError as error:
            if error.reason is Reason.MISSING:
                return None
            raise

    async def _list(self, path: str, filter: str) -> list[dict[str, Any]]:
        """All of a list; where the project or zone does not exist, an error: nothing was listed."""
        query = {"filter": filter} if filter else {}
        return await self._caller.pages(pages(f"/projects/{self._project}{path}", _page, query))


def _resource(data: Any) -> dict[str, Any]:
    """What the API describes; each resource has a name, by which it is known here.

    Raises:
        KeyError: it has none.
    """
    resource = record(data)
    return {**resource, "name": str(resource["name"])}


def _page(data: Any, field: str = "items") -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Items of a page; Google may send a page without any before the last one.

    Raises:
        ValueError: Google could not ask all of its servers, so machines may be missing.
    """
    code = str(part(data, "warning").get("code", ""))
    if code == "UNREACHABLE":
        raise ValueError(f"{code}: {part(data, 'warning').get('message', '')}")
    if unreached := data.get("unreachable"):
        raise ValueError(f"not reached: {unreached}")
    items = [_resource(item) for item in records(data.get(field, []))]
    token = data.get("nextPageToken") or ""
    if not isinstance(token, str):
        raise TypeError("nextPageToken is not a text")
    return items, {"pageToken": token} if token else {}


def url_of(
    environ: Mapping[str, str] = os.environ, name: str = ENDPOINT, usual: str = PLACE.url
) -> str:
    """The address to talk to.

    Args:
        environ: the environment.
        name: the variable with another address.
        usual: the address without it.

    Raises:
        CorralError: USAGE, it would send the token in the clear over a network.
    """
    url = environ.get(name, "") or usual
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1"):
        return url.rstrip("/")
    raise CorralError(
        Code.USAGE,
        f"{name} is not an https address: the access token would travel in the clear",
        hint="http is for a simulated Google on this machine",
    )


async def access_token(environ: Mapping[str, str] = os.environ) -> str:
    """A token of the credentials that Terraform uses: from the environment, else by gcloud.

    Raises:
        CorralError: NOT_FOUND, nobody is logged in; MISSING_TOOL, no gcloud.
    """
    if token := environ.get(TOKEN, "").strip():
        return token
    argv = ("gcloud", "auth", "application-default", "print-access-token")
    ended = await run(argv, timeout=GCLOUD_S)
    token = ended.out.strip()
    if ended.status == 0 and token:
        return token
    raise CorralError(
        Code.NOT_FOUND,
        "no credentials for Google Cloud",
        command=" ".join(argv),
        status=ended.status,
        tail=ended.err.strip()[-500:],
        hint="gcloud auth application-default login; the toolkit's Terraform needs the same",
    )


def _words(data: Any) -> tuple[str, str]:
    error = data["error"]
    reasons = ",".join(str(e.get("reason", "")) for e in error.get("errors", ()))
    return reasons, str(error["message"])
