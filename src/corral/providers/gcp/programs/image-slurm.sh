#!/bin/bash
# Slurm, Enroot, Pyxis, PMIx and Open MPI by slurm-gcp's own playbook, at the release that this
# toolkit was made with.
#
# Installed as: nowhere: in the blueprint of the image (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, on the machine of which Packer makes the image
# Runs as: root
set -e -o pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y git
ansible-galaxy role install googlecloudplatform.google_cloud_ops_agents
ansible-pull -U https://github.com/GoogleCloudPlatform/slurm-gcp -C @SLURM_GCP@ \
  -i localhost, --limit localhost --connection=local -e @/var/tmp/slurm_vars.json \
  ansible/playbook.yml
