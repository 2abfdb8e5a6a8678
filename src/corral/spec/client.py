"""What users without root know of a cluster: the client file, their profile, the cluster from it.

A client file has no secret: names of nodes, partitions and shared folders. A node where people log
in holds one, for everybody to read; an administrator can export one that also has the address and
the host keys. A profile is a client file with a user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from corral.errors import Code, CorralError
from corral.extras import own_version
from corral.spec.models import ClusterSpec
from corral.spec.nodes import login_nodes_of
from corral.spec.sections.people import User
from corral.spec.slurm.hostlist import fold

FORMAT: Final = 2
"""Raised by a change that an earlier Corral cannot read. 2: several login nodes."""
PLAIN_FORMAT: Final = 1
"""Of a file without other login nodes: the same as before there were any."""
PUBLISHED: Final = "/etc/corral/client.json"
"""The client file of a node where people log in."""

_SEVERAL: Final = {"login_nodes"}
_VERSION: Final = re.compile(r"\d+(\.\d+)*")
_PUBLIC: Final[Mapping[str, Any]] = {
    "corral": True,
    "name": True,
    "slurm": {"accounting"},
    "groups": {
        "__all__": {"name", "provider", "nodes", "machine", "gpu", "gpus", "features", "nccl"},
    },
    "controller": True,
    "partitions": True,
    "qos": {"__all__": {"name", "preempts"}},
    "network": {"data"},
    "storage": {"__all__": {"mount", "kind"}},
    "software": {"containers"},
    "services": {"mlflow": True, "mlflow_uri": True, "ui": True, "page": {"port"}},
}


class LoginNode(BaseModel):
    """Another node that people log in to.

    Attributes:
        node: its name.
        host: its address.
        port: TCP port of its sshd.
        host_keys: its public host keys, each ``TYPE BASE64``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str
    host: str
    port: int = 22
    host_keys: tuple[str, ...] = ()


