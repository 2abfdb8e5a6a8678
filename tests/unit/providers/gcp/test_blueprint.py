"""Blueprints of the Cluster Toolkit: golden files, and every setting in the recorded schema."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from corral.errors import CorralError
from corral.providers.export_files import _below, unexpressed
from corral.providers.gcp.blueprint import cluster, networks, releases
from corral.providers.gcp.blueprint.cluster import Deployment, deployment_of, not_exported
from corral.providers.gcp.blueprint.modules import LATER, escaped
from corral.providers.gcp.deployment import _require_addresses
from corral.providers.gcp.machines import gpu_machines
from corral.providers.gcp.toolkit_cluster import section_of
from corral.providers.ssh.deepops import export
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.spec.reference import _path
from corral.spec.schema import walk

EXAMPLES = Path(__file__).parents[4] / "examples"


def example(name: str, **gcp: object) -> ClusterSpec:
    spec = load_or_raise(EXAMPLES / name)
    assert section_of(spec) is not None
    data = spec.model_dump()
    data["gcp"] |= gcp
    return ClusterSpec.model_validate(data)


def mega(**gcp: object) -> ClusterSpec:
    return example("a3mega.yaml", **gcp)


def rdma(machine: str, **gcp: object) -> ClusterSpec:
    """The example of A3 Ultra, of another type of machine."""
    kind = gpu_machines()[machine]
    data = example("a3ultra.yaml", **gcp).model_dump()
    data["groups"][1].update(machine=machine, gpu={"type": kind.gpu, "count": kind.gpus})
    return ClusterSpec.model_validate(data)


PROLOGS = releases.known_releases().prologs
RDMA = tuple(name for name, kind in gpu_machines().items() if kind.network.kind == "rdma")


SEED: dict[str, object] = {
    # Seed 003: v1.39.0, EXAScaler next to a home on the controller's own disk.
    "toolkit": "v1.39.0",
    "storage": ({"mount": "/data", "kind": "exascaler"}, {"mount": "/gcs", "kind": "bucket"}),
}
CASES: dict[str, dict[str, object]] = {
    "today": {},
    "seed": SEED,
    "seed-filestore": {"toolkit": "v1.39.0", "storage": ()},
    "flex": {"provisioning": "flex-start", "reservation": None},
    "spot-filestore": {
        "provisioning": "spot",
        "reservation": None,
        "storage": ({"mount": "/home", "kind": "filestore", "size_gib": 20480},),
    },
    # Everything that exists already, and everything that is optional.
    "existing": {
        "storage": (
            {"mount": "/home", "kind": "filestore", "existing": "10.20.0.2:/nfsshare"},
            {"mount": "/data", "kind": "lustre", "existing": "10.20.0.3@tcp:/lustrefs"},
            {"mount": "/gcs", "kind": "bucket", "existing": "my-data", "cache": True},
        ),
        "network": {"name": "my-network", "subnetwork": "my-subnet"},
        "image_script": "/srv/more.sh",
        "ops_agent": False,
    },
    "existing-seed": {
        "toolkit": "v1.39.0",
        "storage": (
            {"mount": "/a/data", "kind": "bucket", "existing": "my-data"},
            {"mount": "/data", "kind": "exascaler", "exascaler": {"oss": {"count": 4}}},
            {"mount": "/old", "kind": "exascaler", "existing": "10.20.0.3@tcp:/exacloud"},
        ),
        "network": {"name": "my-network", "subnetwork": "my-subnet"},
    },
}
SCRIPT = 'apt-get install -y nvtop\necho "$(date)" \\$(not an expression)'
ADDRESSES = {"datafs": "172.16.0.7@tcp", "datafsx": "172.16.0.7@tcp", "homefs": "10.0.0.9"}


def read(made: Deployment) -> Mapping[str, Any]:
    return {name: YAML(typ="safe").load(text) for name, text in made.files.items()}


def modules(made: Deployment) -> dict[str, dict[str, Any]]:
    return {
        m["id"]: m
        for name, data in read(made).items()
        if "deployment_groups" in data
        for g in data["deployment_groups"]
        for m in g["modules"]
    }


def debugged(spec: ClusterSpec) -> ClusterSpec:
    """The same cluster with a partition of machines without GPUs."""
    data = spec.model_dump()
    data["groups"] += (
        {
            "name": "debug",
            "provider": "gcp",
            "machine": "n2-standard-2",
            "nodes": f"{spec.name}-debug-[0-1]",
        },
    )
    data["partitions"] += ({"name": "debug", "groups": ("debug",)},)
    return ClusterSpec.model_validate(data)


def plain(**gcp: object) -> ClusterSpec:
    """The same cluster with machines without GPUs alone."""
    data = debugged(mega(**gcp)).model_dump()
    data["groups"] = [g for g in data["groups"] if g["name"] != "a3mega"]
    data["partitions"] = [{"name": "debug", "groups": ("debug",)}]
    return ClusterSpec.model_validate(data)


@pytest.mark.parametrize("case", ["today", "seed"])
def test_golden(case: str, golden: Callable[[str, str], None]) -> None:
    for name, text in deployment_of(mega(**CASES[case])).files.items():
        golden(f"gcluster/{case}/{name}", text)


@pytest.mark.parametrize("machine", RDMA)
def test_golden_with_rdma(machine: str, golden: Callable[[str, str], None]) -> None:
    for name, text in deployment_of(rdma(machine)).files.items():
        golden(f"gcluster/{machine}/{name}", text)


@pytest.mark.parametrize("case", ["existing", "existing-seed"])
def test_golden_with_machines_without_gpus(case: str, golden: Callable[[str, str], None]) -> None:
    made = deployment_of(debugged(mega(**CASES[case])), ADDRESSES, script=SCRIPT)
    for name, text in made.files.items():
        golden(f"gcluster/{case}/{name}", text)


@pytest.mark.parametrize("case", list(CASES))
def test_every_setting_is_in_the_release(case: str) -> None:
    made = deployment_of(
        debugged(mega(**CASES[case]))
    )  # it checks itself; and a wrong one is refused:
    for module in modules(made).values():
        broken = {"deployment_groups": [{"modules": [module]}]}
        module.setdefault("settings", {})["no_such_setting"] = 1
        with pytest.raises(CorralError, match="no_such_setting"):
            releases.check(made.release, broken)


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [("mtu", "8244", "mtu is a number"), ("network_name", 5, "network_name is a string")],
)
def test_types_are_checked(setting: str, value: object, reason: str) -> None:
    module = {"id": "n", "source": "modules/network/vpc", "settings": {setting: value}}
    with pytest.raises(CorralError, match=reason):
        releases.check("v1.95.0", {"deployment_groups": [{"modules": [module]}]})


def test_nine_networks_with_large_frames() -> None:
    for case in ("today", "seed"):
        exported = modules(deployment_of(mega(**CASES[case])))
        assert exported["gpunets"]["settings"]["network_count"] == 8
        assert {
            m["settings"]["mtu"] for m in exported.values() if "mtu" in m.get("settings", {})
        } == {8244}


@pytest.mark.parametrize("machine", RDMA)
def test_rdma_has_its_zones_profile_and_two_gvnics_before_it(machine: str) -> None:
    made = modules(deployment_of(rdma(machine)))
    assert "gpunets" not in made
    network = made["rdmanet"]["settings"]
    assert network["network_profile"].endswith("/networkProfiles/$(vars.zone)-vpc-roce")
    assert network["subnetworks_template"]["count"] == gpu_machines()[machine].network.count
    nodes = made["a3ultra_nodeset"]
    assert nodes["use"] == ["sysnet"]
    interfaces = nodes["settings"]["additional_networks"]
    assert interfaces.index("gvnicnet.") < interfaces.index("rdmanet.subnetwork_interfaces")
    assert nodes["settings"]["machine_type"] == machine
    mtus = {m["settings"]["mtu"] for m in made.values() if "mtu" in m.get("settings", {})}
    assert mtus == {8896}


def test_a4x_is_placed_by_nvlink_domains_and_has_imex() -> None:
    deployed = deployment_of(rdma("a4x-highgpu-4g"))
    made = modules(deployed)
    nodes = made["a3ultra_nodeset"]["settings"]
    assert (nodes["enable_placement"], nodes["accelerator_topology"]) == (True, "1x72")
    controller = made["slurm_controller"]["settings"]
    assert controller["cloud_parameters"]["switch_type"] == "switch/nvidia_imex"
    assert controller["controller_state_disk"] is None
    assert "-arm64-" in made["slurm-image"]["settings"]["source_image"]
    scripts = runners(deployed, "controller_startup")["prologs-a3ultra.sh"]
    assert f"imex_prolog:imex_prolog:{PROLOGS.digests['imex_prolog']}:prolog " in scripts
    assert f"imex_epilog:imex_epilog:{PROLOGS.digests['imex_epilog']}:epilog;" in scripts
    assert any("stack 8192" in text for text in runners(deployed, "image_build_script").values())
    for machine in ("a3-ultragpu-8g", "a4-highgpu-8g"):
        text = "".join(deployment_of(rdma(machine)).files.values())
        assert "imex" not in text.replace("fabricmanager|imex", "") and "1x72" not in text


def test_ranges_of_a_machines_interfaces_do_not_overlap() -> None:
    for kind in gpu_machines().values():
        ranges = [networks.SYSTEM_RANGE, kind.network.range, kind.network.second]
        nets = [ipaddress.ip_network(text) for text in ranges if text]
        pairs = [(a, b) for i, a in enumerate(nets) for b in nets[i + 1 :]]
        assert not [pair for pair in pairs if pair[0].overlaps(pair[1])]


def test_rdma_has_nothing_of_tcpxo() -> None:
    made = deployment_of(rdma("a3-ultragpu-8g"))
    text = "".join(made.files.values())
    assert "aperture" not in text.replace("left Ubuntu's jobs without /dev/aperture_devices", "")
    assert "receive-data-path" not in text
    assert "long-prolog" not in text
    assert "image-gib.sh" in runners(made, "image_build_script")
    assert "nccl-gib=1.1.0" in runners(made, "image_build_script")["image-gib.sh"]


def test_each_type_has_its_base_image_in_each_of_its_releases() -> None:
    for kind in gpu_machines().values():
        assert set(kind.images) == set(kind.toolkits)
        for release in kind.toolkits:
            base = kind.images[release]
            assert bool(base.image) is not bool(base.family)
        programs = (*kind.image_programs, *kind.node_programs)
        assert all(releases.script(name) for name in programs)
        assert {script.source for script in kind.prologs.values()} <= set(PROLOGS.digests)


def test_capacity_is_asked_for_one_way_only() -> None:
    for case, want in (
        ("today", ("my-reservation", False, False)),
        ("flex", ("", False, True)),
        ("spot-filestore", ("", True, False)),
    ):
        s = modules(deployment_of(mega(**CASES[case])))["a3mega_nodeset"]["settings"]
        assert (s["reservation_name"], s["enable_spot_vm"], s["dws_flex"]["enabled"]) == want
        assert s["enable_placement"] is (case != "flex")


def test_spot_machines_watch_for_their_end_and_no_others_do() -> None:
    made = runners(deployment_of(mega(**CASES["spot-filestore"])), "a3mega_startup")
    assert "case ${1-} in\nwatch)" in made["/usr/local/lib/corral/preemption.sh"]
    unit = made["node-preemption.sh"]
    assert "CORRAL_NOTICE_URL=http://metadata.google.internal/computeMetadata/v1/instance/" in unit
    assert "preemption.sh watch" in unit
    assert "@" not in unit.partition("[Unit]")[2]
    for case in ("today", "flex"):
        others = runners(deployment_of(mega(**CASES[case])), "a3mega_startup")
        assert "node-preemption.sh" not in others


def test_the_prolog_is_pinned_and_its_digest_checked() -> None:
    for case in ("today", "seed"):
        runners = modules(deployment_of(mega(**CASES[case])))["controller_startup"]["settings"]
        text = runners["runners"][0]["content"]
        assert PROLOGS.commit in text
        assert "/master/" not in text
        for name, each in gpu_machines()["a3-megagpu-8g"].prologs.items():
            assert f"{name}:{each.source}:{PROLOGS.digests[each.source]}:prolog,epilog" in text
        assert "@" not in text.replace("@tcp", "")
        assert "partition-a3mega-prolog_slurmd.d" in text


def test_the_bases_address_reaches_the_later_phases() -> None:
    made = deployment_of(mega(**SEED), {"datafs": "172.16.0.7@tcp"})
    files = read(made)
    assert files["deployment-image-cluster.yaml"]["vars"]["server_ip_datafs"] == "172.16.0.7@tcp"
    used = modules(made)["datafs"]["settings"]
    assert used["server_ip"] == "$(vars.server_ip_datafs)"
    assert (used["fs_type"], used["local_mount"]) == ("lustre", "/data")
    assert [p.name for p in made.phases] == ["base", "image", "cluster"]


def test_an_unknown_address_is_left_open() -> None:
    """It was 0.0.0.0: gcluster took it, and the nodes mounted from nowhere."""
    for case in ("seed", "seed-filestore"):
        made = deployment_of(mega(**CASES[case]))
        assert not any(f": {LATER}" in text for text in made.files.values())
        (later,) = (t for n, t in made.files.items() if n == "deployment-image-cluster.yaml")
        (id,) = (m["id"] for m in modules(made).values() if "server_ip" in m.get("settings", {}))
        assert f"server_ip_{id}" not in YAML(typ="safe").load(later)["vars"]
        assert f"# server_ip_{id}: ADDRESS" in later


def test_an_address_that_the_base_did_not_give_stops_the_next_phase() -> None:
    _require_addresses(deployment_of(mega(**SEED), {"datafs": "172.16.0.7@tcp"}, LATER))
    with pytest.raises(CorralError, match="no address of datafs"):
        _require_addresses(deployment_of(mega(**SEED), {}, LATER))


def test_what_exists_is_mounted_and_not_made() -> None:
    made = modules(deployment_of(mega(**CASES["existing"])))
    assert "private_service_access" not in made
    assert made["sysnet"]["source"] == "modules/network/pre-existing-vpc"
    mounts = {
        id: (s.get("server_ip"), s["remote_mount"], s["local_mount"], s["fs_type"])
        for id in ("homefs", "datafs", "gcsfs")
        for s in (made[id]["settings"],)
    }
    assert mounts == {
        "homefs": ("10.20.0.2", "/nfsshare", "/home", "nfs"),
        "datafs": ("10.20.0.3@tcp", "/lustrefs", "/data", "managed_lustre"),
        "gcsfs": (None, "my-data", "/gcs", "gcsfuse"),
    }
    assert set(made["slurm_controller"]["use"]) >= set(mounts)


def test_a_mount_point_that_sounds_like_a_buckets_keeps_its_address() -> None:
    """The base's file system was called otherwise in the phase that mounts it."""
    files = read(deployment_of(mega(**CASES["existing-seed"]), ADDRESSES))
    settings = files["deployment-image-cluster.yaml"]["vars"]
    assert settings["server_ip_datafsx"] == "172.16.0.7@tcp"
    made = {m["id"]: m for g in files["base.yaml"]["deployment_groups"] for m in g["modules"]}
    assert list(made) == ["sysnet", "datafsx"]


