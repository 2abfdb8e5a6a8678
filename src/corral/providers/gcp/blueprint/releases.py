"""What the Cluster Toolkit's releases have: modules, their settings and outputs; scripts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import Field

from corral.agents import program
from corral.errors import Code, CorralError
from corral.providers.gcp.figures import Form
from corral.tables import Row, read_table

Kind = Literal["string", "number", "bool", "list", "map", "set", "object", "any"]


class Module(Row):
    """One module of a release; ``toolkit.yaml`` has the meanings."""

    settings: Mapping[str, Annotated[str, Field(pattern=rf"^({'|'.join(get_args(Kind))})!?$")]]
    outputs: tuple[str, ...]


class ToolkitRelease(Row):
    """One release; ``releases.yaml`` has the meanings."""

    slurm_gcp: str
    cluster_name: Form


class Prologs(Row):
    """Scripts of slurm-gcp that slurmd runs for jobs."""

    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    digests: Mapping[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]


class ToolkitReleases(Row):
    """All releases, and the prologs that go with each of them."""

    releases: Mapping[str, ToolkitRelease]
    prologs: Prologs


@cache
def known_releases() -> ToolkitReleases:
    """The table of releases."""
    return read_table("corral.providers.gcp.blueprint", "releases.yaml", ToolkitReleases)


@cache
def modules(release: str) -> Mapping[str, Module]:
    """The modules of a release that Corral uses, by source path, as recorded from its own files."""
    every = read_table(
        "corral.providers.gcp.blueprint", "toolkit.yaml", dict[str, dict[str, Module]]
    )
    return every[release]


@cache
def script(name: str, **values: str) -> str:
    """One of Corral's scripts for the machines, with ``@NAME@`` replaced by values.

    Values are words of the cluster file, whose patterns hold nothing that a shell would take for
    more than a word.
    """
    text = program(f"../providers/gcp/programs/{name}")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def check(release: str, blueprint: Mapping[str, Any]) -> None:
    """Every module and setting that a blueprint names is in that release.

    Raises:
        CorralError: NOT_GOOD, one is not: Corral's own mistake, found before Google's money is
            spent.
    """
    wrong = [fault for group in blueprint["deployment_groups"] for fault in _wrong(release, group)]
    if wrong:
        raise CorralError(
            Code.NOT_GOOD,
            f"the blueprint does not fit toolkit {release}: {wrong[0]}",
            tail="\n".join(wrong),
            hint="report this: Corral wrote it",
        )


def _wrong(release: str, group: Mapping[str, Any]) -> list[str]:
    known = modules(release)
    faults: list[str] = []
    for entry in group["modules"]:
        module = known.get(entry["source"])
        if module is None:
            faults.append(f"{entry['id']}: no module {entry['source']}")
            continue
        settings = cast("dict[str, Any]", entry.get("settings", {}))
        for name, value in settings.items():
            kind = module.settings.get(name, "").rstrip("!")
            if not kind:
                faults.append(f"{entry['id']}: {entry['source']} has no setting {name}")
            elif not _fits(kind, value):
                faults.append(f"{entry['id']}: {name} is a {kind}")
        outputs = cast("list[str]", entry.get("outputs", []))
        faults += [f"{entry['id']}: no output {o}" for o in outputs if o not in module.outputs]
    return faults


def _fits(kind: str, value: object) -> bool:
    if value is None or (isinstance(value, str) and value.startswith("$(")):
        return True  # an expression: its type is the toolkit's to check
    if isinstance(value, bool):
        return kind in ("bool", "any")
    if isinstance(value, str):
        return kind in ("string", "any")
    if isinstance(value, int):
        return kind in ("number", "any")
    if isinstance(value, list):
        return kind in ("list", "set", "any")
    return kind in ("map", "object", "any")
