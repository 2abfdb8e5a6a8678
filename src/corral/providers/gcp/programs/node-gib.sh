#!/bin/bash
# Login shells get the environment of NCCL's plugin, as in the toolkit's example; jobs of corral run, and those that read
# the file of corral env, do not need it.
#
# Installed as: nowhere: in the blueprint, for nodes with RDMA; it writes /etc/profile.d/nccl-gib.sh
# (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, at each boot
# Runs as: root
set -e -o pipefail
cat >/etc/profile.d/nccl-gib.sh <<'PROFILE'
if [ -n "$BASH_VERSION" ] && [ -r /usr/local/gib/scripts/set_nccl_env.sh ]; then
  . /usr/local/gib/scripts/set_nccl_env.sh
  export LD_LIBRARY_PATH="/usr/local/gib/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
PROFILE
