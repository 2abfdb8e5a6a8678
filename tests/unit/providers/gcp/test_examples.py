"""Corral's blueprints next to the toolkit's examples, block by block, each difference with why."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from ruamel.yaml import YAML

from corral.providers.gcp.blueprint.cluster import Deployment, deployment_of
from corral.providers.gcp.machines import gpu_machines
from tests.unit.providers.gcp.test_blueprint import mega, rdma
from tests.unit.providers.gcp.toolkit_examples import (
    EXAMPLES,
    RECORDS,
    flat,
    head,
    module_of,
    record,
    text_of,
)

GUIDE = Path(__file__).parents[4] / "docs/guide/a3mega.md"
NONE: Final = "left out"
MEGA: Final = ("a3-megagpu-8g",)
RDMA: Final = tuple(name for name in EXAMPLES if name not in MEGA)
A4X: Final = ("a4x-highgpu-4g",)


class Difference(NamedTuple):
    """Settings that Corral writes otherwise, and why.

    Attributes:
        block: the module.
        setting: a pattern of their paths.
        why: as the guide has it.
        machines: whose examples differ.
    """

    block: str
    setting: str
    why: str
    machines: tuple[str, ...] = tuple(EXAMPLES)


YOURS: Final = "what the cluster file names"
PRIVATE: Final = "no public address, unless `public_addresses` is set: Cloud NAT and IAP do"
UNUSED: Final = "not used by the modules any more, or set for all modules at once"
ADDRESSES: Final = "names and addresses as of all types here; the ranges do not overlap"
DIFFERENCES: Final = (
    Difference("sysnet", "(?!mtu).*", ADDRESSES),
    Difference("gvnicnet", ".*name.*", ADDRESSES, RDMA),
    Difference("rdmanet", r"subnetworks_template\.name_prefix", ADDRESSES, RDMA),
    Difference(
        "gpunets",
        "mtu",
        "Google's figure for GPUDirect-TCPXO, which the example has for the system network alone",
        MEGA,
    ),
    Difference(
        "image_build_script",
        "configure_ssh_host_patterns",
        "`mpirun` by ssh between nodes is asked for no host key, as on A3 Mega",
        RDMA,
    ),
    Difference("slurm-image", "disk_size|image_family", YOURS, RDMA),
    Difference("slurm-image", "omit_external_ip", PRIVATE),
    Difference("slurm-image", r"labels\..*", "what the image is made from: it is known again"),
    Difference(
        "image_build_script",
        "docker.*|install_ansible",
        "installed in the image of each type",
        A4X,
    ),
    Difference("homefs", "name", YOURS),
    Difference(
        "homefs",
        ".*",
        "Managed Lustre unless `storage` has Filestore; the example has Lustre as a comment",
        ("a4-highgpu-8g", *A4X),
    ),
    Difference(
        "gcsfs",
        "mount_options|enable_hierarchical_namespace",
        "a plain mount, `cache: true` for one with a cache on local SSD",
    ),
    Difference("nodeset", "name|node_count_static|reservation_name", YOURS),
    Difference("nodeset", "startup_script", "each group of nodes has its own script", RDMA),
    Difference("nodeset", "enable_placement", "the module's default, written out", MEGA),
    Difference("nodeset", "enable_public_ips", PRIVATE, RDMA),
    Difference(
        "nodeset",
        "additional_networks",
        "the second gVNIC written out, as in the example of A3 Ultra",
        A4X,
    ),
    Difference("nodeset", r"dws_flex\.enabled|enable_spot_vm", "off, written out", A4X),
    Difference("nodeset", "instance_image_custom", UNUSED, A4X),
    Difference("slurm_login", "instance_image_custom|region|zone", UNUSED, A4X),
    Difference("slurm_controller", "instance_image_custom", UNUSED, A4X),
    Difference("partition", "partition_name", YOURS, ("a4-highgpu-8g", *A4X)),
    Difference("slurm_login", "enable_login_public_ips", PRIVATE),
    Difference("slurm_login", "disk_.*|name_prefix", "as of A3 Mega", RDMA),
    Difference("slurm_controller", "enable_controller_public_ips", PRIVATE),
    Difference(
        "slurm_controller",
        "disk_.*|machine_type",
        "80 CPUs and the fastest disk are for hundreds of nodes",
        ("a3-ultragpu-8g", "a4-highgpu-8g"),
    ),
    Difference(
        "slurm_controller",
        "enable_cleanup_compute|login_startup_script|prolog_scripts.*",
        "as of A3 Mega",
        RDMA,
    ),
)
ONE_LESS: Final = "the image is made in the system network: one network less"
LEFT_OUT: Final = {
    r"slurm-image-network|a4x-slurm-image-net": ONE_LESS,
    r"gcs_(checkpoints|training_data|model_serving)": "the same bucket again, by other options",
    r"debug_(nodeset|partition|startup)": "a group of `n2-standard-2`, where the file has one",
}
ADDED: Final = frozenset({"private_service_access"})
"""Managed Lustre needs it."""


def role(name: str, module: dict[str, Any]) -> str:
    """The block that a module of an example or of Corral's is; "" for what Corral leaves out."""
    if any(re.fullmatch(pattern, name) for pattern in LEFT_OUT):
        return ""
    source = module["source"].rpartition("/")[2]
    if source == "vpc":
        return "sysnet" if name == "sysnet" or name.endswith("net-0") else "gvnicnet"
    if source == "startup-script":
        if name == "controller_startup":
            return name
        return "image_build_script" if "build" in name else "startup"
    if source == "pre-existing-network-storage":
        return ""
    roles = {
        "custom-image": "slurm-image", "multivpc": "gpunets", "gpu-rdma-vpc": "rdmanet",
        "managed-lustre": "homefs", "filestore": "homefs", "cloud-storage-bucket": "gcsfs",
        "schedmd-slurm-gcp-v6-nodeset": "nodeset", "schedmd-slurm-gcp-v6-partition": "partition",
        "schedmd-slurm-gcp-v6-login": "slurm_login",
        "schedmd-slurm-gcp-v6-controller": "slurm_controller",
        "private-service-access": "private_service_access",
    }  # fmt: skip
    return roles[source]


