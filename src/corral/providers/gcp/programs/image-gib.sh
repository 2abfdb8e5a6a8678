#!/bin/bash
# Google's NCCL with its network plugin for RDMA over RoCE (gIB), of the versions of the toolkit's example, and what shows
# RDMA adapters. In the image, not at each boot: nodes come up without a package server, all with the same versions.
#
# Installed as: nowhere: in the blueprint of the image (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, on the machine of which Packer makes the image
# Runs as: root
set -e -o pipefail
export DEBIAN_FRONTEND=noninteractive
keys=/usr/share/keyrings
curl -fsSL https://packages.cloud.google.com/apt/doc/apt-key.gpg | gpg --dearmor --yes -o "$keys/google-cloud.gpg"
curl -fsSL https://us-apt.pkg.dev/doc/repo-signing-key.gpg | gpg --dearmor --yes -o "$keys/artifact-registry.gpg"
echo "deb [signed-by=$keys/google-cloud.gpg] https://packages.cloud.google.com/apt apt-transport-artifact-registry-stable main" \
  >/etc/apt/sources.list.d/artifact-registry.list
apt-get update
apt-get install -y apt-transport-artifact-registry
echo "deb [signed-by=$keys/artifact-registry.gpg] ar+https://us-apt.pkg.dev/projects/gce-ai-infra gpudirect-gib-apt main" \
  >/etc/apt/sources.list.d/gpudirect-gib.list
apt-get update
apt-get install -y --allow-downgrades ibverbs-utils \
  libnccl2=2.27.5-1+cuda12.9 libnccl-dev=2.27.5-1+cuda12.9 nccl-gib=1.1.0
apt-mark hold libnccl2 libnccl-dev nccl-gib
