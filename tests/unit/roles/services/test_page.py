"""The page and the metrics as services: units, settings, what Prometheus asks."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from corral import agents
from corral.errors import CorralError
from corral.roles.order import configured
from corral.roles.role import Share
from corral.roles.services import corral_wheels, metrics, notify, page
from corral.roles.services.corral_wheels import locked, own_wheel
from corral.spec.models import ClusterSpec
from corral.spec.sections.page_login import HeaderLogin, PageLogin
from corral.spec.sections.services import Notify, OtherPage, Page, Services
from corral.spec.systems import pythons
from corral.state.base import Resource
from corral.state.files import File
from corral.state.pyenv import PythonEnv
from corral.web import figures
from corral.web.settings import Settings
from tests.unit.roles.services.test_rental_guard import cluster
from tests.unit.roles.test_cluster import laptop, site

UI = Services(ui=True)
RECORDED = Path(__file__).parents[3] / "recorded"
FILES = agents.FOLDER / "figures.sh"
OTHER = "https://metrics.example.org/prometheus"
WEB = agents.FOLDER.parent / "web"


def files(stages: tuple[Share, ...]) -> dict[str, str]:
    contents: dict[str, str] = {}
    for stage in stages:
        for entry in stage.desired:
            contents |= {r.path: r.content for r in entry.resources if isinstance(r, File)}
    return contents


def resources(stages: tuple[Share, ...]) -> list[Resource]:
    return [r for stage in stages for entry in stage.desired for r in entry.resources]


def test_the_page_listens_on_loopback_and_its_settings_hold_no_secret() -> None:
    contents = files(page.on_controller(site(laptop(services=UI))))
    settings = json.loads(contents[page.SETTINGS])
    assert settings["rest"] == "http://127.0.0.1:6820"
    assert settings["service"] is True
    assert "outside" not in settings
    assert "handover" not in settings
    unit = contents["/etc/systemd/system/corral-web.service"]
    assert "User=corral-web" in unit
    assert "NoNewPrivileges=yes" in unit
    assert "ExecStartPre" not in unit
    assert "ExecReload" not in unit
    assert "corral-web-tls" not in "".join(contents)
    assert not [text for text in contents.values() if "%PYTHON%" in text or "%SHARED%" in text]
    socket = contents["/etc/systemd/system/corral-web-user.socket"]
    assert "SocketUser=corral-web" in socket
    assert "SocketMode=0600" in socket


def test_logins_without_a_token_have_a_program_of_roots() -> None:
    login = PageLogin(header=HeaderLogin(secret_file="/etc/corral/proxy-secret"))
    services = Services(ui=True, page=Page(names=("hpc.example.org",), login=login))
    contents = files(page.on_controller(site(laptop(services=services))))
    assert json.loads(contents[page.SETTINGS])["token_program"] == "/run/corral-web/login.sock"
    socket = contents["/etc/systemd/system/corral-web-login.socket"]
    for line in ("SocketUser=corral-web", "SocketMode=0600", "Accept=yes"):
        assert line in socket
    unit = contents["/etc/systemd/system/corral-web-login@.service"]
    assert "-m corral.web.login.helper" in unit
    assert "@include common-account" in contents["/etc/pam.d/corral-web"]
    for line in ("CapabilityBoundingSet=", "NoNewPrivileges=yes", "LimitCORE=0"):
        assert f"\n{line}\n" in unit
    assert not [text for text in contents.values() if "%NAME%" in text or "%PATH%" in text]
    plain = page.on_controller(site(laptop(services=UI)))
    assert "token_program" not in json.loads(files(plain)[page.SETTINGS])
    assert "stopped:corral-web-login-listen" in {r.id for r in resources(plain)}


def test_in_a_mesh_outside_without_tls() -> None:
    network = {"control": "tailscale", "mesh": {"url": "https://mesh.example.org"}}
    spec = laptop(services=Services(ui=True, page=Page(listen="control"))).model_dump(mode="json")
    spec["network"] |= network
    contents = files(page.on_controller(site(ClusterSpec.model_validate(spec))))
    settings = json.loads(contents[page.SETTINGS])
    assert settings["outside"] == "10.0.0.10"
    assert settings["plain"] is True
    assert "key" not in settings
    assert "-tls" not in "".join(contents)


def test_outside_by_tls() -> None:
    tls = Page(
        listen="control", names=("hpc.example.org",), certificate="/etc/c.pem", key="/etc/k.pem"
    )
    contents = files(page.on_controller(site(laptop(services=Services(ui=True, page=tls)))))
    settings = json.loads(contents[page.SETTINGS])
    assert settings["outside"] == "10.0.0.10"
    assert settings["plain"] is False
    assert settings["names"] == ["hpc.example.org", "node0", "10.0.0.10"]
    assert "hsts" not in settings
    assert "node0" in settings["names"]
    assert settings["key"] == "/run/corral-web-tls/key"
    unit = contents["/etc/systemd/system/corral-web.service"]
    assert " -T /etc/k.pem /run/corral-web-tls/key" in unit
    assert "RuntimeDirectoryMode=0700" in unit
    for name, file in (("certificate", "/etc/c.pem"), ("key", "/etc/k.pem")):
        copy = f"install -m 0400 -o corral-web -g corral-web -T {file} {page.TLS}/{name}"
        for moment in ("ExecStartPre", "ExecReload"):
            assert f"{moment}=+/usr/bin/{copy}" in unit.splitlines()
    last_reload = [line for line in unit.splitlines() if line.startswith("ExecReload=")][-1]
    assert last_reload == "ExecReload=/bin/sh -c 'kill -HUP $MAINPID'"
    assert " corral-web-tls.timer" in unit
    assert "PartOf=corral-web.service" in contents["/etc/systemd/system/corral-web-tls.timer"]


def test_a_renewed_certificate_is_reloaded_once(tmp_path: Path) -> None:
    tls = Page(listen="control", certificate="/etc/c.pem", key="/etc/k.pem")
    contents = files(page.on_controller(site(laptop(services=Services(ui=True, page=tls)))))
    unit = contents["/etc/systemd/system/corral-web-tls.service"]
    line = unit.replace("\\\n", "").partition("ExecStart=/bin/sh -c '")[2].partition("'")[0]
    (tmp_path / "systemctl").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "systemctl").chmod(0o755)
    for name in ("c.pem", "k.pem", "certificate", "key"):
        (tmp_path / name).write_text("old")
    line = line.replace("/etc/", f"{tmp_path}/").replace(page.TLS, str(tmp_path))

    def calls() -> str:
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        done = subprocess.run(["sh", "-c", line], env=env, capture_output=True, check=True)
        return done.stdout.decode().strip()

    assert calls() == ""
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).write_text("new")
        assert calls() == "reload corral-web"
        (tmp_path / name).write_text("old")


def test_a_controller_with_too_old_a_python_is_refused() -> None:
    old = site(laptop(services=UI), os_id="ubuntu", os_version="22.04")
    with pytest.raises(CorralError, match="no wheels of web") as refused:
        corral_wheels.on_controller(old)
    assert "Python 3.11" in refused.value.hint
    assert "ubuntu 24.04" in refused.value.hint
    assert "ubuntu 22.04" not in refused.value.hint


def test_corral_itself_is_uploaded_as_a_wheel() -> None:
    (environment,) = resources(corral_wheels.on_controller(site(laptop(services=UI))))
    assert isinstance(environment, PythonEnv)
    own, data = own_wheel()
    assert own in environment.wheels
    names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    assert {"corral/web/app.py", "corral/web/static/index.html"} <= set(names)
    assert "corral/report/templates/report.html" in names
    (entry_points,) = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
    text = zipfile.ZipFile(io.BytesIO(data)).read(entry_points).decode()
    assert "corral = corral.cli.main:main" in text, "pip makes the command of a bundle's wheel"
    assert not [name for name in names if "__pycache__" in name]
    assert own_wheel.__wrapped__()[0] == own, "the same files give the same bytes"


@pytest.mark.parametrize("python", sorted(pythons() - {"3.10"}))
def test_the_lock_has_all_that_the_page_imports_for_each_python(python: str, repo: Path) -> None:
    """Jinja2 became a dependency of Corral, and the controller's page had none for its reports."""
    project = tomllib.loads((repo / "pyproject.toml").read_text())["project"]
    dependencies = [*project["dependencies"], *project["optional-dependencies"]["web"]]
    required = [Requirement(text) for text in dependencies]
    names = {
        each.name.lower()
        for each in required
        if each.marker is None or each.marker.evaluate({"python_version": python})
    }
    names = {re.sub("[-.]", "_", name) for name in names}
    assert len(names) > 10
    locks = {wheel.file.split("-")[0].lower().replace(".", "_") for wheel in locked("web")[python]}
    assert names - locks == set()


