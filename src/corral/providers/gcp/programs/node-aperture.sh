#!/bin/bash
# slurmd waits for the aperture devices: a job that comes before them runs at a fraction of its speed.
#
# Installed as: nowhere: in the blueprint, for A3 Mega nodes; it writes /usr/local/bin/corral-aperture
# (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, at each boot
# Runs as: root
set -e -o pipefail
cat >/usr/local/bin/corral-aperture <<'WAIT'
#!/bin/sh
i=0
until [ -n "$(ls -A /dev/aperture_devices 2>/dev/null)" ]; do
  i=$((i + 1))
  [ "$i" -le 60 ] || { echo "no aperture devices after 60 s" >&2; exit 1; }
  sleep 1
done
WAIT
chmod 0755 /usr/local/bin/corral-aperture
mkdir -p /etc/systemd/system/slurmd.service.d
printf '[Service]\nExecCondition=/usr/local/bin/corral-aperture\n' \
  >/etc/systemd/system/slurmd.service.d/corral-aperture.conf
systemctl daemon-reload
