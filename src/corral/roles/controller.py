"""The controller: Slurm's files, slurmdbd with MariaDB, slurmctld."""

from __future__ import annotations

from typing import Final

from corral.hosts.quote import Script, sh
from corral.roles import slurm_packages
from corral.roles.auth_key import key_paths
from corral.roles.inventory import ConfiguredSite, Site
from corral.roles.people import accounts
from corral.roles.role import Role, Share
from corral.slurm.conf.cluster import DATABASE, JWT_KEY, MARIADB_CNF
from corral.slurm.conf.conf_file import ConfFile, TextFile, read
from corral.slurm.conf.impact import impact_of
from corral.slurm.conf.keys import all_keys
from corral.slurm.packages import Part
from corral.state.base import Gate, Impact, Resource, Wanted
from corral.state.database import Database
from corral.state.files import File, ImpactOf
from corral.state.members import WAIT_S, quiet
from corral.state.secret import Secret
from corral.state.service import Service, Stopped

ETC = "/etc/slurm"

SPREAD = sh(
    "i=0; until timeout 5 scontrol ping | grep -q ' is UP'; do i=$((i + 1)); "
    "[ $i -lt 120 ] || exit 1; sleep 0.5; done; timeout 60 scontrol reconfigure"
)
"""Configless slurmd ask for their files at their own start and when slurmctld reconfigures, not
when it restarts: without this they keep the old ones after nodes came or went ("appears to have a
different slurm.conf than the slurmctld", seen with 24.11.5)."""


def _conf(file: ConfFile | TextFile, owner: str = "root:root", mode: str = "644") -> File:
    impact = _impact_of(file) if isinstance(file, ConfFile) else None
    path = f"{ETC}/{file.name}"
    return File(path, file.text, owner, mode, impact_of=impact, quiet=quiet(WAIT_S))


def _impact_of(file: ConfFile) -> ImpactOf:
    def impact(before: str, after: str) -> Impact:
        word, names = impact_of(read(file.name, before) if before else None, file)
        keys = {key.impact for key in all_keys() if key.file == file.name and key.name in names}
        if word == "drain" and not keys & {"drain", "recreate"}:
            # Only nodes that vanish: they have been drained by now (state.members.Leaving).
            return Impact.RESTART
        return Impact[word.upper()]

    return impact


def _jwt(site: Site) -> tuple[Resource, ...]:
    if not site.spec.slurm.rest:
        return ()
    return (Secret(JWT_KEY, site.controller, "slurm:slurm", "600", 32),)


def _slurm_files(site: ConfiguredSite) -> tuple[File, ...]:
    return tuple(map(_conf, site.slurm_files.shared))


def accounting(site: ConfiguredSite) -> tuple[Share, ...]:
    """MariaDB and slurmdbd, where accounting is on."""
    if site.slurm_files.dbd is None:
        return ()
    # slurmdbd refuses a file that others can read (slurmdbd.conf(5)).
    dbd = _conf(site.slurm_files.dbd, "slurm:slurm", "600")
    resources: tuple[Resource, ...] = (
        Service("mariadb", (MARIADB_CNF,)),
        Database(DATABASE, "slurm"),
        *_jwt(site),
        *_slurm_files(site),
        dbd,
        Service(
            "slurmdbd",
            (dbd.path, *key_paths(site), *_paths(_jwt(site))),
            programs=slurm_packages.programs(site, Part.SLURMDBD),
            packages=slurm_packages.bringing(site),
        ),
    )
    gate = Gate(
        "slurmdbd answers",
        site.controller,
        sh("timeout 5 sacctmgr -nP show cluster"),
        slurm_packages.patience(site, 90),
        "read /var/log/slurm/slurmdbd.log and journalctl -u mariadb",
        journal("slurmdbd", "mariadb"),
    )
    return (Share((Wanted((site.controller,), resources),), (gate,), "MariaDB and slurmdbd"),)


def slurmctld(site: ConfiguredSite) -> tuple[Share, ...]:
    """Slurmctld; without accounting Slurm's files come here."""
    inputs = tuple(f"{ETC}/{file.name}" for file in site.slurm_files.shared)
    before = () if site.spec.slurm.accounting else (*_jwt(site), *_slurm_files(site))
    resources: tuple[Resource, ...] = (
        *before,
        Service(
            "slurmctld",
            (*inputs, *key_paths(site), *_paths(_jwt(site))),
            reload=sh("timeout 60 scontrol reconfigure"),
            # Jobs go on while slurmctld restarts (quickstart_admin.html).
            impact=Impact.RELOAD,
            spread=SPREAD,
            programs=slurm_packages.programs(site, Part.SLURMCTLD),
            packages=slurm_packages.bringing(site),
        ),
        *accounts(site),
        # After slurmctld, which asks for it no longer. The database stays.
        *(() if site.spec.slurm.accounting else (Stopped("slurmdbd"),)),
    )
    gate = Gate(
        "slurmctld answers",
        site.controller,
        sh("timeout 5 scontrol ping | grep -q ' is UP'"),
        60,
        "read /var/log/slurm/slurmctld.log",
        journal("slurmctld"),
    )
    return (Share((Wanted((site.controller,), resources),), (gate,), "slurmctld"),)


def _paths(resources: tuple[Resource, ...]) -> tuple[str, ...]:
    return tuple(r.id.partition(":")[2] for r in resources)


def journal(*units: str) -> Script:
    """The last lines of units' logs."""
    flags = [word for unit in units for word in ("-u", unit)]
    return sh("journalctl --no-pager -o cat -n 15 {flags}", flags=flags)


ROLE: Final = Role("controller", {"accounting": accounting, "controller": slurmctld})