def test_neither_is_there_when_nothing_declares_it() -> None:
    plain = site(laptop())
    assert corral_wheels.on_controller(plain) == ()
    assert not files(page.on_controller(plain))
    assert {r.id for r in resources(page.on_controller(plain))} == {
        "stopped:corral-web",
        "stopped:corral-web-user-listen",
        "stopped:corral-job-end-listen",
        "stopped:corral-web-login-listen",
        "file:/etc/pam.d/corral-web",
    }


def scrape_configs(version: str = "") -> list[dict[str, Any]]:
    monitored = site(laptop(services=Services(metrics=True)))
    if version:
        facts = {n: replace(f, slurm=version) for n, f in monitored.facts.items()}
        monitored = replace(monitored, facts=facts)
    return json.loads(metrics.scraping(monitored))["scrape_configs"]


def scraped(version: str = "") -> dict[str, list[str]]:
    return {
        job["job_name"]: [t for c in job["static_configs"] for t in c["targets"]]
        for job in scrape_configs(version)
    }


def test_what_prometheus_asks() -> None:
    jobs = scraped()
    assert jobs["corral"] == ["127.0.0.1:9341"]
    assert jobs["node"] == ["10.0.0.10:9100", "10.0.0.11:9100", "10.0.0.12:9100"]
    assert not [name for name in jobs if name.startswith("slurm")]
    newer = scraped("25.11.2")
    assert newer["slurm-scheduler"] == ["10.0.0.10:6817"]