def deployment(machine: str) -> Deployment:
    return deployment_of(mega() if machine in MEGA else rdma(machine))


def ours(machine: str) -> dict[str, dict[str, Any]]:
    data = YAML(typ="safe").load(deployment(machine).files["blueprint.yaml"])
    modules = {m["id"]: module_of(m) for g in data["deployment_groups"] for m in g["modules"]}
    return {role(name, module): module for name, module in modules.items()}


def recorded(machine: str) -> dict[str, Any]:
    return YAML(typ="safe").load((RECORDS / f"{machine}.yaml").read_text())


def settings(module: dict[str, Any]) -> dict[str, str]:
    """As text without spaces, with the names of modules in it as Corral's."""
    parts = flat({"source": module["source"], **module["settings"]})
    names = {r"\w+-slurm-net-1\.": "gvnicnet.", r"\w+-slurm-rdma-net\.": "rdmanet."}
    texts = {path: re.sub(r"\s+", "", str(value)) for path, value in parts.items()}
    for pattern, name in names.items():
        texts = {path: re.sub(pattern, name, text) for path, text in texts.items()}
    return texts


def differing(machine: str) -> Iterator[tuple[str, str]]:
    """Block and setting wherever Corral's is another value."""
    made = ours(machine)
    for name, module in recorded(machine)["modules"].items():
        block = role(name, module)
        if not block:
            continue
        theirs, own = settings(module), settings(made[block])
        for path in sorted(theirs.keys() | own.keys()):
            if theirs.get(path, NONE) != own.get(path, NONE):
                yield block, path


def reason(block: str, path: str, machine: str) -> Difference | None:
    return next(
        (
            d
            for d in DIFFERENCES
            if d.block == block and machine in d.machines and re.fullmatch(d.setting, path)
        ),
        None,
    )


@pytest.mark.parametrize("machine", list(EXAMPLES))
def test_each_difference_from_the_toolkits_example_has_a_reason(machine: str) -> None:
    differences = list(differing(machine))
    assert [pair for pair in differences if reason(*pair, machine) is None] == []
    used = {reason(*pair, machine) for pair in differences}
    assert {d for d in DIFFERENCES if machine in d.machines} - used == set(), "no longer differs"


@pytest.mark.parametrize("machine", list(EXAMPLES))
def test_no_block_is_missing(machine: str) -> None:
    theirs = {role(name, module) for name, module in recorded(machine)["modules"].items()} - {""}
    own = set(ours(machine))
    assert theirs <= own
    assert own - theirs <= ADDED


@pytest.mark.parametrize("machine", list(EXAMPLES))
def test_what_an_examples_scripts_install_and_use_corrals_do_too(machine: str) -> None:
    text = "\n".join(deployment(machine).files.values()).replace("\\$(", "$(")
    assert [name for name in recorded(machine)["names"] if name not in text] == []


def test_each_machine_type_is_compared() -> None:
    assert set(EXAMPLES) == set(gpu_machines())


def test_the_guide_names_each_difference() -> None:
    guide = re.sub(r"\s+", " ", GUIDE.read_text())
    whys = {d.why for d in DIFFERENCES} | set(LEFT_OUT.values())
    assert [why for why in whys if re.sub(r"\s+", " ", why) not in guide] == []


@pytest.mark.parametrize("machine", list(EXAMPLES))
def test_the_record_is_the_toolkits_own_example(machine: str) -> None:
    checkout = os.environ.get("CORRAL_TEST_TOOLKIT", "")
    if not checkout:
        pytest.skip("CORRAL_TEST_TOOLKIT names no checkout of the toolkit")
    name = Path(checkout) / "examples/machine-learning" / machine / EXAMPLES[machine]
    stored = (RECORDS / f"{machine}.yaml").read_text()
    assert stored == head(machine) + text_of(record(name.read_text()))
