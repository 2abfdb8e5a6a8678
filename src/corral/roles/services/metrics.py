"""Prometheus on the controller, and what it asks on each machine (docs/guide/metrics.md). Pure."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, Final

from corral import agents
from corral.hosts.quote import sh
from corral.inspect.xids import job_xids
from corral.roles.inventory import Site
from corral.roles.machine import nvidia
from corral.roles.role import Role, Share
from corral.roles.services import corral_wheels
from corral.slurm.conf.conf_file import Setting
from corral.slurm.conf.model import Contribution
from corral.slurm.version import has
from corral.spec.impacts import Impact
from corral.spec.slurm.releases import Feature
from corral.state.base import Desired, Gate, Resource
from corral.state.files import Directory, File, Gone
from corral.state.packages import Packages
from corral.state.service import UNITS, Service, Stopped, Timer
from corral.state.system.users import UserAccount

UNIT: Final = "corral-metrics"
USER: Final = "corral-metrics"
UID: Final = 64037
PORT: Final = 9341
PROMETHEUS: Final = 9090
NODE_EXPORTER: Final = 9100
DCGM: Final = 9400
SETTINGS: Final = "/etc/corral/metrics.json"
CONF: Final = "/etc/corral/prometheus.yml"
ALERTS: Final = "/etc/corral/prometheus-alerts.yml"
DASHBOARD: Final = "/etc/corral/grafana-dashboard.json"
PROGRAM: Final = "/usr/local/lib/corral/figures.sh"
FIGURES: Final = "corral-figures"
PAGE: Final = "http://127.0.0.1:8765/"
TEXTFILES: Final = "/var/lib/prometheus/node-exporter"
EVERY_S: Final = 15
SLURM_PATHS: Final = ("jobs", "nodes", "partitions", "scheduler")

_SERVICE: Final = f"""\
# Written by Corral: what Slurm and Corral know of the cluster, for Prometheus.
[Unit]
Description=Metrics of the Corral cluster
After=slurmctld.service
StartLimitIntervalSec=0

[Service]
User={USER}
Group={USER}
ExecStart={corral_wheels.PYTHON} -I -m corral.web.metrics
StandardInput=file:{SETTINGS}
StandardOutput=journal
Restart=always
RestartSec=2
MemoryMax=1G
{corral_wheels.HARDENED}
[Install]
WantedBy=multi-user.target
"""
_FIGURES_SERVICE: Final = f"""\
# Written by Corral: what jobs and GPUs use, for the node exporter.
[Unit]
Description=Figures of jobs and GPUs for Prometheus

[Service]
Type=oneshot
ExecStart=/bin/sh {PROGRAM} {TEXTFILES}
Nice=10
TimeoutStartSec=30
"""
_FIGURES_TIMER: Final = f"""\
# Written by Corral.
[Unit]
Description=Figures of jobs and GPUs for Prometheus

[Timer]
OnActiveSec=1s
OnUnitActiveSec={EVERY_S}s
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


def everywhere(site: Site) -> tuple[Share, ...]:
    """Exporters on all machines and Prometheus over them; or they stop."""
    if not site.spec.services.metrics:
        return (Share(_gone(site), title="no metrics"),)
    desired = [Desired((name,), _exporters(name, site)) for name in _able(site)]
    desired.append(Desired((site.controller,), _controller(site)))
    title = f"Prometheus on {site.controller}, exporters on all machines"
    return (Share(tuple(desired), _gates(site), title),)


def _gone(site: Site) -> tuple[Desired, ...]:
    # The node exporter stays: other programs may query it too.
    off = (Timer(FIGURES, on=False), Gone(f"{TEXTFILES}/corral.prom"))
    stopped = (Stopped(UNIT), Stopped("prometheus"))
    return (Desired(_able(site), off), Desired((site.controller,), stopped))


def _able(site: Site) -> tuple[str, ...]:
    """Machines with systemd: a rented container without one has no units."""
    return tuple(name for name in site.names if site.facts[name].systemd)