def test_slurms_own_figures_keep_their_labels() -> None:
    """A label of the target renames the metric's of that name: exported_node (Prometheus' docs)."""
    for job in scrape_configs("25.11.2"):
        if job["job_name"].startswith("slurm"):
            labels = {label for target in job["static_configs"] for label in target["labels"]}
            assert labels == {"cluster"}


def test_slurm_is_not_asked_where_elastic_nodes_switch_its_endpoint_off() -> None:
    elastic = cluster("5m")
    spec = elastic.spec.model_copy(update={"services": Services(metrics=True)})
    facts = {n: replace(f, slurm="25.11.2") for n, f in elastic.facts.items()}
    elastic = replace(elastic, spec=spec, facts=facts)
    assert not metrics.by_slurm(elastic)
    assert "slurm-" not in metrics.scraping(elastic)
    assert configured(elastic).slurm_files.slurm.get("MetricsType") is None


@pytest.mark.parametrize(
    ("services", "address"),
    [
        (Services(ui=True), None),
        (Services(ui=True, metrics=True), "http://127.0.0.1:9090"),
        (Services(ui=True, metrics=True, prometheus=OTHER), OTHER),
        (Services(ui=True, prometheus=OTHER), OTHER),
    ],
)
def test_which_prometheus_the_page_asks(services: Services, address: str | None) -> None:
    made = files(page.on_controller(site(laptop(services=services))))
    assert json.loads(made[page.SETTINGS]).get("prometheus") == address


