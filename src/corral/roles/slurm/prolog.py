"""Prolog and epilog: folders of small scripts on each compute node. Pure but for its own files."""

from __future__ import annotations

from functools import cache
from typing import Final

from corral import agents
from corral.roles.inventory import Site
from corral.roles.machine import containers
from corral.roles.role import Role, Share
from corral.slurm.conf.conf_file import Setting
from corral.slurm.conf.model import Contribution
from corral.spec.sections.services import Prolog
from corral.state.base import Desired, Resource
from corral.state.files import Directory, File, Parts

FOLDER: Final = "/etc/slurm"
PROLOG: Final = f"{FOLDER}/prolog.sh"
EPILOG: Final = f"{FOLDER}/epilog.sh"
LOCAL: Final = "/var/lib/enroot"
"""Where the scripts have Enroot's folders, unless the file names another disk."""

_LEFTOVERS: Final = ("epilog.d/40-lastuserjob-processes", "epilog.d/42-lastuserjob-cleanup")
_GPUS: Final = ("epilog.d/45-job-gpu-processes", "epilog.d/50-exclusive-gpu")
_CLOCKS: Final = (
    "prolog.d/50-exclusive-cpu",
    "prolog.d/50-exclusive-gpu",
    "epilog.d/60-exclusive-cpu",
)
_CACHES: Final = ("epilog.d/80-exclusive-caches",)
_ENROOT: Final = ("prolog.d/50-all-enroot-dirs", "epilog.d/50-lastuserjob-enroot-dirs")


def declared(site: Site) -> Prolog | None:
    """What the file asks for; containers need folders for each user, so they bring it along."""
    prolog = site.spec.slurm.prolog
    if prolog is None and containers.declared(site.spec):
        return Prolog(leftovers=False, gpus=False)
    return prolog


def on_nodes(site: Site) -> tuple[Share, ...]:
    """The scripts on every compute node, before slurm.conf names them."""
    prolog = declared(site)
    nodes = tuple(n.name for n in site.compute)
    if prolog is None or not nodes:
        return ()
    runner = text("run.sh")
    pyxis = containers.declared(site.spec)
    local = pyxis.local if pyxis else ""
    resources: tuple[Resource, ...] = (
        Directory(f"{FOLDER}/prolog.d"),
        Directory(f"{FOLDER}/epilog.d"),
        *(_parts(prolog, when, local) for when in ("prolog", "epilog")),
        File(PROLOG, runner, mode="755"),
        File(EPILOG, runner, mode="755"),
    )
    return (Share((Desired(nodes, resources),)),)


def slurm_conf(site: Site) -> Contribution:
    """Slurmd runs both; a node on which one fails keeps its jobs waiting, not held."""
    prolog = declared(site)
    if prolog is None:
        return Contribution()
    return Contribution(
        (
            Setting("Prolog", PROLOG),
            Setting("Epilog", EPILOG),
            Setting("PrologEpilogTimeout", str(prolog.minutes * 60)),
            Setting("SchedulerParameters", "nohold_on_prolog_fail"),
        )
    )


def chosen(prolog: Prolog, *, containers: bool) -> tuple[str, ...]:
    """Names of the scripts that are wanted, with their folder."""
    scripts: list[str] = []
    for on, names in (
        (prolog.leftovers, _LEFTOVERS),
        (prolog.gpus, _GPUS),
        (prolog.clocks == "highest", _CLOCKS),
        (prolog.drop_caches, _CACHES),
        (containers, _ENROOT),
    ):
        scripts += names if on else ()
    return tuple(sorted(scripts))


@cache
def text(name: str) -> str:
    """One of the scripts that ship with Corral (``agents/prolog``)."""
    return agents.program(f"prolog/{name}")


def _parts(prolog: Prolog, when: str, local: str) -> Parts:
    names = [n for n in chosen(prolog, containers=bool(local)) if n.startswith(f"{when}.d/")]
    return Parts(
        f"{FOLDER}/{when}.d",
        tuple((n.partition("/")[2], _placed(text(n), local or LOCAL)) for n in names),
    )


def _placed(script: str, local: str) -> str:
    return script.replace("@local@", local)


ROLE: Final = Role("prolog", {"base": on_nodes}, slurm_conf)
