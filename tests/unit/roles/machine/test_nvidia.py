"""Drivers: golden plans of bare machines by system, source and GPU; what cannot be is refused."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from corral.cli.lifecycle.planview import plan_lines
from corral.errors import Code, CorralError
from corral.inspect.facts import Facts, Traits
from corral.plan.make import make_plan, resources_of
from corral.plan.model import Plan
from corral.roles.inventory import Site
from corral.roles.machine import nvidia
from corral.roles.order import desired_stages
from corral.spec.impacts import Impact
from corral.spec.models import ClusterSpec, Gpu, NodeGroup, Partition
from corral.spec.rules.drivers import is_rack
from corral.spec.sections.services import Services
from corral.spec.sections.software import Nvidia, Software
from corral.state.base import Context, Resource, Seen
from corral.state.files import File
from corral.state.system.kernel import Reboot
from corral.state.system.nvidia import DriverPart
from tests.unit.roles.test_cluster import FACTS

# VERSION_ID and kernel as each system names them; which Slurm is there does not matter here.
SYSTEMS = {
    "ubuntu-22.04": ("ubuntu", "22.04", "5.15.0-151-generic"),
    "ubuntu-24.04": ("ubuntu", "24.04", "6.8.0-149-generic"),
    "ubuntu-26.04": ("ubuntu", "26.04", "7.0.0-43-generic"),
    "debian-12": ("debian", "12", "6.1.0-41-amd64"),
    "debian-13": ("debian", "13", "6.12.57+deb13-amd64"),
}
# PCI ids as pci.ids has them.
RTX5090, RTX4090, GTX1080 = ("2b85",), ("2684",), ("1b80",)
HGX_H200 = (*["22a3"] * 4, *["2335"] * 8)
HGX_B200, HGX_B300 = ("2901",) * 8, ("3182",) * 8
GB200 = ("2941",) * 4
VENDOR = Nvidia(
    driver="580-open",
    cuda="13.0",
    source="vendor",
    vendor_repo="https://repository.example/cuda-keyring_1.1-1_all.deb",
    vendor_sha256="0" * 64,
)
CUDA_ALONE = Nvidia(driver="auto", cuda="13.0")
"""As a user writes it: address and digest of the vendor's repository are Corral's."""
# Their scripts are in the golden files too; those of packages, files and services have tests.
SCRIPTS = {
    "file:/etc/apt/sources.list.d/corral-components.list",
    "packages:cuda-keyring",
    "packages:kernel-headers",
    "packages:fabric-manager",
    "packages:nscq",
    "packages:imex",
    "holds:nvidia",
    "reboot",
}
ABSENT = Seen(0, "absent")
# What the probes of a machine with nothing on it answer, where it is not "absent".
BARE = {"holds": Seen(0, ""), "reboot": Seen(0, ""), "resume": Seen(0, ""), "ports": Seen(0, "")}


def site(system: str, pci: tuple[str, ...], what: Nvidia, count: int = 1, **more: object) -> Site:
    os_id, version, kernel = SYSTEMS[system]
    facts: dict[str, Facts] = {}
    for index, name in enumerate(("head", "gpu0", "gpu1")):
        facts[name] = replace(
            FACTS,
            node=name,
            os_id=os_id,
            os_version=version,
            kernel=kernel,
            address=f"10.0.0.{10 + index}",
            nvidia_pci=pci if index else (),
            **{k: v for k, v in more.items() if k in Facts.__slots__},  # type: ignore[arg-type]
        )
    software = {k: v for k, v in more.items() if k in Software.model_fields}
    spec = ClusterSpec(
        corral="v1",
        name="lab",
        groups=(
            NodeGroup(name="head", provider="ssh", nodes="head", addresses="10.0.0.10"),
            NodeGroup(
                name="gpu",
                provider="ssh",
                nodes="gpu[0-1]",
                addresses="10.0.0.[11-12]",
                gpu=Gpu(type=str(more.get("gpu", "any")), count=count),
            ),
        ),
        partitions=(Partition(name="main", groups=("gpu",), default=True),),
        software=Software(nvidia=what, **software),  # type: ignore[arg-type]
    )
    return Site(
        spec,
        facts,
        dict.fromkeys(facts, Traits(own_clock=True)),
        {n: f.address for n, f in facts.items()},
    )


def measured(system: str, pci: tuple[str, ...]) -> Site:
    """With NVIDIA's repository and metrics: DCGM's exporter runs."""
    made = site(system, pci, VENDOR, 8)
    return replace(made, spec=made.spec.model_copy(update={"services": Services(metrics=True)}))


def bare(resource: Resource) -> Seen:
    return BARE.get(resource.id.partition(":")[0], ABSENT)


def plan_of(cluster: Site, answer: Callable[[Resource], Seen] = bare) -> Plan:
    stages = desired_stages(cluster)
    seen = {n: {r.id: answer(r) for r in rs} for n, rs in resources_of(stages).items()}
    plan = make_plan(cluster="lab", spec_digest="", stages=stages, observed=seen)
    return replace(plan, stages=tuple(s for s in plan.stages if s.name in ("drivers", "gpus")))


def shown(plan: Plan) -> str:
    """The stages as ``corral plan --diff`` shows them, and the scripts behind them."""
    console = Console(file=io.StringIO(), width=1000, color_system=None)
    for line in plan_lines(plan, diff=True):
        console.print(line, soft_wrap=True)
    scripts = [
        f"\n# {entry.change.resource}\n{entry.change.script}"
        for stage in plan.stages
        for entry in stage.changes
        if entry.change.resource in SCRIPTS
    ]
    gates = [f"\n# gate: {g.name} on {g.node}\n{g.script}" for s in plan.stages for g in s.gates]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue() + "\n".join([*scripts, *gates]) + "\n"


CASES: dict[str, Callable[[], Site]] = {
    **{
        f"{system}-auto": lambda system=system: site(system, RTX5090, Nvidia())
        for system in SYSTEMS
        if system.startswith("ubuntu")
    },
    **{
        f"{system}-auto": lambda system=system: site(system, RTX4090, Nvidia())
        for system in SYSTEMS
        if system.startswith("debian")
    },
    **{
        f"{system}-vendor": lambda system=system: site(system, RTX5090, VENDOR)
        for system in SYSTEMS
    },
    **{
        f"{system}-hgx-h200": lambda system=system: site(system, HGX_H200, Nvidia(), 8)
        for system in SYSTEMS
        if system.startswith("ubuntu")
    },
    "ubuntu-24.04-secure-boot": lambda: site(
        "ubuntu-24.04", RTX5090, Nvidia(driver="580-open"), secure_boot=True
    ),
    "ubuntu-24.04-old-gpu": lambda: site("ubuntu-24.04", GTX1080, Nvidia()),
    "ubuntu-24.04-toolkit": lambda: site(
        "ubuntu-24.04", RTX4090, Nvidia(driver="580-open", cuda="distribution"), at_once=2
    ),
    "ubuntu-24.04-cuda-alone": lambda: site("ubuntu-24.04", RTX5090, CUDA_ALONE),
    "debian-13-hgx-h200-vendor": lambda: site("debian-13", HGX_H200, VENDOR, 8),
    "ubuntu-24.04-hgx-b300-cuda-alone": lambda: site("ubuntu-24.04", HGX_B300, CUDA_ALONE, 8),
    "ubuntu-24.04-hgx-h200-vendor-metrics": lambda: measured("ubuntu-24.04", HGX_H200),
    "ubuntu-24.04-gb200": lambda: site("ubuntu-24.04", GB200, Nvidia(), 4, gpu="gb200"),
}


@pytest.mark.parametrize("name", list(CASES))
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"nvidia/{name}.txt", shown(plan_of(CASES[name]())))


@pytest.mark.parametrize("name", list(CASES))
def test_every_plan_reboots_last_and_checks_each_node(name: str) -> None:
    stage = plan_of(CASES[name]()).stages[0]
    assert stage.roll is not None
    assert stage.roll.controller == "head"
    for changes in stage.by_node().values():
        assert changes[-1].impact is Impact.REBOOT
        assert [c.impact for c in changes].count(Impact.REBOOT) == 1
    assert {g.node for g in stage.gates} == set(stage.by_node()) == {"gpu0", "gpu1"}


def test_a_machine_that_has_it_all_gets_nothing() -> None:
    """What the probes answer once it is done: then the rolling stage is gone, gates and all."""
    cluster = site("ubuntu-24.04", HGX_H200, Nvidia(), 8)
    names = ("nvidia-headless-580-server-open", "nvidia-utils-580-server")
    done = {
        "file:/etc/apt/sources.list.d/corral-components.list": "offered",
        "packages:kernel-headers": "present",
        "packages:nvidia": "\n".join(f"installed {n}" for n in names),
        "packages:fabric-manager": "driver 580.178.04\npart 580.178.04",
        "holds:nvidia": "",
        "reboot": "",
    }

    def answer(resource: Resource) -> Seen:
        if isinstance(resource, File):
            return Seen(0, f"{resource.digest} {resource.mode} {resource.owner}")
        if resource.id.startswith("service:"):
            return Seen(0, "static running current")
        return Seen(0, done.get(resource.id, "absent"))

    assert plan_of(cluster, answer).stages == ()
    done["packages:fabric-manager"] = "driver 580.178.04\npart 580.95.05"
    assert [c.change.resource for c in plan_of(cluster, answer).stages[0].changes] == [
        "packages:fabric-manager",
        "holds:nvidia",
    ]
    done["packages:fabric-manager"] = "driver 580.178.04\npart 580.178.04"
    done["reboot"] = "driver:580.95.05:580.178.04"
    (only,) = plan_of(cluster, answer).stages[0].changes
    assert only.change.summary == (
        "reboot (NVIDIA driver 580.178.04 is installed, 580.95.05 is loaded)"
    )


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_a_cuda_release_alone_takes_the_vendors_repository_of_the_system(system: str) -> None:
    first = plan_of(site(system, RTX5090, CUDA_ALONE)).stages[0].changes[0].change
    release = system.replace("-", "").replace(".", "")
    assert f"/repos/{release}/x86_64/cuda-keyring_1.1-1_all.deb" in first.summary
    row = next(r for r in nvidia.keyrings() if f"{r.os}-{r.release}" == system)
    assert f"SHA256:{row.sha256}" in first.script


def test_rows_of_the_table_name_their_sources() -> None:
    rows = nvidia.keyrings()
    assert len({(r.os, r.release) for r in rows}) == len({r.sha256 for r in rows}) == len(rows) == 5
    assert all(len(bytes.fromhex(r.sha256)) == 32 and r.seen for r in rows)
    assert all(r.address.startswith("https://") for r in rows)


def test_a_system_without_a_row_needs_the_address() -> None:
    cluster = site("ubuntu-24.04", RTX5090, CUDA_ALONE)
    facts = {n: replace(f, os_version="25.10") for n, f in cluster.facts.items()}
    with pytest.raises(CorralError, match=r"no repository of NVIDIA for ubuntu 25\.10") as refused:
        desired_stages(replace(cluster, facts=facts))
    assert "vendor_repo" in refused.value.hint
    named = CUDA_ALONE.model_copy(update={"vendor_repo": "/srv/cuda-keyring.deb"})
    assert desired_stages(replace(site("ubuntu-24.04", RTX5090, named), facts=facts))


@pytest.mark.parametrize(("machine", "fetched"), [("x86_64", True), ("aarch64", False)])
def test_a_known_repository_is_for_x86_64_only(machine: str, fetched: bool, tmp_path: Path) -> None:
    script = plan_of(site("ubuntu-24.04", RTX5090, CUDA_ALONE)).stages[0].changes[0].change.script
    for name, text in (("uname", f"echo {machine}"), ("dpkg", ":"), ("apt-get", ":")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    helper = tmp_path / "apt-helper"
    helper.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    helper.chmod(0o755)
    ran = subprocess.run(
        ["sh", "-c", script.replace("/usr/lib/apt/apt-helper", str(helper))],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ((tmp_path / "asked").exists(), ran.returncode == 0) == (fetched, fetched)
    assert fetched or "set software.nvidia.vendor_repo" in ran.stderr


@pytest.mark.parametrize(
    ("offered", "installed"),
    [
        ("nvidia-imex-580 | 580.1.2-1 | repository", "nvidia-imex-580=580.1.2-1"),
        ("nvidia-imex | 590.1-1 | r\nnvidia-imex | 580.1.2-2 | r", "nvidia-imex=580.1.2-2"),
        ("nvidia-imex-580 | 580.9-1 | r", ""),
        ("", ""),
    ],
)
def test_a_part_of_the_driver_comes_at_its_version(
    offered: str, installed: str, tmp_path: Path
) -> None:
    """By the name with the driver's branch, or without it; of no other version."""
    programs = {
        "readlink": "echo /usr/lib/x/libnvidia-ml.so.580.1.2",
        "apt-cache": f"grep \"^$2 \" <<'EOF'\n{offered}\nEOF",
        "apt-get": f'for last; do :; done; echo "$last" >{tmp_path}/installed',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    change = DriverPart("imex", "nvidia-imex-580").diff(Seen(0, "driver 580.1.2"), Context("gpu0"))
    assert change is not None
    ran = subprocess.run(
        ["sh", "-c", change.script],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode == 0) is bool(installed), ran.stderr
    if installed:
        assert (tmp_path / "installed").read_text() == f"{installed}\n"
    else:
        assert ran.stderr == "no source offers nvidia-imex-580 of version 580.1.2\n"
        assert not (tmp_path / "installed").exists()


REFUSED = {
    "blackwell needs open": (
        "ubuntu-24.04", RTX5090, Nvidia(driver="580"), {}, "open kernel module only", "580-open"
    ),
    "blackwell needs 570": (
        "ubuntu-24.04", RTX5090, Nvidia(driver="550-open"), {}, "does not know", "580-open"
    ),
    "debian is too old for blackwell": (
        "debian-13", RTX5090, Nvidia(), {}, "branch 550 does not know", "source: vendor"
    ),
    "debian has one branch": (
        "debian-13", RTX4090, Nvidia(driver="580-open"), {}, "Debian 13 has driver 550", "auto"
    ),
    "pascal needs the other module": (
        "ubuntu-24.04", GTX1080, Nvidia(driver="580-open"), {}, "older than Turing", "driver: 580"
    ),
    "no one module for both": (
        "ubuntu-24.04", (*GTX1080, *RTX5090), Nvidia(), {}, "different kernel modules", "none"
    ),
    "secure boot and dkms": (
        "debian-13", RTX4090, Nvidia(), {"secure_boot": True}, "Secure Boot", "firmware"
    ),
    "secure boot and vendor": (
        "ubuntu-24.04", RTX5090, VENDOR, {"secure_boot": True}, "Secure Boot", "firmware"
    ),
    "fabric manager follows -server": (
        "ubuntu-24.04", HGX_H200, Nvidia(driver="580-open"), {}, "NVSwitches", "580-server-open"
    ),
    "debian has no fabric manager": (
        "debian-13", HGX_H200, Nvidia(), {}, "NVSwitches", "source: vendor"
    ),
    "b200 needs a subnet manager": (
        "ubuntu-24.04", HGX_B200, Nvidia(), {}, "subnet manager",
        "580-server-open with source: vendor"
    ),
    "b300 needs 580": (
        "ubuntu-24.04", HGX_B300, VENDOR.model_copy(update={"driver": "575-open"}), {},
        "branch 575 does not know", "580-server-open"
    ),
    "b200 and secure boot": (
        "ubuntu-24.04", HGX_B200, Nvidia(), {"secure_boot": True}, "Secure Boot", "firmware"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_cannot_run_is_refused_before_anything_is_installed(name: str) -> None:
    system, pci, what, more, message, hint = REFUSED[name]
    with pytest.raises(CorralError) as caught:
        desired_stages(site(system, pci, what, 1, **more))
    assert caught.value.code is Code.NOT_GOOD
    assert caught.value.node == "gpu0"
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_nothing_is_driven_that_nobody_declared() -> None:
    for what in (Nvidia(driver="none"), None):
        cluster = site("ubuntu-24.04", RTX5090, what)  # type: ignore[arg-type]
        assert (*nvidia.drivers(cluster), *nvidia.reboots(cluster)) == ()
        assert nvidia.running(cluster) == ()


def test_reboots_for_packages_only_where_the_file_asks_for_them() -> None:
    cluster = site("debian-13", (), Nvidia(driver="none"), reboot="required")
    (stage,) = nvidia.reboots(cluster)
    assert [w.nodes for w in stage.desired] == [("head", "gpu0", "gpu1")]
    assert stage.desired[0].resources == (Reboot(required=True),)
    assert stage.gates == ()
    never = site("ubuntu-24.04", RTX5090, Nvidia(), reboot="never")
    assert not any(
        isinstance(r, Reboot) for s in desired_stages(never) for w in s.desired for r in w.resources
    )


def slurm_conf_of(cluster: Site) -> str:
    files = (
        resource
        for stage in desired_stages(cluster)
        for desired in stage.desired
        for resource in desired.resources
        if isinstance(resource, File) and resource.path == "/etc/slurm/slurm.conf"
    )
    return next(files).content


@pytest.mark.parametrize(
    ("slurm", "gpu", "count", "written"),
    [
        ("24.11.5", "gb200", 4, True),
        ("24.05.0", "GB300", 4, True),
        ("23.11.4", "gb200", 4, False),
        ("24.11.5", "h200", 8, False),
        ("24.11.5", "gb200", 40, False),
    ],
)
def test_slurm_gives_jobs_imex_channels(slurm: str, gpu: str, count: int, written: bool) -> None:
    """Where its release has the plugin, and the group is one rack: two machines of 36 at most."""
    pci = GB200[:1] * count if gpu.lower().startswith("gb") else HGX_H200
    cluster = site("ubuntu-24.04", pci, Nvidia(driver="none"), count, gpu=gpu, slurm=slurm)
    line = "\nSwitchType=switch/nvidia_imex\n"
    assert (line in slurm_conf_of(cluster)) is written


def test_a_rack_runs_imex_with_a_driver_that_is_there_too() -> None:
    cluster = site("ubuntu-24.04", GB200, Nvidia(driver="none"), 4, gpu="gb200")
    (stage,) = plan_of(cluster).stages
    assert [(c.nodes, c.change.resource) for c in stage.changes] == [
        (("gpu0", "gpu1"), resource)
        for resource in ("file:/etc/nvidia-imex/nodes_config.cfg", "service:nvidia-imex")
    ]


def test_racks_are_the_users_own_machines_of_one_group() -> None:
    def rack(machines: int = 18, **changes: object) -> bool:
        group = {"name": "gpu", "provider": "ssh", "nodes": "n0", "addresses": "10.0.0.1"}
        gpu = {"type": "gb200", "count": 4}
        return is_rack(NodeGroup.model_validate(group | {"gpu": gpu} | changes), machines)

    assert rack()
    assert not rack(19)
    assert not rack(1)
    assert not rack(gpu={"type": "b200", "count": 4})
    assert not rack(provider="embedded", addresses=None)
    assert not rack(provider="lambda", addresses=None)