def test_every_target_has_the_clusters_name() -> None:
    for job in scrape_configs("25.11.2"):
        assert {target["labels"]["cluster"] for target in job["static_configs"]} == {"laptop"}
    configuration = json.loads(metrics.scraping(site(laptop(services=Services(metrics=True)))))
    assert configuration["global"]["external_labels"] == {"cluster": "laptop"}
    assert configuration["rule_files"] == [metrics.ALERTS]


def test_the_dashboard_chooses_cluster_node_user_and_job() -> None:
    """Each question is of the chosen cluster, and what is of a node, user or job of that too."""
    dashboard = json.loads(metrics.dashboard())
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert variables == {"DS", "cluster", "node", "user", "job", "page"}
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            asked = target["expr"]
            assert '{cluster=~"$cluster"' in asked or 'cluster=~"$cluster"}' in asked, asked
            shown = target["legendFormat"]
            for label, variable in (("node", "node"), ("user", "user"), ("jobid", "job")):
                if f"{{{{{label}}}}}" in shown:
                    assert f'{label}=~"${variable}"' in asked, asked


def test_the_dashboard_has_thresholds_and_leads_to_the_page() -> None:
    spec = laptop(services=Services(metrics=True))
    panels = json.loads(metrics.dashboard())["panels"]
    limits = {
        p["title"] for p in panels if "thresholds" in p.get("fieldConfig", {}).get("defaults", {})
    }
    assert {"GPU temperature", "Full file systems", "Waiting time of jobs that started"} <= limits
    assert {"Drained nodes", "Pending jobs", "GPU utilisation"} <= limits
    links = {
        link["url"].partition("$")[2]
        for p in panels
        for link in p.get("fieldConfig", {}).get("defaults", {}).get("links", [])
    }
    assert {url.partition("}")[2].partition("$")[0] for url in links} == {
        "#node/",
        "#job/",
        "#jobs/waiting",
        "#jobs/all?q=user%3D",
    }
    assert metrics.page_address(site(spec)) == metrics.PAGE
    names = Page(names=("hpc.example.org",))
    services = Services(metrics=True, ui=True, page=names)
    address = metrics.page_address(site(laptop(services=services)))
    assert address == "https://hpc.example.org/"
    assert json.dumps(address) in metrics.dashboard(address)
    assert metrics.PAGE not in metrics.dashboard(address)


