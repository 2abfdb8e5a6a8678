#!/bin/bash
# The container runtime's GPU support and DCGM, where the playbook above brought driver and CUDA.
set -e -o pipefail
export DEBIAN_FRONTEND=noninteractive
. /etc/os-release
keyring=$(mktemp --suffix=.deb)
curl -fsSL -o "$keyring" "https://developer.download.nvidia.com/compute/cuda/repos/${ID}${VERSION_ID//./}/x86_64/cuda-keyring_1.1-1_all.deb"
dpkg -i "$keyring"
apt-get update
apt-get install -y nvidia-container-toolkit datacenter-gpu-manager
systemctl disable nvidia-dcgm.service || true # nodes with GPUs start it