def test_exascaler_has_the_machines_and_disks_of_the_file() -> None:
    plain = modules(deployment_of(mega(**SEED), ADDRESSES))["datafs"]
    assert "server_ip" in plain["settings"]
    disks = {"disk_type": "scratch", "disk_gb": 375, "disks": 8}
    servers = {"mds": {"machine": "n2-standard-64"}, "oss": {"count": 6, **disks}}
    storage = ({"mount": "/data", "kind": "exascaler", "exascaler": servers},)
    base = read(deployment_of(mega(toolkit="v1.39.0", storage=storage)))["base.yaml"]
    by_id = {m["id"]: m for group in base["deployment_groups"] for m in group["modules"]}
    settings = by_id["datafs"]["settings"]
    assert settings["mds"]["node_type"] == "n2-standard-64"
    assert settings["mdt"]["disk_size"] == 3500
    assert settings["oss"]["node_count"] == 6
    assert settings["ost"] == {
        "disk_bus": "NVME",
        "disk_type": "scratch",
        "disk_size": 375,
        "disk_count": 8,
        "disk_raid": False,
    }
    assert settings["mgs"]["node_count"] == 1


def runners(made: Deployment, module: str) -> dict[str, str]:
    settings = modules(made)[module]["settings"]
    return {r["destination"]: r["content"] for r in settings["runners"]}