def test_the_dashboard_asks_only_for_what_there_is() -> None:
    dashboard = json.loads(metrics.dashboard())
    asked = json.dumps([t["expr"] for p in dashboard["panels"] for t in p["targets"]])
    sources = ("exposition.py", "metrics.py", "scheduler_metrics.py", "wait_times.py")
    text = FILES.read_text() + "".join((WEB / name).read_text() for name in sources)
    for word in {w for w in asked.replace("(", " ").replace("{", " ").split() if "corral_" in w}:
        name = "corral_" + word.partition("corral_")[2].split("[")[0].split(")")[0].rstrip('",\\')
        name = re.sub(r"_(bucket|ratio)$", "", name)
        known = re.sub(r"^corral_(gpu|node|account)_", "", name)
        assert name in text or known in text, name
    assert dashboard["uid"] == "corral"
    counters = RECORDED.joinpath("dcgm/default-counters.txt").read_text().splitlines()
    dcgm = set(re.findall(r"DCGM_\w+", asked))
    assert dcgm
    assert dcgm <= set(counters)
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("version", [1, 2])
def test_figures_of_jobs_and_gpus(tmp_path: Path, version: int) -> None:
    top, proc = tmp_path / "cgroup", tmp_path / "proc"
    if version == 2:
        job = top / "system.slice" / "node0_slurmstepd.scope" / "job_12"
        job.mkdir(parents=True)
        (job / "memory.current").write_text("3000000\n")
        (job / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    else:
        job = top / "memory" / "slurm_node0" / "uid_1000" / "job_12"
        spent = top / "cpuacct" / "slurm_node0" / "uid_1000" / "job_12"
        job.mkdir(parents=True)
        spent.mkdir(parents=True)
        (job / "memory.usage_in_bytes").write_text("3000000\n")
        (spent / "cpuacct.usage").write_text("2500000000\n")
    (job / "memory.stat").write_text("anon 5\ninactive_file 1000000\n")
    (proc / "77").mkdir(parents=True)
    (proc / "77" / "cgroup").write_text("0::/system.slice/x_slurmstepd.scope/job_12/step_0\n")
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        "#!/bin/sh\ncase $1 in *compute-apps*) echo 'GPU-a, 77';; *)\n"
        "echo '0, GPU-a, 93, 40000, 81559, 61, 402.5'; "
        "echo '1, GPU-b, 0, 3, 81559, 33, [N/A]';; esac\n"
    )
    smi.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CORRAL_CGROUP": str(top),
        "CORRAL_PROC": str(proc),
    }
    out = subprocess.run(["sh", FILES], env=env, capture_output=True, text=True, check=True).stdout
    lines = [line for line in out.splitlines() if not line.startswith("#")]
    assert 'corral_job_memory_bytes{jobid="12"} 2000000' in lines
    assert 'corral_job_cpu_seconds_total{jobid="12"} 2.500000' in lines
    assert 'corral_gpu_utilization_ratio{gpu="0",uuid="GPU-a"} 0.93' in lines
    assert 'corral_gpu_watts{gpu="0",uuid="GPU-a"} 402.5' in lines
    assert 'corral_gpu_celsius{gpu="1",uuid="GPU-b"} 33' in lines
    assert 'corral_gpu_job{gpu="0",uuid="GPU-a",jobid="12"} 1' in lines
    assert not [line for line in lines if "watts" in line and "GPU-b" in line]
    # What the page draws curves and heat maps of is asked by these names.
    asked = " ".join([*figures.OF_NODES.values(), *figures.OF_A_JOB.values()])
    names = set(re.findall(r"corral_\w+", asked))
    assert len(names) >= 6
    assert not {name for name in names if f"\n{name}{{" not in f"\n{out}"}


def test_a_users_request_has_limits_of_memory_and_tasks() -> None:
    assert "\nMemoryMax=512M\nTasksMax=64\n" in page._HELPER


def test_what_explains_a_jobs_end_is_for_slurms_user_and_where_messages_are() -> None:
    relay = Notify(relay="mail.example.org", sender="lab@example.org")
    declared = site(laptop(services=Services(ui=True, notify=relay)))
    contents = files(page.on_controller(declared))
    socket = contents["/etc/systemd/system/corral-job-end.socket"]
    for line in ("SocketUser=slurm", "SocketMode=0600", f"ListenStream={page.END_SOCKET}"):
        assert f"\n{line}\n" in socket
    unit = contents["/etc/systemd/system/corral-job-end@.service"]
    assert "-m corral.web.users.job_end" in unit
    for line in ("CapabilityBoundingSet=CAP_SETUID CAP_SETGID", "RuntimeMaxSec=90"):
        assert f"\n{line}\n" in unit
    assert notify.settings(declared, relay)["doctor"] == page.END_SOCKET
    alone = site(laptop(services=Services(notify=relay)))
    assert notify.settings(alone, relay)["doctor"] == ""
    without = page.on_controller(site(laptop(services=Services(ui=True))))
    assert "stopped:corral-job-end-listen" in {r.id for r in resources(without)}


def test_other_clusters_are_in_the_pages_settings() -> None:
    others = (OtherPage(name="west", url="https://west.example.org:8765"),)
    declared = site(laptop(services=Services(ui=True, page=Page(clusters=others))))
    settings = json.loads(files(page.on_controller(declared))[page.SETTINGS])
    assert settings["clusters"] == {"west": "https://west.example.org:8765"}
    Settings.model_validate(settings)
