"""Use case of the page: job files that are kept, for all by root and for an account by its team."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
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
LONGEST_TEAM: Final = 1 << 20
"""Bytes of a team's files together: those of 20 teams fit into what a command may print."""
MOST_ACCOUNTS: Final = 20
_TEAM_S: Final = 10
_TEAMS_S: Final = 40
_ALL_S: Final = 120
_USER: Final = "jobs/user.sh"
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
"""An account whose name is that of a folder; no other one has templates."""
_FIELDS: Final = ("name", "text", "trouble", "account", "owner")


@dataclass(frozen=True, slots=True)
class TemplateFile:
    """A job file of the folder.

    Attributes:
        name: of the file; "" of a team's folder that is not taken.
        text: what is in it, "" where it is not taken.
        trouble: why it is not taken.
        account: whose team keeps it; "" for root, who keeps it for all.
        owner: the user whose file it is.
    """

    name: str
    text: str = ""
    trouble: str = ""
    account: str = ""
    owner: str = ""


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


def templates_script(mount: str, accounts: Sequence[str] = ()) -> Script:
    """Prints the folder's files, and those of the accounts' teams."""
    named = [name for name in accounts if _ACCOUNT.fullmatch(name)][:MOST_ACCOUNTS]
    seconds = min(_TEAM_S, _TEAMS_S // max(1, len(named)))
    most = (MOST_TEMPLATES, LONGEST_TEMPLATE, LONGEST_TEAM, seconds)
    return call(_USER, "templates_list", mount, TOP, TEMPLATES, *most, *named)


def templates_path(spec: ClusterSpec) -> str:
    """Where the templates are: on the first shared storage; "" where there is none."""
    return f"{spec.storage[0].mount}/{TOP}/{TEMPLATES}" if spec.storage else ""


async def job_templates(
    spec: ClusterSpec, user: str, accounts: Sequence[str] = (), *, here: bool = False
) -> TemplateFolder:
    """Read the folder, with the rights of a user.

    Args:
        spec: the cluster.
        user: who wants to submit.
        accounts: those that the user may charge: their teams' files are read too.
        here: this process is on the controller and runs as that user.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; UNREACHABLE.
    """
    path = templates_path(spec)
    if not path:
        return TemplateFolder("")
    script = as_user(user, templates_script(spec.storage[0].mount, accounts))
    async with reached(spec, here=here) as (fleet, controller):
        result = await fleet.run(controller, script, timeout=_ALL_S)
    refused = next((x for x in unsafe_folders(result.stderr) if owner_fault(x)), None)
    if not result.ok and refused:
        return TemplateFolder(path, trouble=refused.shown)
    files, more = read_templates(check(result, "reading the templates").stdout)
    words = f"only the first {MOST_TEMPLATES} files are read" if more else ""
    return TemplateFolder(path, tuple(files), words)


def read_templates(text: str) -> tuple[list[TemplateFile], bool]:
    """What ``templates_list`` printed; and whether there are more files."""
    lines = text.splitlines()
    files = sorted(_files(lines), key=lambda file: (file.account, file.name))
    return files, "more" in lines


def _files(lines: list[str]) -> Iterator[TemplateFile]:
    account = ""
    for above, line in pairwise(lines):
        word, _, more = above.partition(" ")
        kind, _, rest = line.partition(" ")
        if word == "team":
            account = more
        name, _, owner = more.partition(" ")
        if word == "team" and kind == "closed":
            yield TemplateFile("", trouble=rest, account=account)
        elif word == "file" and kind == "text":
            yield TemplateFile(_decoded(name), _decoded(rest), account=account, owner=owner)
        elif word == "file":
            yield TemplateFile(_decoded(name), "", rest, account=account, owner=owner)


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode("utf-8-sig", errors="replace")


def template_fields(file: TemplateFile, folder: str) -> dict[str, Any]:
    """The fields that a template gives, as ``corral run`` reads the file.

    Raises:
        CorralError: SPEC_INVALID, with each fault at its line and column.
    """
    return parse_job_file(file.text, Path(folder) / file.account / file.name)


def templates_of(fields: dict[str, Any]) -> TemplateFolder:
    """As the controller's helper sends it.

    Raises:
        CorralError: PARSE_FAILED.
    """
    try:
        sent = cast("list[dict[str, Any]]", fields["files"])
        files = tuple(TemplateFile(**{name: str(file[name]) for name in _FIELDS}) for file in sent)
        return TemplateFolder(str(fields["path"]), files, str(fields["trouble"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CorralError(
            Code.PARSE_FAILED, "the helper's answer cannot be read", hint="load the page again"
        ) from error
