#!/bin/bash
# The toolkit's own test of GPUs after each job: dcgmi diag -r 1, ECC errors, NVLink errors. slurmd
# drains the node that fails it. Jobs leave it out with --extra=healthchecks_prolog=off.
#
# Installed as: nowhere: in the blueprint, for the controller (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, at each boot
# Runs as: root
set -e -o pipefail
folder=/opt/apps/adm/slurm/partition-@PARTITION@-epilog_slurmd.d
mkdir -p "$folder"
# slurm-gcp has the program on each node.
ln -sfn /slurm/scripts/tools/gpu-test "$folder/gpu-test.epilog_slurmd"
