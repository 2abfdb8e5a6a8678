"""The controller: Slurm's files, slurmdbd with MariaDB, slurmctld, slurmrestd. Pure."""

from __future__ import annotations

from typing import Final

from corral.hosts.quote import Script, call, sh
from corral.inspect.slurm import DATABASE_UP, UP
from corral.roles.inventory import ConfiguredSite, Site
from corral.roles.machine.people import accounts
from corral.roles.role import Role, Share
from corral.roles.slurm import packages
from corral.roles.slurm.auth_key import key_paths
from corral.slurm.conf.cluster import DATABASE, JWT_KEY, MARIADB_CNF
from corral.slurm.conf.conf_file import ConfFile, TextFile, read
from corral.slurm.conf.impact import impact_of
from corral.slurm.conf.model import WITHHELD
from corral.slurm.packages import Part
from corral.slurm.version import has
from corral.spec.impacts import Impact
from corral.spec.nodes import STATE_DIR, state_of
from corral.spec.slurm.releases import Feature
from corral.spec.slurm.written_keys import all_keys
from corral.state.base import Desired, Gate, Resource
from corral.state.databases import Database
from corral.state.files import UNITS, File, Gone, ImpactOf
from corral.state.secrets import Secret
from corral.state.service import Service, Stopped
from corral.state.slurm.members import WAIT_S, quiet
from corral.state.slurm.state_folder import StateFolder
from corral.state.system.users import UserAccount

ETC = "/etc/slurm"

SPREAD = call("slurmctld.sh", "slurmctld_reconfigure")
"""Configless slurmd ask for their files at their own start and when slurmctld reconfigures, not
when it restarts: without this they keep the old ones after nodes came or went ("appears to have a
different slurm.conf than the slurmctld", seen with 24.11.5)."""


def _conf(file: ConfFile | TextFile, owner: str = "root:root", mode: str = "644") -> File:
    impact = _impact_of(file) if isinstance(file, ConfFile) else None
    path = f"{ETC}/{file.name}"
    note = _withheld(file) if isinstance(file, ConfFile) else ""
    return File(path, file.text, owner, mode, impact_of=impact, note=note, quiet=quiet(WAIT_S))


def _withheld(file: ConfFile) -> str:
    """Which GPUs no job gets, by gres.conf; "" for none."""
    lines = [line for line in file.lines_of("NodeName") if line.get("Name") == WITHHELD]
    named = (f"{line.value}: {line.get('File')}" for line in lines)
    return f"no job gets GPUs that are not declared ({'; '.join(named)})" if lines else ""


def _impact_of(file: ConfFile) -> ImpactOf:
    def impact(before: str, after: str) -> Impact:
        word, names = impact_of(read(file.name, before) if before else None, file)
        keys = {key.impact for key in all_keys() if key.file == file.name and key.name in names}
        if word == "drain" and not keys & {"drain", "recreate"}:
            # Only nodes that vanish: they have been drained by now (state.slurm.members.Leaving).
            return Impact.RESTART
        return Impact[word.upper()]

    return impact


def jwt(site: Site) -> tuple[Secret, ...]:
    """The key of tokens, made on the controller."""
    if not site.spec.slurm.rest:
        return ()
    return (Secret(JWT_KEY, site.controller, "slurm:slurm", "600", 32),)


def conf_server(site: Site) -> str:
    """Where daemons without files of their own ask for them: each address with its port."""
    return ",".join(f"{site.addresses[name]}:6817" for name in site.controllers)


def slurm_files(site: ConfiguredSite) -> tuple[File, ...]:
    """The files that slurmctld reads and hands out."""
    return tuple(map(_conf, site.slurm_files.shared))


def mounted(site: Site) -> File | Gone:
    """Slurmctld starts once its state is mounted: without it, it would begin with no job."""
    path = f"{UNITS}/slurmctld.service.d/corral-state.conf"
    state = state_of(site.spec)
    if state == STATE_DIR:
        return Gone(path)
    return File(path, f"# Written by Corral.\n[Unit]\nRequiresMountsFor={state}\n")


def _state(site: ConfiguredSite) -> tuple[Resource, ...]:
    """Where the state is, and the files that name it."""
    return (mounted(site), StateFolder(state_of(site.spec)), *slurm_files(site))


