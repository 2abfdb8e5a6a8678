"""The image of an A3 Mega cluster: what its machine runs before it is frozen. Pure."""

from __future__ import annotations

from typing import Any, Final

from corral.providers.blueprint_modules import LOCAL_SSD, data, module, shell
from corral.providers.toolkit import SLURM_GCP
from corral.spec.gcp import Gcp

BASE_IMAGES: Final = {
    "v1.95.0": ("ubuntu-os-accelerator-images",
                "ubuntu-accelerator-2404-amd64-with-nvidia-580-v20260522"),
    "v1.39.0": ("ubuntu-os-cloud", "ubuntu-2204-lts"),
}  # fmt: skip
"""Project and image; for v1.39.0 the image's family: EXAScaler's client takes Ubuntu, not the
Debian of that release's example (seed 003)."""

# Packages that change unattended on a machine with jobs; upgrades come with a new image.
_NO_UPGRADES: Final = """\
#cloud-config
create_hostname_file: true
write_files:
- path: /etc/apt/apt.conf.d/20auto-upgrades
  permissions: '0644'
  owner: root
  content: |
    APT::Periodic::Update-Package-Lists "0";
    APT::Periodic::Unattended-Upgrade "0";
"""


def image_script(gcp: Gcp) -> list[dict[str, Any]]:
    """What the image's machine runs before it is frozen."""
    old = gcp.toolkit == "v1.39.0"
    settings: dict[str, Any] = {
        "install_ansible": True,
        # Root's known_hosts of the toolkit's image: nodes reach each other on all nine networks.
        "configure_ssh_host_patterns": [
            *(f"10.{i}.0.*" for i in range(8)),
            "$(vars.slurm_cluster_name)*",
        ],
        "runners": _image_runners(gcp),
    }
    if old:
        settings |= {"install_docker": True, "enable_docker_world_writable": True}
    else:
        settings |= {
            "enable_gpu_network_wait_online": True,
            "docker": {"enabled": True, "world_writable": True},
        }
    return [module("image_build_script", "modules/scripts/startup-script", **settings)]


def _image_runners(gcp: Gcp) -> list[dict[str, Any]]:
    old = gcp.toolkit == "v1.39.0"
    lustre = any(s.kind == "lustre" for s in gcp.storage) or not (old or gcp.storage)
    variables = "\n".join(
        [
            "{",
            '  "reboot": false,',
            f'  "install_cuda": {str(old).lower()},',
            '  "install_ompi": true,',
            # Not slurm-gcp's Lustre client: EXAScaler brings its own, for the kernel at hand.
            '  "install_lustre": false,',
            *([] if old else [f'  "install_managed_lustre": {str(lustre).lower()},']),
            '  "install_gcsfuse": true,',
            '  "monitoring_agent": "cloud-ops",',
            '  "use_open_drivers": true',
            "}",
            "",
        ]
    )
    enroot = "".join(
        f"ENROOT_{what}_PATH {path}\n"
        for what, path in (
            ("CONFIG", "${HOME}/.enroot"),
            ("RUNTIME", f"{LOCAL_SSD}/${{UID}}/enroot/runtime"),
            ("CACHE", f"{LOCAL_SSD}/${{UID}}/enroot/cache"),
            ("DATA", f"{LOCAL_SSD}/${{UID}}/enroot/data"),
            ("TEMP", f"{LOCAL_SSD}/${{UID}}/enroot"),
        )
    )
    limits = "".join(
        f"* - {what} {value}\n"
        for what, value in (
            ("memlock", "unlimited"),
            ("nproc", "unlimited"),
            ("stack", "unlimited"),
            ("nofile", "1048576"),
            ("cpu", "unlimited"),
            ("rtprio", "unlimited"),
        )
    )
    return [
        shell("image-hold.sh"),
        data("/var/tmp/slurm_vars.json", variables),  # noqa: S108  # on the image's machine
        shell("image-slurm.sh", SLURM_GCP=SLURM_GCP[gcp.toolkit]),
        *((shell("image-gve.sh"),) if old else ()),
        shell("image-container-toolkit.sh" if old else "image-cuda.sh"),
        data("/etc/security/limits.d/99-corral.conf", limits),
        data("/etc/enroot/enroot.conf", enroot),
        shell("image-userns.sh"),
        shell("image-dmabuf.sh"),
        shell("image-aperture.sh"),
    ]


def image(gcp: Gcp) -> dict[str, Any]:
    """The image itself, by Packer; not on an N-series machine, where the open driver is refused."""
    project, name = BASE_IMAGES[gcp.toolkit]
    old = gcp.toolkit == "v1.39.0"
    packer = module(
        "slurm-image",
        "modules/packer/custom-image",
        use=("image_build_script", "sysnet"),
        machine_type="c2-standard-8",
        **{"source_image_family" if old else "source_image": name},
        source_image_project_id=[project],
        image_family="$(vars.final_image_family)",
        disk_size="$(vars.disk_size_gb)",
        omit_external_ip=not gcp.public_addresses,
        metadata={"user-data": _NO_UPGRADES},
    )
    return {**packer, "kind": "packer"}
