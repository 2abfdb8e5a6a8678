"""People of a directory: SSSD on each node, homes at login, members' accounts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Final

from corral import agents
from corral.durations import interval_seconds
from corral.errors import Code, CorralError
from corral.hosts.quote import sh
from corral.roles.inventory import Site
from corral.roles.machine.storage import job_folders_place
from corral.roles.role import Role, Share
from corral.spec.sections.directory import Directory
from corral.state.base import Desired, Gate, Impact, Resource
from corral.state.files import File, Gone
from corral.state.packages import Packages
from corral.state.service import UNITS, Service, Stopped, Timer
from corral.state.system.directory import (
    CA,
    CONF,
    DOMAIN,
    FINGERPRINT,
    GROUP_ACCOUNTS,
    KEYS,
    LOCAL,
    LOCAL_CONF,
    MEMBER_FOLDERS,
    PASSWORD,
    PASSWORD_CONF,
    PROFILE_FILE,
    PROFILE_LINE,
    DirectoryFiles,
    DirectoryPassword,
    GroupAccounts,
    HomesAtLogin,
    HomesFolder,
    KeysFromDirectory,
    MemberFolders,
    OwnSssd,
    RootFile,
    gate,
)

PACKAGES: Final = ("sssd-ldap", "sssd-tools", "libnss-sss", "libpam-sss", "ldap-utils")
GATE_S: Final = 15
"""Seconds in which a server must answer: a wrong password gets no better."""

# Session only, and not for programs without a session such as cron (Session-Interactive-Only).
_PROFILE: Final = f"""\
Name: Home folders at first login (Corral)
Default: no
Priority: 0
Session-Type: Additional
Session-Interactive-Only: yes
Session:
	optional			{PROFILE_LINE}
"""
_DROP_IN: Final = f"{UNITS}/sssd.service.d/corral.conf"
# +: as root, whoever SSSD runs as (systemd.service(5)). SSSD does not start where it fails.
_BEFORE: Final = f"# Written by Corral.\n[Service]\nExecStartPre=+{LOCAL} {CONF} {LOCAL_CONF}\n"
_ABOUT: Final = {
    GROUP_ACCOUNTS: "Slurm accounts of the directory's groups",
    MEMBER_FOLDERS: "Folders of jobs for members of the directory's groups",
}


def sssd_conf(directory: Directory) -> str:
    """SSSD's settings, without the password."""
    groups = ", ".join(group.name for group in directory.groups)
    schema = "rfc2307" if directory.group_members == "names" else "rfc2307bis"
    lines = [
        "# Written by Corral.",
        "[sssd]",
        "config_file_version = 2",
        "services = nss, pam, ssh",
        f"domains = {DOMAIN}",
        "",
        f"[domain/{DOMAIN}]",
        "id_provider = ldap",
        "auth_provider = ldap",
        "access_provider = simple",
        # The directory does not decide who may be root (sssd-sudo starts by its socket).
        "sudo_provider = none",
        f"simple_allow_groups = {groups}",
        f"ldap_uri = {', '.join(directory.uris)}",
        f"ldap_search_base = {directory.base}",
        f"ldap_schema = {schema}",
        "ldap_tls_reqcert = demand",
    ]
    if directory.ca:
        lines.append(f"ldap_tls_cacert = {CA}")
    if directory.tls == "on":
        lines.append("ldap_id_use_start_tls = true")
    if directory.bind_dn:
        lines += [
            f"ldap_default_bind_dn = {directory.bind_dn}",
            "ldap_default_authtok_type = password",
        ]
    lines += [
        f"override_homedir = {directory.homes}/%u",
        f"default_shell = {directory.shell}",
        # No entry of the directory is a user or service of the machine's system.
        "min_id = 1000",
        "",
    ]
    return "\n".join(lines)


def check(site: Site) -> None:
    """SSSD is a service of systemd.

    Raises:
        CorralError: NOT_GOOD, a machine runs none.
    """
    if site.spec.directory is not None and site.pods:
        raise CorralError(
            Code.NOT_GOOD,
            "the directory's people need SSSD, a service of systemd, which does not run here",
            node=site.pods[0],
            hint="leave the group of this machine out of the file, or directory",
        )


def on_nodes(site: Site) -> tuple[Share, ...]:
    """SSSD on every node; without a directory what Corral put there goes."""
    directory, files = site.spec.directory, site.directory
    names = tuple(n for n in site.names if not site.is_pod(n))
    if directory is None or files is None:
        return (Share((Desired(names, _gone()),)),) if names else ()
    desired = (
        Desired(names, _sssd(site, directory, files)),
        Desired(_home_makers(site, directory, names), (HomesFolder(directory.homes),)),
    )
    gates = tuple(
        Gate(
            f"the directory answers on {name}",
            name,
            gate(directory),
            GATE_S,
            "correct the cluster file or the file that it names, then run corral up again; from a "
            "node: ldapsearch -x -H URI -D BIND_DN -y /etc/corral/directory.password -b BASE",
            sh("journalctl -q -u sssd -n 15 --no-pager"),
        )
        for name in names
    )
    return (Share(desired, gates, "people of the directory"),)


