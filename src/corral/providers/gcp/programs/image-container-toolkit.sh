#!/bin/bash
# The container runtime's GPU support and DCGM, where the playbook above brought driver and CUDA.
#
# Installed as: nowhere: in the blueprint of the image (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, on the machine of which Packer makes the image
# Runs as: root
set -e -o pipefail
export DEBIAN_FRONTEND=noninteractive
. /etc/os-release
keyring=$(mktemp --suffix=.deb)
curl -fsSL -o "$keyring" "https://developer.download.nvidia.com/compute/cuda/repos/${ID}${VERSION_ID//./}/x86_64/cuda-keyring_1.1-1_all.deb"
dpkg -i "$keyring"
apt-get update
apt-get install -y nvidia-container-toolkit datacenter-gpu-manager
systemctl disable nvidia-dcgm.service || true # nodes with GPUs start it
