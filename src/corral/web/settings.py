"""What the page's server receives when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from corral.spec.models import ClusterSpec

BY_COMMANDS: Final = "commands:"


@dataclass(slots=True)
class Declared:
    """The cluster file that the server works with, for all that reaches machines by it.

    Attributes:
        spec: as it was when the server began, or as the page has applied it since.
    """

    spec: ClusterSpec


class Sudo(BaseModel):
    """The sudo password of who started the page."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    password: SecretStr
    machines: frozenset[str] = Field(
        description="Machines that may have it, as SshTarget.place names them."
    )


class Settings(BaseModel):
    """How one server serves one cluster.

    ``python -m corral.web`` reads them as one JSON object on standard input, so that the token in
    ``handover`` and the password in ``sudo`` are in no argument list and no file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    cluster: str = Field(description="Name of the cluster.")
    rest: str = Field(
        description="Where slurmrestd answers, http://127.0.0.1:6820; commands: asks Slurm's "
        "client commands on the controller instead."
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=0, ge=0, le=65535, description="Port; 0 takes a free one.")
    listening: int | None = Field(
        default=None,
        description="Descriptor of a bound socket, which its owner holds after this server's end; "
        "in place of host and port.",
    )
    names: tuple[str, ...] = Field(
        default=(), description="Host names under which browsers come, without ports."
    )
    hsts: bool = Field(
        default=True, description="Who came by TLS must come to this name by TLS alone."
    )
    spec: dict[str, Any] | None = Field(
        default=None,
        description="The cluster file, where Corral itself runs here; without it the page has no "
        "plan, doctor, proof and log.",
    )
    service: bool = Field(
        default=False,
        description="This is the controller's service: what needs root on machines is not here.",
    )
    as_user: str = Field(
        default="", description="Socket of web/as_user.py, which does users' own things (service)."
    )
    token_program: str = Field(
        default="",
        description="Socket of web/login/helper.py, which makes tokens of people who log in "
        "without one (service).",
    )
    outside: str = Field(default="", description="One more address to listen on, by TLS.")
    certificate: str = Field(default="", description="Its certificate, a PEM file.")
    key: str = Field(default="", description="The certificate's key, a PEM file.", repr=False)
    plain: bool = Field(
        default=False, description="The other address is one of an encrypted mesh: no TLS there."
    )
    prometheus: str = Field(
        default="", description="Prometheus with the cluster's metrics: an address or unix:/path."
    )
    clusters: dict[str, str] = Field(
        default={}, description="Addresses of the pages of other clusters that are shown with it."
    )
    source: str = Field(default="", description="Path of the cluster file, for the editor.")
    handover: tuple[str, str] | None = Field(
        default=None, description="User and token of who started it; a one-time code opens it."
    )
    sudo: Sudo | None = Field(
        default=None, description="Where a machine's sudo wants a password; the page never has it."
    )
    private: bool | frozenset[str] | None = Field(
        default=None,
        description="What Slurm hides of users from each other, in the words of PrivateData of "
        "slurm.conf and slurmdbd.conf; true: all of it; None: Slurm is asked, and until it has "
        "answered each user is shown what that user's own token may see.",
    )
    session_s: float = Field(default=8 * 3600, gt=0, description="Longest session in seconds.")
    idle_s: float = Field(default=3600, gt=0, description="A session unused for so long ends.")
    poll_s: Annotated[float, Field(gt=0)] = Field(
        default=1.0, description="Shortest poll interval."
    )
    tokens: Path | None = Field(
        default=None, description="File of the API's tokens, as digests; None: there are none."
    )
    node_events: Path | None = Field(
        default=None,
        description="File of what happened to nodes, which outlasts the server; None: it does not.",
    )
    audit: Path | None = Field(default=None, description="File of the audit log; None: stderr.")
    max_viewers: int = Field(default=1000, ge=1, description="Live views at once.")
