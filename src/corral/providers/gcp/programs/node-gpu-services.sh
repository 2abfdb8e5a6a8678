#!/bin/bash
# What watches and holds the GPUs runs on the nodes that have some.
#
# Installed as: nowhere: in the blueprint, for nodes with GPUs (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, at each boot
# Runs as: root
set -e -o pipefail
for unit in nvidia-persistenced nvidia-dcgm; do
  if systemctl cat "$unit.service" >/dev/null 2>&1; then systemctl enable --now "$unit.service"; fi
done
