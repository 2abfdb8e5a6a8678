#!/bin/bash
# The Pyxis of the accelerator image for ARM, as in the toolkit's example; srun ignores it where it is not there.
#
# Installed as: nowhere: in the blueprint, for nodes with ARM; it writes /etc/slurm/plugstack.conf.d/pyxis.conf
# (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, at each boot
# Runs as: root
set -e -o pipefail
mkdir -p /etc/slurm/plugstack.conf.d
echo 'optional /usr/lib/aarch64-linux-gnu/slurm/spank_pyxis.so' >/etc/slurm/plugstack.conf.d/pyxis.conf
