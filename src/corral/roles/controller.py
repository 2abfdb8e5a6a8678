"""The controller: Slurm's files, slurmdbd with MariaDB, slurmctld, slurmrestd."""

from __future__ import annotations

from corral.hosts.quote import Script, sh
from corral.roles.base import key
from corral.roles.site import Site
from corral.slurm.conf.cluster import DATABASE, JWT_KEY, MARIADB_CONF
from corral.slurm.conf.keys import impact_of
from corral.state.accounts import UserAccount
from corral.state.base import Gate, Impact, Resource, StageWanted, Wanted
from corral.state.database import Database, SlurmAccounts
from corral.state.files import File, ImpactOf
from corral.state.secret import Secret
from corral.state.service import Service

ETC = "/etc/slurm"
REST_PORT = 6820
REST_UID = 64031
ACCOUNT = "corral"

REST_DROP_IN = f"""\
# Written by Corral. slurmrestd must run neither as root nor as SlurmUser (slurmrestd(8)), and its
# plain HTTP has no replay protection: loopback only, JWT only.
[Service]
User=slurmrestd
Group=slurmrestd
Environment=SLURM_JWT=daemon
ExecStart=
ExecStart=/usr/sbin/slurmrestd -a rest_auth/jwt 127.0.0.1:{REST_PORT}
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
        return ()
    drop_in = "/etc/systemd/system/slurmrestd.service.d/corral.conf"
    resources: tuple[Resource, ...] = (
        UserAccount("slurmrestd", REST_UID, "/nonexistent", "/usr/sbin/nologin", system=True),
        File(drop_in, REST_DROP_IN),
        # slurm.conf is read once at its start, so it is an input; the JWT key is never read by it.
        Service("slurmrestd", (drop_in, f"{ETC}/slurm.conf"), impact=Impact.NONE),
    )
    return (Wanted((site.controller,), resources),)


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
    return File(f"{ETC}/{name}", text, owner, mode, impact_of=_impact(name))


def _impact(name: str) -> ImpactOf:
    def impact(before: str, after: str) -> Impact:
        word, _ = impact_of(name, before, after)
        return Impact[word.upper()]

    return impact


def _jwt(site: Site) -> tuple[Resource, ...]:
    if not site.spec.slurm.rest:
        return ()
    return (Secret(JWT_KEY, site.controller, "slurm:slurm", "600", 32),)


def _slurm_files(site: Site, files: dict[str, str]) -> tuple[File, ...]:
    return tuple(_conf(name, files[name]) for name in ("slurm.conf", "gres.conf", "cgroup.conf"))


def _accounting(site: Site, files: dict[str, str]) -> StageWanted:
    mariadb = "/etc/mysql/mariadb.conf.d/90-corral.cnf"
    dbd = f"{ETC}/slurmdbd.conf"
    resources: tuple[Resource, ...] = (
        File(mariadb, MARIADB_CONF),
        Service("mariadb", (mariadb,)),
        Database(DATABASE, "slurm"),
        *_jwt(site),
        *_slurm_files(site, files),
        # slurmdbd refuses a file that others can read (slurmdbd.conf(5)).
        _conf("slurmdbd.conf", files["slurmdbd.conf"], "slurm:slurm", "600"),
        Service("slurmdbd", (dbd, key(site).path, *_paths(_jwt(site)))),
    )
    gate = Gate(
        "slurmdbd answers",
        site.controller,
        sh("timeout 5 sacctmgr -nP show cluster"),
        90,
        "read /var/log/slurm/slurmdbd.log and journalctl -u mariadb",
        _journal("slurmdbd", "mariadb"),
    )
    return StageWanted(
        "accounting", "MariaDB and slurmdbd", (Wanted((site.controller,), resources),), (gate,)
    )


def _slurmctld(site: Site, files: dict[str, str]) -> StageWanted:
    inputs = tuple(f.path for f in _slurm_files(site, files))
    before = () if site.spec.slurm.accounting else (*_jwt(site), *_slurm_files(site, files))
    accounts = (
        (SlurmAccounts(site.spec.name, ACCOUNT, tuple(u.name for u in site.users)),)
        if site.spec.slurm.accounting
        else ()
    )
    resources: tuple[Resource, ...] = (
        *before,
        Service(
            "slurmctld",
            (*inputs, key(site).path, *_paths(_jwt(site))),
            reload=sh("timeout 60 scontrol reconfigure"),
            # Jobs go on while slurmctld restarts (quickstart_admin.html).
            impact=Impact.RELOAD,
        ),
        *accounts,
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
