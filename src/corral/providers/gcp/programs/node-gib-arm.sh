#!/bin/bash
# Google's NCCL with its network plugin for RDMA over RoCE (gIB): for ARM the toolkit's example has it of a container, not
# of a package. A node keeps what it installed first.
#
# Installed as: nowhere: in the blueprint, for nodes with ARM and RDMA
# Started by: cluster-toolkit's startup-script, at each boot
# Runs as: root
set -e -o pipefail
export PATH=$PATH:/snap/bin
[ ! -r /usr/local/gib/scripts/set_nccl_env.sh ] || exit 0
mkdir -p /usr/local/gib
gcloud auth configure-docker --quiet us-docker.pkg.dev
docker run --rm --name nccl-gib-installer --volume /usr/local/gib:/var/lib/gib \
  us-docker.pkg.dev/gce-ai-infra/gpudirect-gib/nccl-plugin-gib-arm64:latest install --install-nccl
chmod -R a+rX /usr/local/gib
