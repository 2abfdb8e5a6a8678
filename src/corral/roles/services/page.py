"""The page as a service on the controller (docs/decisions/0054). Pure."""

from __future__ import annotations

import json
from typing import Any, Final

from corral.agents import program
from corral.hosts.quote import sh
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.roles.services import corral_wheels, page_login
from corral.roles.services.metrics import PROMETHEUS
from corral.roles.services.socket_unit import SocketUnit
from corral.roles.slurm.controller import REST_PORT
from corral.spec.sections.page_login import PageLogin
from corral.spec.sections.services import Page, Services
from corral.state.base import Desired, Gate, Resource
from corral.state.files import File
from corral.state.service import UNITS, Service, Stopped
from corral.state.system.users import UserAccount

UNIT: Final = "corral-web"
USER: Final = "corral-web"
UID: Final = 64036
SETTINGS: Final = "/etc/corral/web.json"
TLS: Final = f"/run/{UNIT}-tls"
RENEW: Final = f"{UNIT}-tls"
"""Name of the timer, which runs as long as the page, and of its service: a renewed certificate."""
TOKENS: Final = f"/var/lib/{UNIT}/api-tokens.json"
"""The API's tokens, as digests, in the service's StateDirectory."""
NODE_EVENTS: Final = f"/var/lib/{UNIT}/node-events.json"
"""What happened to nodes, in the same folder."""
HELPER: Final = "corral-web-user"
"""Name of the socket and of its service, which do one user's own things (web/as_user.py)."""
HELPER_SOCKET: Final = "/run/corral-web/user.sock"

# systemd opens the settings as root, and root copies the TLS key into a folder that is this
# service's alone and goes with it: both may be root's. Not LoadCredential: its mount comes to
# nothing where the machine's / is not a shared mount, as in podman's containers (systemd 257).
# AF_NETLINK: the kernel knows whose a connection of this machine is (web/listener/peers.py).
_TEXT: Final = """\
# Written by Corral: the cluster's page.
[Unit]
Description=Page of the Corral cluster
After=network-online.target slurmrestd.service
Wants=network-online.target%RENEW%
StartLimitIntervalSec=0

[Service]
User=corral-web
Group=corral-web
ExecStart=%PYTHON% -I -m corral.web
StandardInput=file:%SETTINGS%
StandardOutput=journal
StateDirectory=corral-web
StateDirectoryMode=0700
%TLS%Restart=always
RestartSec=2
MemoryMax=1G
%HARDENED%RestrictAddressFamilies=AF_NETLINK
[Install]
WantedBy=multi-user.target
"""
# It begins as root, lets Slurm judge the token, and goes on as its user; never as root.
_HELPER: Final = """\
# Written by Corral: one request of the page, done as the user whose token Slurm has accepted.
[Unit]
Description=One user's request of the Corral page
CollectMode=inactive-or-failed

[Service]
ExecStart=%PYTHON% -I -m corral.web.as_user
StandardInput=socket
StandardOutput=socket
StandardError=journal
MemoryMax=512M
TasksMax=64
ProtectSystem=strict
ReadWritePaths=%SHARED%
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_CHOWN
NoNewPrivileges=yes
"""
END: Final = "corral-job-end"
"""Name of the socket and of its service, which explain a job's end to what sends messages."""
END_SOCKET: Final = "/run/corral-job-end/end.sock"

# As above, but it is Slurm's user that asks, about a job that has ended. CAP_SETUID and CAP_SETGID:
# it reads the output as the job's user.
_END: Final = """\
# Written by Corral: why one job failed, for the message about its end.
[Unit]
Description=Why a job failed
CollectMode=inactive-or-failed

[Service]
ExecStart=%PYTHON% -I -m corral.web.users.job_end
StandardInput=socket
StandardOutput=socket
StandardError=journal
RuntimeMaxSec=90
MemoryMax=512M
TasksMax=64
LimitCORE=0
ProtectSystem=strict
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictSUIDSGID=yes
LockPersonality=yes
CapabilityBoundingSet=CAP_SETUID CAP_SETGID
NoNewPrivileges=yes
"""
_RENEW: Final = f"""\
# Written by Corral: the page loads its certificate again when the files have changed.
[Unit]
Description=Renewed certificate of the Corral page
ConditionPathExists={TLS}/certificate

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'cmp -s %CERTIFICATE% {TLS}/certificate && cmp -s %KEY% {TLS}/key || \\
    systemctl reload {UNIT}'
"""
_HOURLY: Final = f"""\
# Written by Corral.
[Unit]
Description=Renewed certificate of the Corral page
PartOf={UNIT}.service

[Timer]
OnCalendar=hourly
RandomizedDelaySec=600
"""