def accounting(site: ConfiguredSite) -> tuple[Share, ...]:
    """MariaDB and slurmdbd, where accounting is on."""
    if site.slurm_files.dbd is None:
        return ()
    # slurmdbd refuses a file that others can read (slurmdbd.conf(5)).
    dbd = _conf(site.slurm_files.dbd, "slurm:slurm", "600")
    resources: tuple[Resource, ...] = (
        # A SIGTERM while it starts hangs it until its stop times out, after 15 minutes: its thread
        # for signals has ended, and its start waits for that thread (seen with 11.8.9).
        Service("mariadb", (MARIADB_CNF,), finish_start=True),
        Database(DATABASE, "slurm"),
        *jwt(site),
        *_state(site),
        dbd,
        Service(
            "slurmdbd",
            (dbd.path, *key_paths(site), *_paths(jwt(site))),
            programs=packages.programs(site, Part.SLURMDBD),
            packages=packages.bringing(site),
        ),
    )
    gate = Gate(
        "slurmdbd answers",
        site.controller,
        DATABASE_UP.shell,
        packages.patience(site, 90),
        "read /var/log/slurm/slurmdbd.log and journalctl -u mariadb",
        journal("slurmdbd", "mariadb"),
    )
    return (Share((Desired((site.controller,), resources),), (gate,), "MariaDB and slurmdbd"),)


def service(site: ConfiguredSite) -> Service:
    """Slurmctld with what it reads."""
    inputs = tuple(f"{ETC}/{file.name}" for file in site.slurm_files.shared)
    return Service(
        "slurmctld",
        (*inputs, *key_paths(site), *_paths(jwt(site))),
        reload=sh("timeout 60 scontrol reconfigure"),
        # Jobs go on while slurmctld restarts (quickstart_admin.html).
        impact=Impact.RELOAD,
        spread=SPREAD,
        programs=packages.programs(site, Part.SLURMCTLD),
        packages=packages.bringing(site),
    )


def slurmctld(site: ConfiguredSite) -> tuple[Share, ...]:
    """Slurmctld; without accounting Slurm's files come here."""
    before = () if site.spec.slurm.accounting else (*jwt(site), *_state(site))
    resources: tuple[Resource, ...] = (
        *before,
        service(site),
        *accounts(site),
        # After slurmctld, which asks for it no longer. The database stays.
        *(() if site.spec.slurm.accounting else (Stopped("slurmdbd"),)),
    )
    gate = Gate(
        "slurmctld answers",
        site.controller,
        UP.shell,
        60,
        "read /var/log/slurm/slurmctld.log",
        journal("slurmctld"),
    )
    return (Share((Desired((site.controller,), resources),), (gate,), "slurmctld"),)


def _paths(resources: tuple[Resource, ...]) -> tuple[str, ...]:
    return tuple(r.id.partition(":")[2] for r in resources)


def journal(*units: str) -> Script:
    """The last lines of units' logs."""
    flags = [word for unit in units for word in ("-u", unit)]
    return sh("journalctl --no-pager -o cat -n 15 {flags}", flags=flags)


ROLE: Final = Role("controller", {"accounting": accounting, "controller": slurmctld})


REST_PORT: Final = 6820
REST_UID: Final = 64031

REST_DROP_IN: Final = f"""\
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


def started(site: Site) -> tuple[Share, ...]:
    """Slurmrestd under its own user; it may start together with the compute nodes."""
    if not site.spec.slurm.rest:
        return (Share((Desired((site.controller,), (Stopped("slurmrestd"),)),)),)
    drop_in = "/etc/systemd/system/slurmrestd.service.d/corral.conf"
    resources: tuple[Resource, ...] = (
        UserAccount("slurmrestd", REST_UID, "/nonexistent", "/usr/sbin/nologin", system=True),
        File(drop_in, REST_DROP_IN.replace("%PLUGINS%", _plugins(site))),
        # slurm.conf is read once at its start, so it is an input; the JWT key is never read by it.
        Service(
            "slurmrestd",
            (drop_in, f"{ETC}/slurm.conf"),
            impact=Impact.NONE,
            programs=packages.programs(site, Part.SLURMRESTD),
            packages=packages.bringing(site),
        ),
    )
    gate = Gate(
        "slurmrestd listens",
        site.controller,
        sh("ss -ltnH {filter} | grep -q .", filter=f"sport = :{REST_PORT}"),
        30,
        "read: journalctl -u slurmrestd",
        journal("slurmrestd"),
    )
    return (Share((Desired((site.controller,), resources),), (gate,)),)


def _plugins(site: Site) -> str:
    """Which of its plugins slurmrestd loads; "" for all.

    Without accounting it dies of openapi/slurmdbd: "Failure loading plugin path bindings" (24.11).
    Older plugins bear version numbers, and it serves what it can.
    """
    if site.spec.slurm.accounting or not has(site.version, Feature.OPENAPI_WITHOUT_VERSION):
        return ""
    return " -s openapi/slurmctld"


SLURMRESTD: Final = Role("slurmrestd", {"compute": started})
