"""What the Cluster Toolkit's releases have: modules, their settings and outputs; scripts. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

from corral.agents import program
from corral.errors import Code, CorralError

_TABLE: Final = files("corral.providers.gcp.blueprint").joinpath("toolkit.json")
SLURM_GCP: Final = {"v1.95.0": "6.12.1", "v1.39.0": "6.6.2"}
"""The slurm-gcp release that each toolkit's own example builds its image with."""

PROLOGS_COMMIT: Final = "f10bb0e967cc6d29b03a21b5a80b7a7c2d7f151c"
"""slurm-gcp, 2026-07-20: plugin v1.0.17 and RxDM v1.0.23; its test takes any Ubuntu."""

PROLOGS: Final = {
    "receive-data-path-manager-mega": (
        "62025cc0df67d942a9d723f11a3efada4d419ffcda0d04e7788790f72199864b"
    ),
    "imex_prolog": "3b2aadc36bba1a4e16a7a836931c2539265fa782165dc5562f2ee80e24437517",
    "imex_epilog": "524976c85e72f10a2c03b53a29e43f8e7ec51821fd75e96cf3f8e9d0916ea1ee",
    "sudo-oslogin": "8b8094f6c29d0b40757586fd905248f28218860539010da38f7a4806db95d3e1",
}
"""Digests of scripts in tools/prologs-epilogs at that commit."""


@dataclass(frozen=True, slots=True)
class Module:
    """One module of a release.

    Attributes:
        settings: type by name: string, number, bool, list, map, set, object or any; "!" behind it
            where the module has no default.
        outputs: names of what it gives.
    """

    settings: Mapping[str, str]
    outputs: tuple[str, ...]


@cache
def modules(release: str) -> Mapping[str, Module]:
    """The modules of a release that Corral uses, by source path, as recorded from its own files."""
    every = cast("dict[str, dict[str, Any]]", json.loads(_TABLE.read_text("utf-8")))
    return {
        source: Module(module["settings"], tuple(module["outputs"]))
        for source, module in every[release].items()
    }


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
