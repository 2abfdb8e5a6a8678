"""All phases of a deployment made, or removed in reverse; what one gives flows into the next."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.providers.gcp.blueprint.cluster import IMAGE_FAMILY, Deployment, deployment_of
from corral.providers.gcp.blueprint.modules import LATER
from corral.providers.gcp.gcluster import Gcluster
from corral.providers.gcp.image_script import script_of
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir

FOLDER: Final = "toolkit"
MARKS: Final = "marks.json"
IMAGE_GROUPS: Final = ("build-script", "slurm-build")

HasImage = Callable[[str], Awaitable[bool]]
"""Whether an image of this family is there."""


class Making:
    """One cluster's files for gcluster, and its runs.

    What earlier runs from this machine noted (``marks.json``) saves work and is never the truth:
    addresses of file systems until the base is looked at again, and what the image was made from.

    Args:
        spec: the cluster.
        release: the toolkit's.
    """

    def __init__(self, spec: ClusterSpec, release: str) -> None:
        self._spec = spec
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

    async def make(self, has_image: HasImage, emit: Emit) -> None:
        """Run gcluster for each phase in order.

        Raises:
            CorralError: PROVIDER_FAILED, MISSING_TOOL, NOT_GOOD, PARSE_FAILED.
        """
        marks, script = self._marks(), script_of(self._spec)
        made = self._deployment(marks, script)
        for phase in made.phases:
            self._write(made)
            skip = await self._same_image(made, phase.groups, marks, has_image)
            if skip:
                emit(Event(Kind.NOTE, "machines", message=f"image {self.family}: kept as it is"))
            if set(phase.groups) - set(skip):
                await self.program.deploy(phase, emit, skip=skip)
            if set(IMAGE_GROUPS) & set(phase.groups):
                marks["image"] = _image_digest(made)
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
        # What is removed has no need of the image's script, which may be gone.
        made = self._deployment(self._marks(), "")
        if not all((self.folder / name).exists() for name in made.files):
            self._write(made)
        gone: list[str] = []
        for phase in reversed(made.phases):
            await self.program.destroy(phase, emit)
            gone.append(f"deployment {phase.deployment}")
        return tuple(gone)

    async def _same_image(
        self, made: Deployment, groups: Sequence[str], marks: Mapping[str, str], has: HasImage
    ) -> tuple[str, ...]:
        """The image's groups where it is there and was made from the same; half an hour saved."""
        mine = tuple(g for g in groups if g in IMAGE_GROUPS)
        if not mine or marks.get("image") != _image_digest(made):
            return ()
        return mine if await has(self.family) else ()

    def _deployment(self, marks: Mapping[str, str], script: str) -> Deployment:
        known = {k.removeprefix("server "): v for k, v in marks.items() if k.startswith("server ")}
        return deployment_of(self._spec, known, LATER, script)

    def _write(self, made: Deployment) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.files.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    def _marks(self) -> dict[str, str]:
        try:
            marks: Any = json.loads((self.folder / MARKS).read_text())
            return {str(k): str(v) for k, v in marks.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def _mark(self, marks: Mapping[str, str]) -> None:
        (self.folder / MARKS).write_text(json.dumps(dict(marks), indent=1))


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


def _image_digest(made: Deployment) -> str:
    """Digest of the groups that make the image, whichever file they are in."""
    groups: list[Any] = []
    for name in sorted(made.files):
        data: Any = YAML(typ="safe", pure=True).load(made.files[name])  # pyright: ignore[reportUnknownMemberType]
        groups += [g for g in data.get("deployment_groups", ()) if g["group"] in IMAGE_GROUPS]
    return hashlib.sha256(json.dumps(groups, sort_keys=True).encode()).hexdigest()
