"""Keys of slurm.conf for nodes that come and go, with their reasons. Data."""

from __future__ import annotations

from typing import Final

from corral.slurm.conf.key import ImpactWord, Key


def _key(name: str, value: str, reason: str, impact: ImpactWord) -> Key:
    return Key("slurm.conf", name, value, reason, "slurm.conf(5), power_save.html", impact)


POWER: Final = (
    _key(
        "ResumeProgram",
        "/bin/true, with elastic nodes",
        "Slurm only marks nodes that must come; `corral elastic` reads the marks and rents. So no "
        "request is lost when it is not there, and no key of a cloud lies on the controller.",
        "restart",
    ),
    _key(
        "SuspendProgram",
        "/bin/true, with elastic nodes",
        "As ResumeProgram: nodes marked as powered down are ended by `corral elastic`.",
        "restart",
    ),
    _key("SuspendTime", "the group's elastic.idle", "An idle node costs money.", "reload"),
    _key(
        "SuspendTimeout",
        "60, with elastic nodes",
        "Until then a node that goes is not asked for again.",
        "reload",
    ),
    _key(
        "ResumeTimeout",
        "the group's elastic.boot",
        "The default of 60 s is far too short for a machine that is rented and set up.",
        "reload",
    ),
    _key(
        "ResumeRate",
        "0 (at once), with elastic nodes",
        "Corral keeps each cloud's rate limit itself; the default lets 300 nodes a minute come.",
        "reload",
    ),
    _key(
        "SuspendRate",
        "0 (at once), with elastic nodes",
        "The default lets 60 nodes a minute go: of 1,000 the last ones cost 16 minutes of idling.",
        "reload",
    ),
    _key(
        "SuspendExcNodes",
        "nodes that are not elastic; elastic.min of each elastic group",
        "SuspendTime holds for every node: without this your own machines would be powered down.",
        "reload",
    ),
    _key(
        "PrivateData",
        "cloud, with elastic nodes",
        "Shows nodes that are powered down in sinfo; hidden, nobody knows what could be had.",
        "reload",
    ),
    Key(
        "slurm.conf",
        "State",
        "CLOUD, for elastic nodes",
        "The node is not there until a job needs it, and has no address until then.",
        "slurm.conf(5)",
        "restart",
        line="NodeName",
    ),
)