def test_the_files_own_script_runs_last_in_the_image() -> None:
    script = "apt-get install -y nvtop\n"
    made = runners(deployment_of(mega(), script=script), "image_build_script")
    assert list(made)[-1] == "image-script.sh"
    assert made["image-script.sh"] == "#!/bin/bash\nset -e -o pipefail\n" + script
    made = runners(deployment_of(mega(), script="#!/bin/sh\ntrue"), "image_build_script")
    assert made["image-script.sh"] == "#!/bin/sh\ntrue\n"
    assert "image-script.sh" not in runners(deployment_of(mega()), "image_build_script")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a $(b)", r"a \$(b)"),
        (r"a \$(b)", r"a \\\$(b)"),
        (r"a \\$(b)", r"a \\\\\$(b)"),
        (r"a \n $b", r"a \n $b"),
    ],
)
def test_a_script_reaches_the_machine_as_it_is_written(text: str, written: str) -> None:
    """Half of the backslashes before an expression are the toolkit's (``tokenizeBpLine``)."""
    assert escaped(text) == written


def test_machines_without_gpus_have_nothing_of_tcpxo() -> None:
    made = modules(deployment_of(debugged(mega())))
    nodes = made["debug_nodeset"]
    assert nodes["use"] == ["sysnet"]
    assert nodes["settings"]["machine_type"] == "n2-standard-2"
    assert nodes["settings"]["node_count_static"] == 2
    assert "partition_conf" in made["a3mega_partition"]["settings"]
    assert made["a3mega_partition"]["settings"]["partition_conf"]["OverSubscribe"] == "EXCLUSIVE"
    assert "OverSubscribe" not in made["debug_partition"]["settings"]["partition_conf"]
    staged = runners(deployment_of(debugged(mega())), "controller_startup")
    assert list(staged) == ["prologs-a3mega.sh", "gpu-check-a3mega.sh", "enroot-default.sh"]


