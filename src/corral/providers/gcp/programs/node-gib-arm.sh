#!/bin/bash
# Google's NCCL with its network plugin for RDMA over RoCE (gIB): for ARM the toolkit's example has it of a container, not
# of a package. Its version is in machines.yaml; a node that has it keeps it.
#
# Installed as: nowhere: in the blueprint, for nodes with ARM and RDMA (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, at each boot
# Runs as: root
set -e -o pipefail
export PATH=$PATH:/snap/bin
folder=/usr/local/gib image=@GIB_IMAGE@
# Written last: what an interrupted boot left is installed again.
stamp=$folder/.installed
[ ! -e "$stamp" ] || [ "$(cat "$stamp")" != "$image" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder"
gcloud auth configure-docker --quiet us-docker.pkg.dev
docker run --rm --volume "$folder:/var/lib/gib" "$image" install --install-nccl
chmod -R a+rX "$folder"
sync -f "$folder"
echo "$image" >"$stamp"
