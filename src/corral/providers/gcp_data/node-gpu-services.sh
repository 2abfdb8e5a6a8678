#!/bin/bash
# What watches and holds the GPUs runs on the nodes that have some.
set -e -o pipefail
for unit in nvidia-persistenced nvidia-dcgm google-cloud-ops-agent; do
  if systemctl cat "$unit.service" >/dev/null 2>&1; then systemctl enable --now "$unit.service"; fi
done