@pytest.mark.parametrize("case", list(CASES))
def test_a_cluster_without_gpus_has_image_and_networks_of_the_first_type(case: str) -> None:
    made, full = (modules(deployment_of(s(**CASES[case]))) for s in (plain, with_debug))
    assert not [m for m in full.keys() - made.keys() if "a3mega" not in m]
    changed = {name for name, module in made.items() if module != full[name]}
    assert changed == {"controller_startup", "slurm_controller"}
    assert made["slurm_controller"]["settings"] == full["slurm_controller"]["settings"]


def with_debug(**gcp: object) -> ClusterSpec:
    return debugged(mega(**gcp))


def test_containers_have_a_version() -> None:
    """Nodes that are made later had another plugin."""
    images = {
        image
        for machine in gpu_machines()
        for text in deployment_of(rdma(machine) if machine in RDMA else mega()).files.values()
        for image in re.findall(r"docker\.pkg\.dev/\S*", text)
    }
    assert images
    assert [image for image in images if not re.search(r":v\d+\.\d+\.\d+$", image)] == []


def test_each_optional_service_is_there_or_not() -> None:
    on, off = deployment_of(mega()), deployment_of(mega(gpu_check=False, ops_agent=False))
    assert "gpu-check-a3mega.sh" in runners(on, "controller_startup")
    assert "gpu-check-a3mega.sh" not in runners(off, "controller_startup")
    assert "gpu-check-a3mega.sh" not in runners(deployment_of(mega(**SEED)), "controller_startup")
    assert "type: dcgm" in runners(on, "a3mega_startup")["node-ops-agent.sh"]
    assert "node-ops-agent.sh" not in runners(off, "a3mega_startup")
    assert "image-no-ops-agent.sh" in runners(off, "image_build_script")
    assert "image-no-ops-agent.sh" not in runners(on, "image_build_script")