def _sssd(site: Site, directory: Directory, files: DirectoryFiles) -> tuple[Resource, ...]:
    secret = (DirectoryPassword(files),) if directory.bind_dn else _without_password()
    authority = File(CA, files.ca) if directory.ca else Gone(CA)
    read = (*((CA,) if directory.ca else ()), *((PASSWORD,) if directory.bind_dn else ()), CONF)
    # Users of this machine are kept out of SSSD at its start.
    before = ("packages:sssd", *(f"user:{user.name}" for user in site.users), "former-people")
    return (
        OwnSssd(),
        Packages("sssd", PACKAGES),
        authority,
        *secret,
        RootFile(CONF, sssd_conf(directory), mode="600"),
        File(LOCAL, local_program(), mode="755"),
        File(_DROP_IN, _BEFORE),
        Service("sssd", (*read, LOCAL, _DROP_IN), impact=Impact.NONE, packages=before),
        File(PROFILE_FILE, _PROFILE),
        HomesAtLogin(on=True),
        File(KEYS, keys_program(), mode="755"),
        KeysFromDirectory(on=True),
    )


def _without_password() -> tuple[Resource, ...]:
    return tuple(map(Gone, (PASSWORD, FINGERPRINT, PASSWORD_CONF)))


def _gone() -> tuple[Resource, ...]:
    return (
        HomesAtLogin(on=False),
        # systemd reads its units again when it disables one.
        Gone(_DROP_IN),
        Stopped("sssd"),
        Gone(CONF),
        Gone(LOCAL_CONF),
        Gone(LOCAL),
        *_without_password(),
        Gone(CA),
        KeysFromDirectory(on=False),
        Gone(KEYS),
    )


def _home_makers(site: Site, directory: Directory, names: tuple[str, ...]) -> tuple[str, ...]:
    """The node that makes the folder of shared homes; all of them where each has its own."""
    folder = PurePosixPath(directory.homes)
    for storage in site.spec.storage:
        if folder.is_relative_to(storage.mount):
            return (storage.server or site.controller,)
    return names


def members(site: Site) -> tuple[Share, ...]:
    """Accounts of members on the controller, their folders where shared storage is kept.

    Both at once, and from then on by a timer.
    """
    directory = site.spec.directory
    places = [place for place in (job_folders_place(site),) if place is not None]
    if directory is None:
        both = (*_timed(GROUP_ACCOUNTS), *_timed(MEMBER_FOLDERS))
        gone = [Desired((site.controller,), both)]
        others = tuple(keeper for keeper, _ in places if keeper != site.controller)
        gone += [Desired(others, _timed(MEMBER_FOLDERS))] if others else []
        return (Share(tuple(gone)),)
    groups = tuple(f"{g.name}:{g.account}:{g.qos or ''}" for g in directory.groups)
    every = interval_seconds(directory.every)
    after = ("service:sssd", f"slurm-accounts:{site.spec.name}")
    accounts = GroupAccounts(site.spec.name, groups, after)
    timed = _timed(GROUP_ACCOUNTS, (site.spec.name, *groups), group_accounts_program(), every)
    shares = [
        Share(
            (Desired((site.controller,), (accounts, *timed)),),
            title="accounts of members of the groups",
        )
    ]
    for keeper, path in places:
        folders = MemberFolders(path, groups, ("service:sssd", f"job-folders:{path}"))
        timed = _timed(MEMBER_FOLDERS, folders.words, member_folders_program(), every)
        shares.append(Share((Desired((keeper,), (folders, *timed)),)))
        if keeper != site.controller:
            shares.append(Share((Desired((site.controller,), _timed(MEMBER_FOLDERS)),)))
    return tuple(shares)


def _timed(
    name: str, arguments: Sequence[str] = (), text: str = "", every: int = 0
) -> tuple[Resource, ...]:
    """A program that a timer starts each ``every`` seconds; with 0 none is there."""
    unit = f"corral-{name}"
    program = f"/usr/local/sbin/{unit}"
    service, timer = (f"{UNITS}/{unit}.{kind}" for kind in ("service", "timer"))
    if not every:
        return (Timer(unit, on=False), Gone(timer), Gone(service), Gone(program))
    command = " ".join((program, *map(_unit_word, arguments)))
    about = f"# Written by Corral.\n[Unit]\nDescription={_ABOUT[name]}\n"
    return (
        File(program, text, mode="755"),
        File(
            service,
            f"{about}\n[Service]\nType=oneshot\nExecStart={command}\nTimeoutStartSec=10min\n",
        ),
        File(
            timer,
            f"{about}\n[Timer]\nOnActiveSec={every}s\nOnUnitInactiveSec={every}s\nAccuracySec=5s\n"
            "\n[Install]\nWantedBy=timers.target\n",
        ),
        Timer(unit),
    )


def _unit_word(word: str) -> str:
    """An argument in ExecStart=; names have no quotes, paths no percent signs."""
    return f'"{word}"' if " " in word else word


@cache
def local_program() -> str:
    """The text of the program that runs before SSSD."""
    return agents.program("directory-local.sh")


@cache
def keys_program() -> str:
    """The text of the program that sshd asks for keys."""
    return agents.program("directory-keys.sh")


@cache
def group_accounts_program() -> str:
    """The program's text."""
    return agents.program("group-accounts.sh")


@cache
def member_folders_program() -> str:
    """The program's text."""
    return agents.program("member-folders.sh")


ROLE: Final = Role("directory", {"directory": on_nodes, GROUP_ACCOUNTS: members}, check=check)