def _exporters(name: str, site: Site) -> tuple[Resource, ...]:
    drop_in = f"{UNITS}/prometheus-node-exporter.service.d/corral.conf"
    service, timer = f"{UNITS}/{FIGURES}.service", f"{UNITS}/{FIGURES}.timer"
    return (
        Packages("metrics", ("prometheus-node-exporter",)),
        Directory(TEXTFILES, "prometheus:prometheus"),
        File(PROGRAM, agents.program("figures.sh")),
        File(service, _FIGURES_SERVICE),
        File(timer, _FIGURES_TIMER),
        Timer(FIGURES),
        File(drop_in, _listening(site.addresses[name])),
        Service("prometheus-node-exporter", (drop_in,), impact=Impact.NONE),
        *_dcgm(name, site),
    )


def _listening(address: str) -> str:
    place = f"{_host(address)}:{NODE_EXPORTER}"
    return (
        "# Written by Corral: on the cluster's network only.\n[Service]\nExecStart=\n"
        "ExecStart=/usr/bin/prometheus-node-exporter"
        f" --web.listen-address={place} --collector.textfile.directory={TEXTFILES}\n"
    )


def _controller(site: Site) -> tuple[Resource, ...]:
    unit = f"{UNITS}/{UNIT}.service"
    drop_in = f"{UNITS}/prometheus.service.d/corral.conf"
    code = corral_wheels.environment(site)
    return (
        Packages("prometheus", ("prometheus",)),
        UserAccount(USER, UID, "/nonexistent", "/usr/sbin/nologin", system=True),
        File(SETTINGS, json.dumps({"port": PORT}) + "\n"),
        File(unit, _SERVICE),
        Service(UNIT, (unit, SETTINGS, code.marker)),
        File(ALERTS, alerts()),
        File(CONF, scraping(site)),
        File(DASHBOARD, dashboard(page_address(site))),
        File(drop_in, _PROMETHEUS),
        Service("prometheus", (drop_in, CONF, ALERTS)),
    )


_PROMETHEUS: Final = f"""\
# Written by Corral: Corral's own scraping, on loopback.
[Service]
ExecStart=
ExecStart=/usr/bin/prometheus --config.file={CONF} \\
  --storage.tsdb.path=/var/lib/prometheus/metrics2 \\
  --web.listen-address=127.0.0.1:{PROMETHEUS} --storage.tsdb.retention.time=30d
"""


def by_slurm(site: Site) -> bool:
    """Whether slurmctld serves metrics to Prometheus: not while PrivateData is set (metrics.html).

    It is with elastic nodes.
    """
    elastic = any(group.elastic for group in site.spec.groups)
    return site.spec.services.metrics and has(site.version, Feature.METRICS) and not elastic


def slurm_conf(site: Site) -> Contribution:
    """Slurmctld answers Prometheus itself, where it may."""
    settings = (Setting("MetricsType", "metrics/openmetrics"),) if by_slurm(site) else ()
    return Contribution(settings)


def scraping(site: Site) -> str:
    """prometheus.yml, which is JSON too (a subset of YAML)."""
    here = _host(site.addresses[site.controller])
    cluster = {"cluster": site.spec.name}
    jobs: list[dict[str, Any]] = [
        {
            "job_name": "corral",
            "static_configs": [{"targets": [f"127.0.0.1:{PORT}"], "labels": cluster}],
        },
        {
            "job_name": "node",
            "static_configs": [_target(site, n, NODE_EXPORTER) for n in _able(site)],
        },
    ]
    if by_slurm(site):
        # No label "node": Slurm's own figures of each node have it, and would be renamed.
        jobs += [
            {
                "job_name": f"slurm-{path}",
                "metrics_path": f"/metrics/{path}",
                "static_configs": [{"targets": [f"{here}:6817"], "labels": cluster}],
            }
            for path in SLURM_PATHS
        ]
    gpus = _dcgm_nodes(site)
    if gpus:
        jobs.append(
            {"job_name": "dcgm", "static_configs": [_target(site, name, DCGM) for name in gpus]}
        )
    intervals = {"scrape_interval": f"{EVERY_S}s", "scrape_timeout": "10s"}
    # external_labels: what leaves this Prometheus (alerts, federation) has the cluster too.
    common = {**intervals, "external_labels": cluster}
    values = {"global": common, "rule_files": [ALERTS], "scrape_configs": jobs}
    return json.dumps(values, indent=1) + "\n"


