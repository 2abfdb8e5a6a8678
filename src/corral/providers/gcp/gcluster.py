"""The program gcluster: its version, its progress as events, what it printed.

Formats: pkg/logging and cmd/deploy.go of the Cluster Toolkit (v1.39.0 without times, v1.95.0 with
them), ``terraform apply`` with -no-color, ``packer build``.
"""

from __future__ import annotations

import re
import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.process import run
from corral.providers.gcp.blueprint.cluster import Phase
from corral.providers.gcp.recovery import OriginOf, recover
from corral.providers.gcp.toolkit_run import Runs
from corral.tables import Hint, hints_for, read_table

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


@cache
def gcluster_hints() -> tuple[Hint, ...]:
    """What messages mean."""
    return read_table("corral.providers.gcp", "gcluster_hints.yaml", tuple[Hint, ...])


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
    silent = f"killed by signal {-status}" if status and status < 0 else "it printed nothing"
    first = errors[0].strip() if errors else (lines[-1] if lines else silent)
    where = f" in {hearing.deployment}/{hearing.group}" if hearing.group else ""
    output = "\n".join([*errors, *lines])
    hint = next(iter(hints_for(gcluster_hints(), output)), "")
    return CorralError(
        Code.PROVIDER_FAILED,
        f"gcluster failed{where}: {first}"[:500],
        command=command,
        status=status,
        tail=tail[-3000:],
        hint=(f"{hint}; " if hint else "") + "what was made stays: the same command continues",
    )


def _name(folder: str, *, packer: bool = False) -> str:
    """The group of a folder: its last part; of a Packer module the one above it."""
    parts = folder.rstrip("/").split("/")
    return parts[-2] if packer and len(parts) > 1 else parts[-1]


PROGRAM: Final = "gcluster"
EXPANDED: Final = ".ghpc/artifacts/expanded_blueprint.yaml"
"""The last file that gcluster writes into a new deployment folder."""
SHORT_S: Final = 120.0
RECOVERIES: Final = 50
"""Runs for one deployment, of which each but the last undid something that a killed run left."""
_VERSION: Final = re.compile(r"version\s+-?\s*(v\d+\.\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class Gcluster:
    """The program of one release, working in one folder.

    Attributes:
        release: as the cluster file names it, such as v1.95.0.
        folder: where blueprints and deployment folders are.
    """

    release: str
    folder: Path

    async def require(self) -> str:
        """Check that it is there and of this release; gives its path.

        Raises:
            CorralError: MISSING_TOOL; NOT_GOOD, another release: its modules have other settings.
        """
        path = shutil.which(PROGRAM)
        if path is None:
            raise CorralError(
                Code.MISSING_TOOL,
                f"{PROGRAM} is not on PATH",
                command=PROGRAM,
                hint=f"install Google's Cluster Toolkit {self.release}, with Terraform and Packer; "
                "corral export gcluster writes its files without it",
            )
        ended = await run((path, "--version"), timeout=SHORT_S)
        match = _VERSION.search(ended.out)
        if match is None or match[1] != self.release:
            have = match[1] if match else (ended.out or ended.err).strip()[:80]
            raise CorralError(
                Code.NOT_GOOD,
                f"{path} is {have or 'of no version'}, and the cluster file is for {self.release}",
                command=f"{path} --version",
                hint=f"put gcluster {self.release} first on PATH, or write toolkit: of a release "
                "that Corral knows",
            )
        return path

    @property
    def runs(self) -> Runs:
        """Its runs in this folder."""
        return Runs(self.folder)

    async def deploy(
        self,
        phase: Phase,
        emit: Emit,
        *,
        skip: Sequence[str] = (),
        origin_of: OriginOf | None = None,
        again: bool = True,
    ) -> bool:
        """Make one deployment, or what is missing of it.

        Args:
            phase: which one; its blueprint and deployment file are in the folder.
            emit: receives its progress.
            skip: deployment groups that are left as they are.
            origin_of: asks Google for a resource; None: what a killed run made and forgot is
                an error.
            again: a failure by what a killed run left may be answered by False.

        Returns:
            True when it is made; False when it failed by what a killed run had left, which is
            undone now: the same again.

        Raises:
            CorralError: PROVIDER_FAILED, with Google's own message.
        """
        program = await self.require()
        argv = [program, "deploy", "-w", "-d", str(self.folder / phase.settings)]
        argv += [str(self.folder / phase.blueprint), "-o", str(self.folder), "--auto-approve"]
        argv += ["--skip", ",".join(skip)] if skip else []
        return await self._run(phase, argv, emit, origin_of, again=again)

    async def destroy(self, phase: Phase, emit: Emit) -> None:
        """Remove one deployment, its groups in reverse.

        Its folder is written again where it is not here: what exists is in Terraform's state,
        in the bucket.

        Raises:
            CorralError: PROVIDER_FAILED.
        """
        program = await self.require()
        folder = self.folder / phase.deployment
        if not (folder / EXPANDED).is_file():
            argv = [program, "create", "-w", "-d", str(self.folder / phase.settings)]
            argv += [str(self.folder / phase.blueprint), "-o", str(self.folder)]
            await self._run(phase, argv, emit)
        argv = [program, "destroy", str(folder), "--auto-approve"]
        for left in reversed(range(RECOVERIES)):
            if await self._run(phase, argv, emit, again=bool(left)):
                return

    async def _run(
        self,
        phase: Phase,
        argv: Sequence[str],
        emit: Emit,
        origin_of: OriginOf | None = None,
        *,
        again: bool = False,
    ) -> bool:
        """One run; False as ``deploy``.

        Raises:
            CorralError: PROVIDER_FAILED.
        """
        runs, hearing = self.runs, Hearing(phase.deployment)
        status, stderr = await runs.follow(phase.deployment, argv, hearing.line, emit)
        if not status:
            for event in hearing.over():
                emit(event)
            return True
        error = failure(hearing, " ".join(argv), status, stderr)
        last = runs.last(phase.deployment)
        group = self.folder / phase.deployment / hearing.group
        output, killed = runs.printed(phase.deployment), last.killed if last else ()
        if again and await recover(output, group, killed, origin_of, emit):
            return False
        raise error

    def outputs(self, phase: Phase) -> dict[str, str]:
        """Addresses of the file systems that a deployment made, by their module's id.

        They are in the file that gcluster hands from group to group.

        Raises:
            CorralError: PARSE_FAILED, it is not there.
        """
        path = (
            self.folder / phase.deployment / ".ghpc/artifacts" / f"{phase.groups[0]}_outputs.tfvars"
        )
        try:
            return servers(path.read_text("utf-8"))
        except OSError as error:
            raise CorralError(
                Code.PARSE_FAILED,
                f"gcluster left no outputs of {phase.deployment}: {error.strerror}",
                command=str(path),
                hint=f"gcluster export-outputs {phase.deployment}/{phase.groups[0]}",
            ) from error


def servers(tfvars: str) -> dict[str, str]:
    """``server_ip`` of each ``network_storage_ID`` in a file of Terraform's variables."""
    addresses: dict[str, str] = {}
    for block in re.finditer(r"^network_storage_(\w+)\s*=\s*\{\n(.*?)^\}", tfvars, re.M | re.S):
        address = re.search(r'^\s*server_ip\s*=\s*"([^"]+)"', block[2], re.M)
        if address:
            addresses[block[1]] = address[1]
    return addresses