def test_a_bucket_with_a_cache_is_mounted_again_on_gpu_nodes() -> None:
    made = deployment_of(debugged(mega(**CASES["existing"])))
    text = runners(made, "a3mega_startup")["bucket-cache-0.sh"]
    assert "mount=/gcs cache=/mnt/localssd/corral-bucket-0" in text
    assert "@" not in text
    assert not [n for n in runners(deployment_of(mega()), "a3mega_startup") if "cache" in n]


def test_what_blueprints_cannot_express_is_reported() -> None:
    assert not_exported(mega()) == ("groups[].ssh: how Corral logs in",)
    data = mega().model_dump(mode="json")
    data["users"] = [{"name": "ann", "uid": 2000}]
    data["accounts"] = [{"name": "lab"}]
    data["health"] = {"every": "off"}
    data["groups"][1]["features"] = ["big"]
    text = "\n".join(not_exported(ClusterSpec.model_validate(data)))
    for field in ("users: Google's OS Login", "accounts", "health.every", "groups[].features"):
        assert field in text


EXPORTERS = {"blueprint": cluster._EXPRESSED, "deepops": export._EXPRESSED}
PATHS = [_path(field) for field in walk() if field.path]


class Declared:
    """A cluster file that declares one field."""

    def __init__(self, path: str) -> None:
        self.data: Any = 1
        for part in reversed(path.split(".")):
            self.data = [self.data] if part.endswith("[]") else self.data
            self.data = {part.removesuffix("[]"): self.data}

    def model_dump(self, **_: object) -> Any:
        return self.data


