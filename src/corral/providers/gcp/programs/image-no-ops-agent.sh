#!/bin/bash
# No machine of this image sends logs and metrics to Google: gcp.ops_agent is false.
#
# Installed as: nowhere: in the blueprint of the image (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, on the machine of which Packer makes the image
# Runs as: root
set -e -o pipefail
if systemctl cat google-cloud-ops-agent.service >/dev/null 2>&1; then
  systemctl disable --now google-cloud-ops-agent.service
fi
