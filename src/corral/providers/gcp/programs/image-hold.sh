#!/bin/bash
# Driver, guest agents and login stay in the image's versions: GPUDirect-TCPXO dies of another
# driver (cluster-toolkit issue 3032), and a kernel that moves before DKMS ran loses its modules.
#
# Installed as: nowhere: in the blueprint of the image (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, on the machine of which Packer makes the image
# Runs as: root
set -e -o pipefail
systemctl disable --now unattended-upgrades.service apt-daily.timer apt-daily-upgrade.timer || true
held='^(google-compute-engine|google-compute-engine-oslogin|google-guest-agent|google-osconfig-agent'
held="$held"'|nvidia-(driver|utils|compute-utils|fabricmanager|imex|kernel).*'
held="$held"'|libnvidia-(cfg1|compute|nscq|gl|decode|encode|extra|fbc1)-.*|linux-(image|headers|modules).*)$'
dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | grep -E "$held" |
  xargs --no-run-if-empty apt-mark hold