def _dcgm_nodes(site: Site) -> list[str]:
    """Nodes with NVIDIA's driver of NVIDIA's own archive, which has the exporter too."""
    software = site.spec.software.nvidia
    if software is None or not software.from_vendor:
        return []
    return [node.name for node in nvidia.nodes(site)]


def _dcgm(name: str, site: Site) -> tuple[Resource, ...]:
    if name not in _dcgm_nodes(site):
        return ()
    drop_in = f"{UNITS}/nvidia-dcgm-exporter.service.d/corral.conf"
    place = f"{_host(site.addresses[name])}:{DCGM}"
    text = (
        "# Written by Corral: on the cluster's network only.\n[Service]\nExecStart=\n"
        "ExecStart=/usr/bin/dcgm-exporter -f /etc/dcgm-exporter/default-counters.csv"
        f" -a {place}\n"
    )
    return (
        Packages("dcgm", ("datacenter-gpu-manager-exporter",)),
        File(drop_in, text),
        Service("nvidia-dcgm-exporter", (drop_in,), impact=Impact.NONE),
    )


def _target(site: Site, name: str, port: int) -> dict[str, Any]:
    return {
        "targets": [f"{_host(site.addresses[name])}:{port}"],
        "labels": {"node": name, "cluster": site.spec.name},
    }


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


@cache
def alerts() -> str:
    """Prometheus' alert rules, without the Xids that are a job's own matter."""
    text = resources.files("corral.roles").joinpath("data/alerts.yml").read_text("utf-8")
    words = [f"DCGM_FI_DEV_XID_ERRORS == {number}" for number in sorted(job_xids())]
    lines = [" or ".join(words[at : at + 4]) for at in range(0, len(words), 4)]
    return text.replace("@JOB_XIDS@", " or\n      ".join(lines))


@cache
def dashboard(page: str = PAGE) -> str:
    """Grafana's dashboard, as it is imported there.

    Args:
        page: address of Corral's page, the default of the variable that the links begin with.
    """
    text = resources.files("corral.roles").joinpath("data/dashboard.json").read_text("utf-8")
    board = json.loads(text)
    (variable,) = (row for row in board["templating"]["list"] if row["name"] == "page")
    choice = {"text": page, "value": page}
    variable |= {"query": page, "current": variable["current"] | choice}
    variable["options"] = [option | choice for option in variable["options"]]
    return json.dumps(board, indent=1) + "\n"


def page_address(site: Site) -> str:
    """Where browsers reach the page; without declared names the near end of a tunnel."""
    page = site.spec.services.page
    if not site.spec.services.ui or not page.names:
        return PAGE
    if page.listen == "loopback":  # a reverse proxy, which has the name
        return f"https://{page.names[0]}/"
    return f"http{'s' if page.certificate else ''}://{page.names[0]}:{page.port}/"


def _gates(site: Site) -> tuple[Gate, ...]:
    text = agents.program("gates/prometheus.py")
    silent = [site.addresses[node] for node in sorted(site.unreachable)]
    script = sh("python3 -c {text} {port} {silent}", text=text, port=PROMETHEUS, silent=silent)
    return (
        Gate(
            "Prometheus has seen all exporters",
            site.controller,
            script,
            120,
            f"read: journalctl -u prometheus -u {UNIT}; is port {NODE_EXPORTER} open there?",
            script,
        ),
    )


ROLE: Final = Role("metrics", {"metrics": everywhere}, slurm_conf)