def on_controller(site: Site) -> tuple[Share, ...]:
    """The page's service; or it stops, where it is declared no longer."""
    if not site.spec.services.ui:
        stopped = (Stopped(UNIT), Stopped(f"{HELPER}-listen"), Stopped(f"{END}-listen"))
        no_login = page_login.resources(PageLogin(), USER)
        gone = Desired((site.controller,), (*stopped, *no_login))
        return (Share((gone,), title="no page on the controller"),)
    code = corral_wheels.environment(site)
    unit = f"/etc/systemd/system/{UNIT}.service"
    helper = _filled(_HELPER, {"SHARED": _shared(site)})
    about = "what the page asks in a user's name, with that user's Slurm token"
    title = "Users' own jobs for the Corral page"
    own = SocketUnit(HELPER, HELPER_SOCKET, USER, about, title).resources(helper)
    renewing = _renewing(site.spec.services.page)
    resources: tuple[Resource, ...] = (
        UserAccount(USER, UID, "/nonexistent", "/usr/sbin/nologin", system=True),
        File(SETTINGS, settings(site), mode="600"),
        *own,
        *page_login.resources(site.spec.services.page.login, USER),
        *_explaining(site.spec.services),
        File(unit, _unit(site.spec.services.page)),
        *renewing,
        Service(UNIT, (unit, SETTINGS, code.marker, *(file.path for file in renewing))),
    )
    title = f"the page on {site.controller}"
    return (Share((Desired((site.controller,), resources),), _gates(site), title),)


def _explaining(services: Services) -> tuple[Resource, ...]:
    """What explains failed jobs to messages about them, where there are such messages."""
    if services.notify is None:
        return (Stopped(f"{END}-listen"),)
    about = "what sends messages about jobs asks it why one failed"
    socket = SocketUnit(END, END_SOCKET, "slurm", about, "Why jobs failed")
    return socket.resources(_filled(_END, {}))


def _renewing(page: Page) -> tuple[File, ...]:
    """What looks for a renewed certificate each hour: the page itself may not read root's files."""
    if not page.certificate or not page.key:
        return ()
    files = {"CERTIFICATE": page.certificate, "KEY": page.key}
    texts = {"service": _filled(_RENEW, files), "timer": _HOURLY}
    return tuple(File(f"{UNITS}/{RENEW}.{kind}", text) for kind, text in texts.items())


def settings(site: Site) -> str:
    """What the server reads at its start, one line of JSON; no secret is in it."""
    page = site.spec.services.page
    address = site.addresses[site.controller]
    mesh = site.spec.network.control == "tailscale"
    outside = page.listen == "control"
    values: dict[str, Any] = {
        "cluster": site.spec.name,
        "rest": f"http://127.0.0.1:{REST_PORT}",
        "port": page.port,
        "names": _names(site) if outside or page.names else [],
        "spec": site.spec.model_dump(mode="json"),
        "service": True,
        "as_user": HELPER_SOCKET,
        "tokens": TOKENS,
        "node_events": NODE_EVENTS,
    }
    if page.login != PageLogin():
        values["token_program"] = page_login.SOCKET
    if page.clusters:
        values["clusters"] = {other.name: other.url for other in page.clusters}
    if not page.hsts:
        values["hsts"] = False
    if outside:
        values["outside"] = address
        values["plain"] = mesh and not page.certificate
        if page.certificate:
            values["certificate"], values["key"] = f"{TLS}/certificate", f"{TLS}/key"
    services = site.spec.services
    if services.prometheus or services.metrics:
        values["prometheus"] = services.prometheus or f"http://127.0.0.1:{PROMETHEUS}"
    return json.dumps(values, sort_keys=True) + "\n"


def _names(site: Site) -> list[str]:
    page = site.spec.services.page
    known = [*page.names]
    if page.listen == "control":
        address = site.addresses[site.controller]
        known += [site.controller, f"[{address}]" if ":" in address else address]
    return list(dict.fromkeys(known))


def _unit(page: Page) -> str:
    lines = list[str]()
    renew = ""
    if page.certificate and page.key:
        renew = f" {RENEW}.timer"
        lines += [f"RuntimeDirectory={UNIT}-tls", "RuntimeDirectoryMode=0700"]
        for name, file in (("certificate", page.certificate), ("key", page.key)):
            copy = f"/usr/bin/install -m 0400 -o {USER} -g {USER} -T {file} {TLS}/{name}"
            lines += [f"ExecStartPre=+{copy}", f"ExecReload=+{copy}"]
        lines.append("ExecReload=/bin/sh -c 'kill -HUP $MAINPID'")
    return _filled(_TEXT, {"TLS": "".join(f"{line}\n" for line in lines), "RENEW": renew})


def _shared(site: Site) -> str:
    return " ".join(f"-{storage.mount}" for storage in site.spec.storage)


def _filled(text: str, values: dict[str, str]) -> str:
    known = {
        "PYTHON": corral_wheels.PYTHON,
        "SETTINGS": SETTINGS,
        "HARDENED": corral_wheels.HARDENED,
    }
    for name, value in {**known, **values}.items():
        text = text.replace(f"%{name}%", value)
    return text


def _gates(site: Site) -> tuple[Gate, ...]:
    page = site.spec.services.page
    listens = program("gates/listens.py")
    places = ["127.0.0.1"]
    if page.listen == "control":
        places.append(site.addresses[site.controller])
    return tuple(
        Gate(
            f"the page listens on {place}",
            site.controller,
            sh("python3 -c {text} {place} {port}", text=listens, place=place, port=page.port),
            60,
            f"read: journalctl -u {UNIT}",
            sh("journalctl --no-pager -o cat -n 20 -u {unit}", unit=UNIT),
        )
        for place in places
    )


ROLE: Final = Role("page", {"page": on_controller})
