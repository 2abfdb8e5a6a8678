"""All phases of a deployment made, or removed in reverse; what one gives flows into the next."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.providers.gcp.blueprint.cluster import (
    IMAGE_FAMILY,
    IMAGE_GROUPS,
    Deployment,
    Phase,
    deployment_of,
)
from corral.providers.gcp.blueprint.modules import LATER
from corral.providers.gcp.gcluster import RECOVERIES, Gcluster
from corral.providers.gcp.image import DIGITS, Image, Images, finished, newest, script_of
from corral.providers.gcp.recovery import OriginOf
from corral.providers.gcp.toolkit_run import Window, replace_text
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir

FOLDER: Final = "toolkit"
MARKS: Final = "marks.json"
POLL_S: Final = 10.0


class Making:
    """One cluster's files for gcluster, and its runs.

    What earlier runs from this machine noted (``marks.json``) saves work and is never the truth:
    addresses of file systems until the base is looked at again, what the files were, and what an
    image was made from that an earlier Corral gave no label.

    Args:
        spec: the cluster.
        release: the toolkit's.
        poll: seconds between two questions about an image that Google is making.
    """

    def __init__(self, spec: ClusterSpec, release: str, poll: float = POLL_S) -> None:
        self._spec, self._poll = spec, poll
        self.folder: Path = cluster_dir(spec.name, create=False) / FOLDER
        self.program = Gcluster(release, self.folder)
        self.family = IMAGE_FAMILY.format(name=spec.name)

    @property
    def changed(self) -> bool:
        """Whether the cluster file asks for something else than what was last made from here."""
        marks = self._marks()
        if "deployed" not in marks:
            return False
        made = self._deployment(marks, script_of(self._spec))
        return marks["deployed"] != _digest(made.files)

    @property
    def unfinished(self) -> bool:
        """Whether the last run of gcluster for the machines made not all, or removed it.

        All machines may exist all the same: slurm-gcp makes nodes without gcluster, and Terraform
        forgets a controller that it was making when it was killed.
        """
        return self.program.runs.unfinished(
            self._deployment(self._marks(), "").phases[-1].deployment
        )

    @property
    def killed(self) -> dict[str, tuple[Window, ...]]:
        """When runs of gcluster were killed, by deployment; empty where all is made since."""
        runs = self.program.runs
        return {name: w for name in self.deployments if (w := runs.windows(name))}

    @property
    def deployments(self) -> tuple[str, ...]:
        """Names of its deployments, which its resources carry as a label."""
        return tuple(p.deployment for p in self._deployment(self._marks(), "").phases)

    async def make(self, images: Images, emit: Emit, origin_of: OriginOf | None = None) -> None:
        """Run gcluster for each phase in order, once a run of a killed Corral has ended.

        Args:
            images: asks for the images of the family.
            emit: receives progress.
            origin_of: asks Google for a resource, for what a killed run made and forgot.

        Raises:
            CorralError: PROVIDER_FAILED, MISSING_TOOL, NOT_GOOD, PARSE_FAILED.
        """
        await self.program.runs.settle(emit)
        marks, script = self._marks(), script_of(self._spec)
        made = self._deployment(marks, script)
        for phase in made.phases:
            self._write(made)
            for left in reversed(range(RECOVERIES)):
                skip = await self._kept(made, phase, marks, images, emit)
                if not set(phase.groups) - set(skip) or await self.program.deploy(
                    phase, emit, skip=skip, origin_of=origin_of, again=bool(left)
                ):
                    break
            if phase.name == "base":
                servers = self.program.outputs(phase)
                for name, address in servers.items():
                    marks[f"server {name}"] = address
                    message = f"{name} is at {address}: written into the next phases"
                    emit(Event(Kind.NOTE, "machines", message=message))
                made = self._deployment(marks, script)
                _require_addresses(made)
            self._mark(marks)
        self._mark({**marks, "deployed": _digest(made.files)})

    async def remove(self, emit: Emit) -> tuple[str, ...]:
        """Run gcluster destroy for each phase, the last one first.

        Returns:
            what was removed.

        Raises:
            CorralError: PROVIDER_FAILED, MISSING_TOOL, NOT_GOOD.
        """
        await self.program.require()
        await self.program.runs.settle(emit)
        # What is removed has no need of the image's script, which may be gone.
        made = self._deployment(self._marks(), "")
        if not all((self.folder / name).exists() for name in made.files):
            self._write(made)
        gone: list[str] = []
        for phase in reversed(made.phases):
            await self.program.destroy(phase, emit)
            gone.append(f"deployment {phase.deployment}")
        return tuple(gone)

    async def _kept(
        self,
        made: Deployment,
        phase: Phase,
        marks: Mapping[str, str],
        images: Images,
        emit: Emit,
    ) -> tuple[str, ...]:
        """The image's groups where it is there and was made from the same; half an hour saved."""
        mine = tuple(g for g in phase.groups if g in IMAGE_GROUPS)
        image = newest(await self.finished(images, emit)) if mine else None
        if image is None or (image.source or marks.get("image", "")[:DIGITS]) != made.image:
            return ()
        emit(Event(Kind.NOTE, "machines", message=f"image {self.family}: kept as it is"))
        return mine

    async def finished(self, images: Images, emit: Emit) -> Sequence[Image]:
        """All images of the family, once Google makes none of this cluster's any more.

        Raises:
            CorralError: TIMED_OUT.
        """
        return await finished(images, self.deployments, emit, self._poll)

    def _deployment(self, marks: Mapping[str, str], script: str) -> Deployment:
        known = {k.removeprefix("server "): v for k, v in marks.items() if k.startswith("server ")}
        return deployment_of(self._spec, known, LATER, script)

    def _write(self, made: Deployment) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.files.items():
            replace_text(self.folder / name, text)

    def _marks(self) -> dict[str, str]:
        try:
            marks: Any = json.loads((self.folder / MARKS).read_text())
            return {str(k): str(v) for k, v in marks.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def _mark(self, marks: Mapping[str, str]) -> None:
        replace_text(self.folder / MARKS, json.dumps(dict(marks), indent=1))


def _require_addresses(made: Deployment) -> None:
    """Check that each file system of the base has an address in the phases that mount it.

    Raises:
        CorralError: PARSE_FAILED.
    """
    for text in made.files.values():
        missing = re.findall(rf"^ *server_ip_(\w+): {re.escape(LATER)}$", text, re.M)
        if missing:
            raise CorralError(
                Code.PARSE_FAILED,
                f"gcluster's outputs have no address of {', '.join(missing)}",
                hint=f"gcluster export-outputs {made.phases[0].deployment}, then corral up again",
            )


def _digest(files: Mapping[str, str]) -> str:
    text = "\0".join(f"{name}\0{files[name]}" for name in sorted(files))
    return hashlib.sha256(text.encode()).hexdigest()
