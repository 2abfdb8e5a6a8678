"""What gcluster prints while it works, read: which group, which resource, what went wrong. Pure.

Formats: pkg/logging and cmd/deploy.go of the Cluster Toolkit (v1.39.0 without times, v1.95.0 with
them), ``terraform apply`` with -no-color, ``packer build``.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Event, Kind

KEPT: Final = 60
STILL_S: Final = 300
"""A resource that takes longer is worth a line, each time that long."""

_TIME: Final = re.compile(r"^(?:\x1b\[\d+m)?\d{4}-\d\d-\d\dT[\d:]+Z(?:\x1b\[0?m)?:? ")
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
_GROUP: Final = re.compile(
    r"(?:Initializing|Testing if|Running terraform apply on) deployment group (\S+)"
    r"|(?:initializing|validating|building image using) packer module at (\S+)"
)
_ALREADY: Final = re.compile(r"Cloud infrastructure in deployment group (\S+) is already")
_DOES: Final = re.compile(r"^(\S+): (Creating|Destroying|Modifying|Reading|Refreshing state)\.\.\.")
_STILL: Final = re.compile(
    r"^(\S+): Still (creating|destroying|modifying)\.\.\. \[(?:id=\S+ )?(?:\S*, )?"
    r"(?:(\d+)m)?(\d+)s elapsed\]"
)
_DID: Final = re.compile(r"^(\S+): (?:Creation|Destruction|Modifications) complete after")
_SUM: Final = re.compile(r"^(?:Apply|Destroy) complete! Resources: (.*?)\.?$")
_PACKER: Final = re.compile(r"^==> \S+: (.*)$")
_BUILT: Final = re.compile(r"^Build '\S+' finished after (.*)\.$")
_ERROR: Final = re.compile(r"^(?:[│╷|] *)?(?:\S+ )?Error: (.*)$|^(?:[│|] *)?(googleapi: Error .*)$")

HINTS: Final = (
    (r"Failed to setup dependencies|is older than required version",
     "install the versions of Terraform and Packer that it names, or have gcluster fetch them: "
     "gcluster create BLUEPRINT --download-dependencies"),
    (r"terraform installed in PATH|\"terraform\": executable file not found",
     "install Terraform 1.5 or later (developer.hashicorp.com/terraform/install)"),
    (r"packer installed in PATH|\"packer\": executable file not found",
     "install Packer (developer.hashicorp.com/packer/install)"),
    (r"could not find default credentials|invalid_grant|Reauthentication",
     "log in again: gcloud auth application-default login"),
    (r"(?i)quota '?(\S+?)'? exceeded|QUOTA_EXCEEDED",
     "ask for more on the project's quota page (IAM & Admin, Quotas), then the same again"),
    (r"ZONE_RESOURCE_POOL_EXHAUSTED|does not have enough resources available",
     "the zone has no such machines now: a reservation, flex-start, or another zone"),
    (r"(?i)reservation",
     "look at it: gcloud compute reservations describe NAME --zone ZONE"),
    (r"Error acquiring the state lock",
     "another run holds Terraform's state, or one was killed: its message names the lock; "
     "terraform force-unlock ID in the group's folder"),
    (r"SERVICE_DISABLED|has not been used in project",
     "switch the API on that it names: gcloud services enable NAME"),
    (r"Error 409|alreadyExists|already exists",
     "something of that name is there and not in Terraform's state: remove it, or take another "
     "name for the cluster"),
    (r"(?i)Error 403|permission.*denied|does not have .*permission",
     "this account lacks a role in the project; the message names the permission"),
    (r"storage: bucket doesn't exist|bucket does not exist",
     "make the bucket of gcp.state_bucket first: gcloud storage buckets create gs://NAME"),
)  # fmt: skip
"""What a message means: the first that fits."""


@dataclass(slots=True)
class Hearing:
    """Follows one run of gcluster, line by line.

    Attributes:
        deployment: its name, for the events.
        group: the deployment group at work.
        sums: what Terraform reported about each group that it finished.
        lines: the last ones.
        errors: messages, in order.
    """

    deployment: str
    group: str = ""
    sums: dict[str, str] = field(default_factory=dict[str, str])
    lines: deque[str] = field(default_factory=lambda: deque[str](maxlen=KEPT))
    errors: list[str] = field(default_factory=list[str])
    _reported: dict[str, int] = field(default_factory=dict[str, int])

    def line(self, raw: str) -> Iterator[Event]:
        """Take a line; gives what it is worth."""
        text = _COLOUR.sub("", _TIME.sub("", raw.rstrip("\r\n")))
        if not text.strip():
            return
        self.lines.append(text)
        if match := _ERROR.match(text):
            self.errors.append((match[1] or match[2]).strip())
        if match := _GROUP.search(text):
            yield from self._turn(_name(match[1] or match[2], packer=bool(match[2])))
        elif match := _ALREADY.search(text):
            self.sums[_name(match[1])] = "nothing to do"
        elif match := _SUM.match(text):
            self.sums[self.group] = match[1]
        elif match := _BUILT.match(text):
            self.sums[self.group] = f"image made in {match[1]}"
        else:
            yield from self._detail(text)

    def over(self) -> Iterator[Event]:
        """Its end, when it succeeded."""
        yield from self._turn("")

    def _turn(self, group: str) -> Iterator[Event]:
        if group == self.group:
            return
        if self.group:
            if summary := self.sums.get(self.group):
                yield Event(Kind.NOTE, "machines", self._part(), summary)
            yield Event(Kind.NODE_DONE, "machines", self._part())
        self.group = group
        if group:
            yield Event(Kind.NODE_STARTED, "machines", self._part(), "gcluster works on it")

    def _detail(self, text: str) -> Iterator[Event]:
        if match := _DOES.match(text):
            yield Event(Kind.CHANGE_STARTED, match[1], self._part(), text)
        elif match := _DID.match(text):
            yield Event(Kind.CHANGE_DONE, match[1], self._part(), text)
        elif match := _STILL.match(text):
            seconds = int(match[3] or 0) * 60 + int(match[4])
            if seconds >= self._reported.get(match[1], 0) + STILL_S:
                self._reported[match[1]] = seconds - seconds % STILL_S
                message = f"still {match[2]} {match[1]} after {seconds // 60} minutes"
                yield Event(Kind.NOTE, "machines", self._part(), message)
        elif match := _PACKER.match(text):
            yield Event(Kind.CHANGE_STARTED, "packer", self._part(), match[1])

    def _part(self) -> str:
        return f"{self.deployment}/{self.group}" if self.group else self.deployment


def failure(hearing: Hearing, command: str, status: int | None, stderr: str) -> CorralError:
    """The error of a run that ended badly: its own message first, and what to do about it."""
    errors = [*hearing.errors]
    lines = [_COLOUR.sub("", _TIME.sub("", line)) for line in stderr.splitlines() if line.strip()]
    errors += [m[1] or m[2] for m in map(_ERROR.match, lines) if m]
    tail = "\n".join([*list(hearing.lines)[-12:], *lines[-12:]])
    # terraform-exec reports no more than "exit status 1"; Terraform's own message is next to it.
    errors = [e for e in errors if not re.fullmatch(r"exit status \d+", e.strip())]
    first = errors[0].strip() if errors else (lines[-1] if lines else "it printed nothing")
    where = f" in {hearing.deployment}/{hearing.group}" if hearing.group else ""
    output = "\n".join([*errors, *lines])
    hint = next((hint for pattern, hint in HINTS if re.search(pattern, output)), "")
    return CorralError(
        Code.PROVIDER_FAILED,
        f"gcluster failed{where}: {first}"[:500],
        command=command,
        status=status,
        tail=tail[-3000:],
        hint=(f"{hint}; " if hint else "") + "what was made stays: the same command goes on",
    )


def _name(folder: str, *, packer: bool = False) -> str:
    """The group of a folder: its last part; of a Packer module the one above it."""
    parts = folder.rstrip("/").split("/")
    return parts[-2] if packer and len(parts) > 1 else parts[-1]
