"""Pages about security name each port that Corral opens, and each that listens beyond loopback.

Ports are read from the plan of a cluster that has every service.
"""

from __future__ import annotations

import json
import re

import pytest

from corral.plan.make import resources_of
from corral.roles.inventory import Site
from corral.roles.machine import mesh
from corral.roles.order import desired_stages
from corral.roles.services import metrics, page
from corral.spec.models import ClusterSpec
from corral.spec.sections.services import Services
from corral.state.files import File
from corral.state.network import firewall
from corral.state.service import UNITS
from tests.guide_blocks import REPO
from tests.unit.roles.test_cluster import site
from tests.unit.test_docs_claims import rows_of, text_of

SERVICES = {
    "mlflow": True,
    "metrics": True,
    "ui": True,
    "page": {"listen": "control", "certificate": "/etc/tls/page.pem", "key": "/etc/tls/page.key"},
}
EVERYTHING = ClusterSpec.model_validate(
    {
        "corral": "v1",
        "name": "lab",
        "groups": [
            {"name": "head", "provider": "ssh", "nodes": "head", "addresses": "10.0.0.10"},
            {
                "name": "gpu",
                "provider": "ssh",
                "nodes": "gpu[0-1]",
                "addresses": "10.0.0.[11-12]",
                "gpu": {"type": "h100", "count": 1},
            },
        ],
        "partitions": [{"name": "gpu", "groups": ["gpu"], "default": True}],
        "storage": [{"mount": "/shared", "kind": "nfs", "server": "head", "path": "/srv/corral"}],
        "software": {"nvidia": {"source": "vendor", "vendor_repo": "/srv/cuda-keyring.deb"}},
        "services": SERVICES,
    }
)
LOOPBACK = {metrics.PORT, metrics.PROMETHEUS}
"""Ports in the units' texts that are on 127.0.0.1 alone."""


def files() -> dict[str, list[File]]:
    """The files of each node of a cluster with a firewall, NVIDIA's packages and all services."""
    facts = {"firewall": "nftables", "nvidia_pci": ("2330",), "cgroup": "v2", "slurm": "25.11.2"}
    known: Site = site(EVERYTHING, own_clock=True, **facts)
    held = resources_of(desired_stages(known))
    return {n: [r for r in held[n] if isinstance(r, File)] for n in held}


def opened() -> set[str]:
    """What the firewall lets in, as its program has it: ``6817``, ``32768-63000``."""
    texts = [f.content for own in files().values() for f in own if f.path == firewall.PROGRAM]
    rows = [re.findall(r"(?:tcp|udp)='?([\d,-]+)", text) for text in texts]
    return {port for row in rows for ports in row for port in ports.split(",")}


def listening() -> set[str]:
    """What units and settings of services bind to another address than loopback."""
    place = re.compile(r"(?:listen\S*=| -a |--host )(10\.[\d.]+)(?::| --port )(\d+)")
    ports: set[str] = set()
    for own in files().values():
        units = [f.content for f in own if f.path.startswith(UNITS)]
        ports |= {port for text in units for _, port in place.findall(text)}
        served = [json.loads(f.content) for f in own if f.path == page.SETTINGS]
        ports |= {str(each["port"]) for each in served if "outside" in each}
    return ports


def test_the_cluster_of_these_tests_has_each_service() -> None:
    """A new one is put into it, or is of a kind that listens nowhere."""
    apart = {"mlflow_store", "mlflow_uri", "notify", "prometheus"}
    assert Services.model_fields.keys() - apart == SERVICES.keys()
    assert opened() >= {"6817", "6818", "6819", "2049", "123", "32768-63000"}
    assert listening() == {"5000", "8765", "9100", "9400"}


@pytest.mark.parametrize("name", ["SECURITY.md", "docs/guide/faq.md", "docs/guide/machines.md"])
def test_pages_about_the_firewall_name_each_port_that_is_opened(name: str) -> None:
    text = text_of(name)
    at = re.search(r"Where ufw|where ufw", text)
    assert at is not None
    near = text[max(0, at.start() - 300) : at.start() + 1100]
    assert [p for p in sorted(opened()) if not re.search(rf"(?<!\d){p}(?!\d)", near)] == []


def first_cells() -> str:
    rows = rows_of(text_of("docs/guide/threat-model.md"), "| port | on |")
    return " ".join(row[0] for row in rows)


def test_each_port_beyond_loopback_has_a_row_in_the_threat_model() -> None:
    cells = first_cells()
    ports = opened() | listening() | {str(mesh.PORT), "22"}
    assert [p for p in sorted(ports) if not re.search(rf"(?<!\d){p}(?!\d)", cells)] == []
    assert not [port for port in LOOPBACK if str(port) in cells]


def test_what_has_no_password_is_stated() -> None:
    """MLflow and the exporters; for a user of the cluster and in SECURITY.md too."""
    rows = rows_of(text_of("docs/guide/threat-model.md"), "| port | on |")
    free = {port for row in rows if "anybody" in row[2] for port in re.findall(r"\d{4,}", row[0])}
    without = listening() - {"8765"}
    assert without <= free
    assert [port for port in sorted(without) if port not in text_of("SECURITY.md")] == []
    users = next(
        line
        for line in text_of("docs/guide/threat-model.md").splitlines()
        if line.startswith("| a user of the cluster |")
    )
    assert "MLflow" in users
    assert "whose job" in users


PYTHON = re.compile(r"/usr/bin/python3|\"python3\"|\bPYTHON\b|PythonEnv\(|\bSupervised\(")
NAMED = {
    "rental_guard": "guard of the budget",
    "notify": "messages about jobs",
    "backup": "scheduled backups",
    "page": "the page",
    "page_login": "the page",
    "corral_wheels": "/opt/corral",
    "metrics": "exporter of metrics",
    "mlflow": "MLflow",
    "pods": "a relay of Slurm's ports",
    "mesh": "supervisord",
}
"""By module of the roles: what the page calls its program in Python, or supervisord, which is."""


def test_what_runs_in_python_on_machines_is_in_the_table() -> None:
    roles = REPO / "src/corral/roles"
    python = {file.stem for file in roles.rglob("*.py") if PYTHON.search(file.read_text())}
    assert python == NAMED.keys()
    rows = rows_of(text_of("docs/guide/how-it-works.md"), "| where | what | Python |")
    table = " ".join(" ".join(row) for row in rows)
    assert [words for stem in sorted(python) if (words := NAMED[stem]) not in table] == []
    for name in ("README.md", "docs/guide/how-it-works.md"):
        for line in re.findall(r"[^.]*\bno agent\b[^.]*\.[^.]*\.", text_of(name), re.I):
            assert "table below" in line or "how-it-works.md#2-what-runs-where" in line
