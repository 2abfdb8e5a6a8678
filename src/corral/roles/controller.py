"""The controller: Slurm's files, slurmdbd with MariaDB, slurmctld, slurmrestd."""

from __future__ import annotations

from corral.hosts.quote import Script, sh
from corral.roles import slurm_packages
from corral.roles.base import key_paths
from corral.roles.people import accounts
from corral.roles.site import Site
from corral.slurm.conf.cluster import DATABASE, JWT_KEY, MARIADB_CNF
from corral.slurm.conf.keys import all_keys, impact_of
from corral.slurm.packages import Part
from corral.slurm.version import SlurmVersion
from corral.state.accounts import UserAccount
from corral.state.base import Gate, Impact, Resource, StageWanted, Wanted
from corral.state.database import Database
from corral.state.files import File, ImpactOf
from corral.state.members import WAIT_S, quiet
from corral.state.secret import Secret
from corral.state.service import Service, Stopped

ETC = "/etc/slurm"
REST_PORT = 6820
REST_UID = 64031

SPREAD = sh(
    "i=0; until timeout 5 scontrol ping | grep -q ' is UP'; do i=$((i + 1)); "
    "[ $i -lt 120 ] || exit 1; sleep 0.5; done; timeout 60 scontrol reconfigure"
)
"""Configless slurmd ask for their files at their own start and when slurmctld reconfigures, not
when it restarts: without this they keep the old ones after nodes came or went ("appears to have a
different slurm.conf than the slurmctld", seen with 24.11.5)."""

REST_DROP_IN = f"""\
# Written by Corral. slurmrestd must run neither as root nor as SlurmUser (slurmrestd(8)), and its
# plain HTTP has no replay protection: loopback only, JWT only.
[Service]
User=slurmrestd
Group=slurmrestd
Environment=SLURM_JWT=daemon
# SchedMD's unit listens on all addresses by this; and the port would be taken when it comes twice.
UnsetEnvironment=SLURMRESTD_LISTEN
ExecStart=
ExecStart=/usr/sbin/slurmrestd -a rest_auth/jwt%PLUGINS% 127.0.0.1:{REST_PORT}
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
Restart=on-failure
"""


def stages(site: Site, files: dict[str, str]) -> tuple[StageWanted, ...]:
    """Accounting, then slurmctld; slurmrestd belongs to the compute stage's time (``rest``)."""
    found: list[StageWanted] = []
    if site.spec.slurm.accounting:
        found.append(_accounting(site, files))
    found.append(_slurmctld(site, files))
    return tuple(found)


def rest(site: Site) -> tuple[Wanted, ...]:
    """Slurmrestd under its own user; it may start together with the compute nodes."""
    if not site.spec.slurm.rest:
        return (Wanted((site.controller,), (Stopped("slurmrestd"),)),)
    drop_in = "/etc/systemd/system/slurmrestd.service.d/corral.conf"
    resources: tuple[Resource, ...] = (
        UserAccount("slurmrestd", REST_UID, "/nonexistent", "/usr/sbin/nologin", system=True),
        File(drop_in, REST_DROP_IN.replace("%PLUGINS%", _rest_plugins(site))),
        # slurm.conf is read once at its start, so it is an input; the JWT key is never read by it.
        Service(
            "slurmrestd",
            (drop_in, f"{ETC}/slurm.conf"),
            impact=Impact.NONE,
            programs=slurm_packages.programs(site, Part.SLURMRESTD),
            packages=slurm_packages.bringing(site),
        ),
    )
    return (Wanted((site.controller,), resources),)


def _rest_plugins(site: Site) -> str:
    """Which of its plugins slurmrestd loads; "" for all.

    Without accounting it dies of openapi/slurmdbd: "Failure loading plugin path bindings" (24.11).
    Before 24.05 the plugins bear version numbers, and it serves what it can.
    """
    if site.spec.slurm.accounting or site.version < SlurmVersion(24, 5):
        return ""
    return " -s openapi/slurmctld"


def rest_gate(site: Site) -> tuple[Gate, ...]:
    """Slurmrestd listens."""
    if not site.spec.slurm.rest:
        return ()
    return (
        Gate(
            "slurmrestd listens",
            site.controller,
            sh("ss -ltnH {filter} | grep -q .", filter=f"sport = :{REST_PORT}"),
            30,
            "read: journalctl -u slurmrestd",
            _journal("slurmrestd"),
        ),
    )


def _conf(name: str, text: str, owner: str = "root:root", mode: str = "644") -> File:
    return File(f"{ETC}/{name}", text, owner, mode, impact_of=_impact(name), quiet=quiet(WAIT_S))


def _impact(name: str) -> ImpactOf:
    def impact(before: str, after: str) -> Impact:
        word, names = impact_of(name, before, after)
        keys = {key.impact for key in all_keys() if key.file == name and key.name in names}
        if word == "drain" and not keys & {"drain", "recreate"}:
            # Only nodes that vanish: they have been drained by now (state.members.Leaving).
            return Impact.RESTART
        return Impact[word.upper()]

    return impact


def _jwt(site: Site) -> tuple[Resource, ...]:
    if not site.spec.slurm.rest:
        return ()
    return (Secret(JWT_KEY, site.controller, "slurm:slurm", "600", 32),)


def _slurm_files(site: Site, files: dict[str, str]) -> tuple[File, ...]:
    names = ("slurm.conf", "gres.conf", "cgroup.conf", "topology.conf", "plugstack.conf")
    return tuple(_conf(name, files[name]) for name in names if name in files)


def _accounting(site: Site, files: dict[str, str]) -> StageWanted:
    dbd = f"{ETC}/slurmdbd.conf"
    resources: tuple[Resource, ...] = (
        Service("mariadb", (MARIADB_CNF,)),
        Database(DATABASE, "slurm"),
        *_jwt(site),
        *_slurm_files(site, files),
        # slurmdbd refuses a file that others can read (slurmdbd.conf(5)).
        _conf("slurmdbd.conf", files["slurmdbd.conf"], "slurm:slurm", "600"),
        Service(
            "slurmdbd",
            (dbd, *key_paths(site), *_paths(_jwt(site))),
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
        _journal("slurmdbd", "mariadb"),
    )
    return StageWanted(
        "accounting", "MariaDB and slurmdbd", (Wanted((site.controller,), resources),), (gate,)
    )


def _slurmctld(site: Site, files: dict[str, str]) -> StageWanted:
    inputs = tuple(f.path for f in _slurm_files(site, files))
    before = () if site.spec.slurm.accounting else (*_jwt(site), *_slurm_files(site, files))
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
        _journal("slurmctld"),
    )
    return StageWanted("controller", "slurmctld", (Wanted((site.controller,), resources),), (gate,))


def _paths(resources: tuple[Resource, ...]) -> tuple[str, ...]:
    return tuple(r.id.partition(":")[2] for r in resources)


def _journal(*units: str) -> Script:
    flags = [word for unit in units for word in ("-u", unit)]
    return sh("journalctl --no-pager -o cat -n 15 {flags}", flags=flags)
