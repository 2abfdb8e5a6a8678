"""Use case of the page: job files that are kept for all, in a folder of root's."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

from corral.api.sync import reached
from corral.errors import Code, CorralError
from corral.hosts.quote import Script, call
from corral.hosts.transport import check
from corral.inspect.rules import owner_fault
from corral.jobs.follow import as_user
from corral.jobs.jobfile import parse_job_file
from corral.spec.models import ClusterSpec
from corral.state.storage.job_folders import TOP, unsafe_folders

TEMPLATES: Final = "templates"
MOST_TEMPLATES: Final = 100
LONGEST_TEMPLATE: Final = 1 << 15
"""Bytes; a job file of ``examples/`` has a few hundred."""
_USER: Final = "jobs/user.sh"


@dataclass(frozen=True, slots=True)
class TemplateFile:
    """A job file of the folder.

    Attributes:
        name: of the file.
        text: what is in it, "" where it is not taken.
        trouble: why it is not taken.
    """

    name: str
    text: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class TemplateFolder:
    """The folder of templates.

    Attributes:
        path: where it is; "" where the cluster has no shared storage.
        files: by name; none where there is no folder.
        trouble: why nothing in it is taken, or that there are more files.
    """

    path: str
    files: tuple[TemplateFile, ...] = ()
    trouble: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The folder with its files, as JSON has it."""
        return asdict(self)


def templates_script(mount: str) -> Script:
    """Prints the folder's files."""
    return call(_USER, "templates_list", mount, TOP, TEMPLATES, MOST_TEMPLATES, LONGEST_TEMPLATE)


def templates_path(spec: ClusterSpec) -> str:
    """Where the templates are: on the first shared storage; "" where there is none."""
    return f"{spec.storage[0].mount}/{TOP}/{TEMPLATES}" if spec.storage else ""


async def job_templates(spec: ClusterSpec, user: str, *, here: bool = False) -> TemplateFolder:
    """Read the folder, with the rights of a user.

    Args:
        spec: the cluster.
        user: who wants to submit.
        here: this process is on the controller and runs as that user.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; UNREACHABLE.
    """
    path = templates_path(spec)
    if not path:
        return TemplateFolder("")
    script = as_user(user, templates_script(spec.storage[0].mount))
    async with reached(spec, here=here) as (fleet, controller):
        result = await fleet.run(controller, script, timeout=60)
    refused = next((x for x in unsafe_folders(result.stderr) if owner_fault(x)), None)
    if not result.ok and refused:
        return TemplateFolder(path, trouble=refused.shown)
    files, more = read_templates(check(result, "reading the templates").stdout)
    words = f"only the first {MOST_TEMPLATES} files are read" if more else ""
    return TemplateFolder(path, tuple(files), words)


def read_templates(text: str) -> tuple[list[TemplateFile], bool]:
    """What ``templates_list`` printed; and whether there are more files."""
    lines = text.splitlines()
    return sorted(_files(lines), key=lambda file: file.name), "more" in lines


def _files(lines: list[str]) -> Iterator[TemplateFile]:
    for above, line in pairwise(lines):
        word, _, name = above.partition(" ")
        kind, _, rest = line.partition(" ")
        if word == "file" and kind == "text":
            yield TemplateFile(_decoded(name), text=_decoded(rest))
        elif word == "file":
            yield TemplateFile(_decoded(name), trouble=rest)


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode("utf-8-sig", errors="replace")


def template_fields(file: TemplateFile, folder: str) -> dict[str, Any]:
    """The fields that a template gives, as ``corral run`` reads the file.

    Raises:
        CorralError: SPEC_INVALID, with each fault at its line and column.
    """
    return parse_job_file(file.text, Path(folder) / file.name)


def templates_of(fields: dict[str, Any]) -> TemplateFolder:
    """As the controller's helper sends it.

    Raises:
        CorralError: PARSE_FAILED.
    """
    try:
        sent = cast("list[dict[str, Any]]", fields["files"])
        files = tuple(
            TemplateFile(str(file["name"]), str(file["text"]), str(file["trouble"]))
            for file in sent
        )
        return TemplateFolder(str(fields["path"]), files, str(fields["trouble"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CorralError(
            Code.PARSE_FAILED, "the helper's answer cannot be read", hint="load the page again"
        ) from error