@pytest.mark.parametrize("name", EXPORTERS)
def test_each_field_of_the_cluster_file_is_expressed_or_reported(name: str) -> None:
    """Those that come later are in no table, and so are reported."""
    expressed = EXPORTERS[name]
    assert expressed <= set(PATHS), "no such field"
    for path in PATHS:
        lines = unexpressed(Declared(path), expressed, {"": "why"})  # type: ignore[arg-type]
        there = any(_below(path, field) or _below(field, path) for field in expressed)
        assert bool(lines) is not there, path
        assert all(_below(path, line.removesuffix(": why")) for line in lines)


def test_shell_in_blueprints_is_no_expression() -> None:
    """``$(`` begins an expression of the toolkit's, wherever it stands."""
    specs = [*(mega(**CASES[case]) for case in ("today", "seed")), *map(rdma, RDMA)]
    for spec in specs:
        for name, text in deployment_of(spec).files.items():
            for at in range(len(text)):
                if text.startswith("$(", at) and text[at - 1] != "\\":
                    inner = text[at + 2 : text.index(")", at)]
                    known = inner.startswith(("vars.", "concat([{network=null"))
                    assert known or inner.endswith("startup_script"), name


def test_another_cluster_is_refused() -> None:
    with pytest.raises(CorralError, match="not made by"):
        deployment_of(load_or_raise(EXAMPLES / "laptop.yaml"))


def binary(release: str) -> str:
    """A gcluster of that release: CORRAL_TEST_GCLUSTER_V1_95_0, or the one on PATH."""
    variable = "CORRAL_TEST_GCLUSTER_" + release.replace(".", "_").upper()
    program = os.environ.get(variable) or shutil.which("gcluster") or ""
    if not program:
        pytest.skip(f"gcluster is not on PATH, and {variable} names none")
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout
    if release not in version:
        pytest.skip(f"{program} is not {release}: {version.splitlines()[0]}")
    return program


FORMS = {
    **{case: debugged(mega(**settings)) for case, settings in CASES.items()},
    **{machine: rdma(machine) for machine in RDMA},
    "a3-ultragpu-8g-debug": debugged(rdma("a3-ultragpu-8g")),
    **{f"plain-{case}": plain(**CASES[case]) for case in ("today", "seed")},
    **{
        f"{machine}-{how}": rdma(machine, provisioning=how, reservation=None)
        for machine in RDMA
        for how in ("flex-start", "spot")
        if how in gpu_machines()[machine].provisioning
    },
}
MOCK = {
    "gpus": {
        name: {"count": kind.gpus, "type": f"nvidia-{kind.gpu}"}
        for name, kind in gpu_machines().items()
    }
}
"""What gcluster would ask Google about machine types."""


@pytest.mark.parametrize("form", list(FORMS))
def test_a_real_gcluster_takes_it(form: str, tmp_path: Path) -> None:
    made = deployment_of(FORMS[form], ADDRESSES, script=SCRIPT)
    program = binary(made.release)
    for name, text in made.files.items():
        (tmp_path / name).write_text(text)
    # Google is asked nothing: validators that need credentials warn, machine types are given.
    for phase in made.phases:
        done = subprocess.run(
            [
                program,
                "create",
                phase.blueprint,
                "-d",
                phase.settings,
                "-o",
                "out",
                "--validation-level",
                "WARNING",
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={
                **os.environ,
                "GHPC_MOCK_MACHINE_CONFIG": json.dumps(MOCK),
                "HOME": str(tmp_path),
            },
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, output
        assert (tmp_path / "out" / phase.deployment / phase.groups[0]).is_dir(), output
    shutil.rmtree(tmp_path / "out")


def test_a_real_gcluster_refuses_a_phase_whose_address_is_not_known(tmp_path: Path) -> None:
    made = deployment_of(mega(**SEED))
    program = binary(made.release)
    for name, text in made.files.items():
        (tmp_path / name).write_text(text)
    codes = [
        subprocess.run(
            [
                program,
                "create",
                phase.blueprint,
                "-d",
                phase.settings,
                "-o",
                "out",
                "--validation-level",
                "WARNING",
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        for phase in made.phases
    ]
    assert [done.returncode == 0 for done in codes] == [True, True, False]
    assert "server_ip_datafs" in codes[2].stdout + codes[2].stderr
    shutil.rmtree(tmp_path / "out")
