#!/bin/bash
# The Ops Agent reads GPU metrics of DCGM, too; they appear in Cloud Monitoring.
#
# Installed as: nowhere: in the blueprint, for nodes with GPUs (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, at each boot
# Runs as: root
set -e -o pipefail
config=/etc/google-cloud-ops-agent/config.yaml
systemctl cat google-cloud-ops-agent.service >/dev/null 2>&1 || exit 0 # an image without the agent
if ! grep -q '^ *type: dcgm$' "$config" 2>/dev/null; then
  cat >>"$config" <<'CONFIG'
metrics:
  receivers:
    dcgm:
      type: dcgm
  service:
    pipelines:
      dcgm:
        receivers:
          - dcgm
CONFIG
fi
systemctl enable google-cloud-ops-agent.service
systemctl restart google-cloud-ops-agent.service
