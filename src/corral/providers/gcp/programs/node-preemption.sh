#!/bin/bash
# A node that Google may take back watches for its notice, of which preemption.sh knows what to do.
#
# Installed as: nowhere: in the blueprint, for spot machines (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, at each boot
# Runs as: root
set -e -o pipefail
cat >/etc/systemd/system/corral-preemption.service <<UNIT
[Unit]
Description=Corral: have jobs save when Google takes this machine back
After=network-online.target slurmd.service

[Service]
Environment="CORRAL_NOTICE_URL=@URL@"
Environment="CORRAL_NOTICE_HEADER=@HEADER@"
Environment="CORRAL_NOTICE_TAKEN=@TAKEN@" CORRAL_NOTICE_SECONDS=@SECONDS@
ExecStart=/bin/sh /usr/local/lib/corral/preemption.sh watch
Restart=on-failure
UNIT
systemctl daemon-reload
systemctl restart corral-preemption.service