class ClientFile(BaseModel):
    """What a client needs of a cluster.

    Attributes:
        format: of the file: ``PLAIN_FORMAT``, or 2 with ``login_nodes``.
        corral: version of that Corral; "" in the file that nodes hold.
        node: the node that people log in to.
        cluster: fields of ``ClusterSpec``: those of ``public_part``.
        host: its address; "" where it is not known.
        port: TCP port of its sshd.
        user: who logs in; "" where that is not known.
        host_keys: its public host keys, each ``TYPE BASE64``.
        login_nodes: others that people log in to, which are asked where ``node`` does not answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = PLAIN_FORMAT
    corral: str = ""
    node: str
    cluster: dict[str, Any]
    host: str = ""
    port: int = 22
    user: str = ""
    host_keys: tuple[str, ...] = ()
    login_nodes: tuple[LoginNode, ...] = ()

    def text(self) -> str:
        """The file as it is written; one of a single login node is of the plain format."""
        several = bool(self.login_nodes)
        written = self.model_copy(update={"format": FORMAT if several else PLAIN_FORMAT})
        return written.model_dump_json(indent=1, exclude=None if several else _SEVERAL) + "\n"


class Profile(ClientFile):
    """A login to a cluster as one of its users.

    Attributes:
        name: of the profile.
        uid: of the user on the cluster.
        identity: absolute path of the private key; "" leaves the choice to ssh.
        rest: address of the slurmrestd that is asked in place of ssh; "" for a login by ssh.
    """

    name: str
    uid: int
    identity: str = ""
    rest: str = ""


class ClientSpec(ClusterSpec):
    """A cluster as a profile knows it: without root, with the profile's user as its only one.

    Attributes:
        profile: the login.
        known_hosts: absolute path of the file with the pinned host keys.
    """

    profile: Profile
    known_hosts: str

    def entered_by(self, other: LoginNode) -> ClientSpec:
        """The same cluster, reached by another login node."""
        place = {"node": other.node, "host": other.host, "port": other.port}
        return self.model_copy(update={"profile": self.profile.model_copy(update=place)})


def by_rest(spec: ClusterSpec) -> TypeGuard[ClientSpec]:
    """True for a profile that reaches its cluster by slurmrestd alone (``corral login --rest``)."""
    return isinstance(spec, ClientSpec) and bool(spec.profile.rest)


AnyFile = TypeVar("AnyFile", bound=ClientFile)


def public_part(spec: ClusterSpec) -> dict[str, Any]:
    """Fields of a cluster that jobs are checked and written by; no address, key, user or account.

    Elastic groups are among the others: which of their nodes run is for Slurm to report.
    """
    fields = spec.model_dump(mode="json", include=_PUBLIC, exclude_defaults=True)
    names = login_nodes_of(spec)
    return {**fields, "access": {"login": fold(names)}} if len(names) > 1 else fields


def published(spec: ClusterSpec, node: str) -> str:
    """Text of the client file for a node where people log in."""
    file = ClientFile(node=node, cluster=public_part(spec))
    return json.dumps(file.model_dump(include={"format", "node", "cluster"}), indent=1) + "\n"


def read_client(text: str, kind: type[AnyFile], place: str, again: str) -> AnyFile:
    """A client file or a profile from its text.

    Args:
        text: JSON.
        kind: ``ClientFile`` or ``Profile``.
        place: where the text is from, for people.
        again: what to do to get a good one.

    Raises:
        CorralError: PARSE_FAILED, it is not one, or a newer Corral's.
    """
    try:
        fields: Any = json.loads(text)
        known: Any = fields["format"]
        if isinstance(known, int) and known > FORMAT:
            version = f" {fields['corral']}" if fields.get("corral") else ""
            raise CorralError(
                Code.PARSE_FAILED,
                f"{place} is of a newer Corral{version}: format {known}, known here is {FORMAT}",
                hint=f"update Corral on this machine; or {again}",
            )
        return kind.model_validate(fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        older = _older(text)
        raise CorralError(
            Code.PARSE_FAILED,
            f"{place} is of an older Corral{older}, and this one no longer reads it"
            if older
            else f"{place} is not one that this Corral can read",
            tail=str(error),
            hint=again,
        ) from error


def _older(text: str) -> str:
    """A space and the version of the earlier Corral that wrote a client file; "" for none."""
    try:
        written = str(json.loads(text)["corral"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return f" {written}" if is_older(written) else ""


def is_older(written: str) -> bool:
    """Whether this version of Corral comes before the one that runs."""
    return bool(_VERSION.match(written)) and _numbers(written) < _numbers(own_version())


def _numbers(text: str) -> tuple[int, ...]:
    numbers = _VERSION.match(text)
    return tuple(map(int, numbers[0].split("."))) if numbers else ()


def client_spec(profile: Profile, known_hosts: Path) -> ClientSpec:
    """The cluster of a profile.

    Args:
        profile: the login.
        known_hosts: the file with the pinned host keys.

    Raises:
        CorralError: PARSE_FAILED, the cluster's fields are not known to this Corral.
    """
    # Not checked: a directory of people may give any number.
    user = User.model_construct(name=profile.user, uid=profile.uid)
    own = {"users": (user,), "profile": profile, "known_hosts": str(known_hosts)}
    try:
        return ClientSpec.model_validate({**profile.cluster, **own})
    except ValidationError as error:
        again = _again(profile)
        older = is_older(profile.corral)
        raise CorralError(
            Code.PARSE_FAILED,
            f"profile {profile.name} is of an older Corral {profile.corral}, and this one no "
            "longer reads its cluster"
            if older
            else f"profile {profile.name} has a cluster that this Corral does not know",
            tail=str(error),
            hint=f"log in again: {again}"
            if older
            else f"update Corral on this machine, then log in again: {again}",
        ) from error


def _again(profile: Profile) -> str:
    """The command that replaces a profile."""
    if profile.rest:
        return (
            f"corral login {profile.user}@ --rest {profile.rest} --name {profile.name} "
            "--token-file FILE"
        )
    return f"corral login {profile.user}@{profile.host} --name {profile.name}"


def require_root(spec: ClusterSpec) -> None:
    """Check that work which needs root on the machines can be done with this cluster.

    Raises:
        CorralError: FORBIDDEN, it is a profile's.
    """
    if isinstance(spec, ClientSpec):
        raise CorralError(
            Code.FORBIDDEN,
            f"this needs an administrator of cluster {spec.name}: profile {spec.profile.name} "
            f"logs in as {spec.profile.user}, without root",
            hint="whoever has the cluster file runs it: corral COMMAND -c FILE",
        )
