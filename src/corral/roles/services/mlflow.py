"""An MLflow tracking server on the controller (docs/guide/tracking.md). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from corral.agents import program
from corral.hosts.quote import sh
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.roles.services.corral_wheels import wheels_of
from corral.spec.models import ClusterSpec, Storage
from corral.spec.nodes import controller_of
from corral.state.base import Desired, Gate, Resource
from corral.state.databases import Postgres
from corral.state.files import Directory, File
from corral.state.packages import Packages
from corral.state.pyenv import PythonEnv
from corral.state.service import Service, Stopped
from corral.state.system.users import UserAccount

UNIT: Final = "corral-mlflow"
USER: Final = "corral-mlflow"
UID: Final = 64033
PORT: Final = 5000
HOME: Final = "/var/lib/corral-mlflow"
PROGRAM: Final = "/opt/corral/mlflow"
PLACE: Final = "corral/mlflow"
"""Artifacts on shared storage, below its mount."""

# --host is one address: jobs on all nodes come by it, and a machine's other networks do not see
# the server. --allowed-hosts: MLflow 3.5 and newer answer only to names they know.
# Workers: SQLite has one writer, and a second one would keep 300 MB for nothing.
_TEXT: Final = """\
# Written by Corral: MLflow's tracking server, for the cluster's own network.
[Unit]
Description=MLflow tracking server of the Corral cluster
After=network-online.target%AFTER%
Wants=network-online.target
RequiresMountsFor=%ARTIFACTS%
StartLimitIntervalSec=0

[Service]
User=corral-mlflow
Group=corral-mlflow
WorkingDirectory=/var/lib/corral-mlflow
Environment=HOME=/var/lib/corral-mlflow MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=true
Environment=MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false
ExecStartPre=/bin/sh -c '%EMPTY% || exec %BIN%/mlflow db upgrade "%STORE%"'
ExecStart=%BIN%/mlflow server --host %ADDRESS% --port %PORT% --workers %WORKERS% \\
  --backend-store-uri %STORE% --serve-artifacts --artifacts-destination %ARTIFACTS% \\
  --allowed-hosts %NAMES%
Restart=always
RestartSec=2
TimeoutStartSec=300
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=/var/lib/corral-mlflow %ARTIFACTS%
ProtectHome=yes
PrivateTmp=yes
UMask=0077

[Install]
WantedBy=multi-user.target
"""

# A first start makes the tables itself; `mlflow db upgrade` of an empty store fails.
_STORES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "sqlite": {
            "STORE": f"sqlite:///{HOME}/mlflow.db",
            "EMPTY": "[ ! -s mlflow.db ]",
            "WORKERS": "1",
            "AFTER": "",
        },
        "postgresql": {
            # SQLAlchemy 2.1 takes "postgresql:" alone for psycopg 3.
            "STORE": f"postgresql+psycopg2:///{USER}?host=/var/run/postgresql",
            "EMPTY": f'! psql -X -qc "TABLE alembic_version" -d {USER} >/dev/null 2>&1',
            "WORKERS": "2",
            "AFTER": " postgresql.service",
        },
    }
)


def on_controller(site: Site) -> tuple[Share, ...]:
    """The server with its environment; or it stops, where it is declared no longer.

    Raises:
        CorralError: NOT_GOOD, the controller's system has no lock.
    """
    if not site.spec.services.mlflow:
        gone = Desired((site.controller,), (Stopped(UNIT),))
        return (Share((gone,), title="no tracking server"),)
    facts = site.facts[site.controller]
    wheels = wheels_of("mlflow", facts)
    store = _store(site)
    if store:
        driver = wheels_of("mlflow-postgresql", facts)
        wheels += tuple(wheel for wheel in driver if not wheel.file.startswith("pip-"))
    version = next(w.file.split("-")[1] for w in wheels if w.file.startswith("mlflow-"))
    environment = PythonEnv(PROGRAM, f"MLflow {version}", wheels)
    unit = f"/etc/systemd/system/{UNIT}.service"
    user = UserAccount(USER, UID, HOME, "/usr/sbin/nologin", system=True, owns=(HOME,))
    artifacts = Directory(artifacts_of(site.spec), f"{USER}:{USER}", "700")
    resources: tuple[Resource, ...] = (
        user,
        Directory(HOME, f"{USER}:{USER}", "700"),
        *store,
        environment,
        File(unit, _unit(site)),
        Service(UNIT, (unit, environment.marker)),
    )
    keeper = _keeper(site)
    if keeper == site.controller:
        desired = (Desired((keeper,), (user, artifacts, *resources[1:])),)
    else:
        # Root of a client is nobody on the server (root_squash): the folder is made over there.
        desired = (
            Desired((keeper,), (user, artifacts)),
            Desired((site.controller,), resources),
        )
    title = f"MLflow's tracking server on {site.controller}"
    return (Share(desired, (_gate(site),), title),)


def uri(spec: ClusterSpec) -> str:
    """What jobs get as MLFLOW_TRACKING_URI; "" where no tracking is declared."""
    if spec.services.mlflow:
        return f"http://{controller_of(spec)}:{PORT}"
    return spec.services.mlflow_uri or ""


def artifacts_of(spec: ClusterSpec) -> str:
    """The folder of artifacts: on the first shared storage, else on the controller."""
    if not spec.storage:
        return f"{HOME}/artifacts"
    return f"{spec.storage[0].mount}/{PLACE}"


def _store(site: Site) -> tuple[Resource, ...]:
    """What PostgreSQL is made of; nothing for SQLite."""
    if site.spec.services.mlflow_store != "postgresql":
        return ()
    return (Packages("postgresql", ("postgresql",)), Service("postgresql"), Postgres(USER))


def _keeper(site: Site) -> str:
    """The node that can make the folder of artifacts."""
    storage: Storage | None = site.spec.storage[0] if site.spec.storage else None
    return (storage.server if storage and storage.server else "") or site.controller


def _unit(site: Site) -> str:
    address = site.addresses[site.controller]
    names = [n for name in (site.controller, address) for n in (name, f"{name}:{PORT}")]
    # An ssh forwarding of it comes as localhost with any port.
    names += ["localhost", "localhost:*", "127.0.0.1", "127.0.0.1:*"]
    values = {
        "BIN": f"{PROGRAM}/bin",
        **_STORES[site.spec.services.mlflow_store],
        "ARTIFACTS": artifacts_of(site.spec),
        "ADDRESS": address,
        "PORT": str(PORT),
        "NAMES": ",".join(dict.fromkeys(names)),
    }
    text = _TEXT
    for name, value in values.items():
        text = text.replace(f"%{name}%", value)
    return text


def _gate(site: Site) -> Gate:
    return Gate(
        "MLflow's server answers",
        site.controller,
        sh("python3 -c {text} {uri}", text=program("gates/mlflow.py"), uri=uri(site.spec)),
        240,
        f"read: journalctl -u {UNIT}",
        sh("journalctl --no-pager -o cat -n 20 -u {unit}", unit=UNIT),
    )


ROLE: Final = Role("mlflow", {"tracking": on_controller})
