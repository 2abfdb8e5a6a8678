"""A cluster file written out for other people's tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.errors import Code, CorralError
from corral.providers.blueprint import Deployment, deployment_of
from corral.spec.models import ClusterSpec


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes:
        folder: where.
        files: names of the files, in the order to read them.
        next: commands that use them, one a line.
    """

    folder: str
    files: tuple[str, ...]
    next: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """JSON-ready fields."""
        return {"folder": self.folder, "files": list(self.files), "next": list(self.next)}


def export_gcluster(spec: ClusterSpec, folder: Path, *, overwrite: bool = False) -> Exported:
    """Write the Cluster Toolkit's blueprints and deployment files.

    Args:
        spec: a cluster with ``gcp`` and groups of provider gcp.
        folder: where; made when it is not there.
        overwrite: replace files that are there.

    Raises:
        CorralError: SPEC_INVALID, the cluster is not made by the toolkit; USAGE, a file is there
            already; FAILED to write.
    """
    made = deployment_of(spec)
    write(made.files, folder, overwrite=overwrite)
    return Exported(str(folder), tuple(made.files), commands(made))


def commands(made: Deployment) -> tuple[str, ...]:
    """How gcluster makes the deployment, from its folder."""
    found: list[str] = []
    for phase in made.phases:
        found.append(f"gcluster deploy -w -d {phase.settings} {phase.blueprint} --auto-approve")
        if phase.name == "base" and any("server_ip_" in t for t in made.files.values()):
            # The next phases mount what the base made: corral up fills the address in by itself.
            found.append(f"terraform -chdir={phase.deployment}/{phase.groups[0]} output -json")
    return tuple(found)


def write(files: Mapping[str, str], folder: Path, *, overwrite: bool) -> None:
    """Write files into a folder, all or none where one of them is there already.

    Raises:
        CorralError: USAGE.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = [name for name in files if (folder / name).exists()]
        if taken and not overwrite:
            raise CorralError(
                Code.USAGE,
                f"{folder} holds {', '.join(taken)} already",
                hint="name another folder, or --overwrite",
            )
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CorralError(
            Code.USAGE, f"{folder} cannot be written: {error.strerror}", hint="name another folder"
        ) from error
