"""The program gcluster: found on PATH, its version checked, its progress reported as events."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit
from corral.hosts.process import run
from corral.providers.blueprint import Phase
from corral.providers.gcp.gcluster_output import Hearing, failure

PROGRAM: Final = "gcluster"
SHORT_S: Final = 120.0
INTERRUPT_S: Final = 120.0
"""Seconds that an interrupted Terraform gets to write its state and release its lock."""
LINE_AT_MOST: Final = 1 << 20
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

    async def deploy(self, phase: Phase, emit: Emit, *, skip: Sequence[str] = ()) -> None:
        """Make one deployment, or what is missing of it.

        Args:
            phase: which one; its blueprint and deployment file are in the folder.
            emit: receives its progress.
            skip: deployment groups that are left as they are.

        Raises:
            CorralError: PROVIDER_FAILED, with Google's own message.
        """
        program = await self.require()
        argv = [program, "deploy", "-w", "-d", str(self.folder / phase.settings)]
        argv += [str(self.folder / phase.blueprint), "-o", str(self.folder), "--auto-approve"]
        argv += ["--skip", ",".join(skip)] if skip else []
        await _follow(argv, Hearing(phase.deployment), emit)

    async def destroy(self, phase: Phase, emit: Emit) -> None:
        """Remove one deployment, its groups in reverse.

        Its folder is written again where it is not here: what exists is in Terraform's state,
        in the bucket.

        Raises:
            CorralError: PROVIDER_FAILED.
        """
        program = await self.require()
        folder = self.folder / phase.deployment
        if not (folder / ".ghpc").is_dir():
            argv = [program, "create", "-w", "-d", str(self.folder / phase.settings)]
            argv += [str(self.folder / phase.blueprint), "-o", str(self.folder)]
            await _follow(argv, Hearing(phase.deployment), emit)
        await _follow(
            [program, "destroy", str(folder), "--auto-approve"], Hearing(phase.deployment), emit
        )

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


async def _follow(argv: Sequence[str], hearing: Hearing, emit: Emit) -> None:
    """Run it to its end, however long that takes.

    It has a separate session: an interrupt reaches it from here, as one SIGINT, and it is waited
    for. Terraform that is killed keeps its lock on the state, and forgets what it was making.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
        limit=LINE_AT_MOST,
    )
    try:
        stderr, _ = await asyncio.gather(_collect(process.stderr), _hear(process, hearing, emit))
        status = await process.wait()
    except BaseException:
        await _interrupt(process)
        raise
    if status:
        raise failure(hearing, " ".join(argv), status, stderr)
    for event in hearing.over():
        emit(event)


async def _hear(process: asyncio.subprocess.Process, hearing: Hearing, emit: Emit) -> None:
    if process.stdout is None:
        return
    async for line in process.stdout:
        for event in hearing.line(line.decode("utf-8", "replace")):
            emit(event)


async def _collect(stream: asyncio.StreamReader | None) -> str:
    data = await stream.read() if stream is not None else b""
    return data.decode("utf-8", "replace")


async def _interrupt(process: asyncio.subprocess.Process) -> None:
    gone = asyncio.ensure_future(process.wait())
    for number, seconds in ((signal.SIGINT, INTERRUPT_S), (signal.SIGKILL, 5.0)):
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        # Not asyncio.timeout: this task is cancelled already, and the limit's end would be a
        # CancelledError, which leaves the loop before the kill (CPython 3.11).
        await asyncio.wait({gone}, timeout=seconds)
