#!/bin/bash
# CUDA and DCGM from NVIDIA's repository; DCGM is held, since its major version must fit the driver.
#
# Installed as: nowhere: in the blueprint of the image (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, on the machine of which Packer makes the image
# Runs as: root
set -e -o pipefail
export DEBIAN_FRONTEND=noninteractive
. /etc/os-release
case $(uname -m) in aarch64) cpu=sbsa ;; *) cpu=x86_64 ;; esac
keyring=$(mktemp --suffix=.deb)
curl -fsSL -o "$keyring" "https://developer.download.nvidia.com/compute/cuda/repos/${ID}${VERSION_ID//./}/$cpu/cuda-keyring_1.1-1_all.deb"
dpkg -i "$keyring"
apt-get update
apt-get install -y --allow-downgrades cuda-toolkit-13-0 nvidia-container-toolkit \
  datacenter-gpu-manager-4-cuda13 datacenter-gpu-manager-4-core datacenter-gpu-manager-4-dev
apt-mark hold datacenter-gpu-manager-4-cuda13 datacenter-gpu-manager-4-core datacenter-gpu-manager-4-dev
systemctl disable nvidia-dcgm.service nvidia-persistenced.service || true # nodes with GPUs start them
mkdir -p /etc/systemd/system/nvidia-persistenced.service.d
cat >/etc/systemd/system/nvidia-persistenced.service.d/corral.conf <<'UNIT'
[Service]
ExecStart=
ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --verbose
UNIT
