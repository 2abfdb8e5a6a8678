#!/bin/bash
# LLCM needs the aperture devices below /dev, writable by jobs, from the first moment of the boot.
#
# Installed as: nowhere: in the blueprint of the image (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, on the machine of which Packer makes the image
# Runs as: root
set -e -o pipefail
cat >/etc/udev/rules.d/00-a3-megagpu.rules <<'RULES'
ACTION=="add", SUBSYSTEM=="pci", ATTR{vendor}=="0x1ae0", ATTR{device}=="0x0084", TAG+="systemd", RUN+="/usr/bin/mkdir --mode=0755 -p /dev/aperture_devices", RUN+="/usr/bin/systemd-mount --type=none --options=bind --collect %S/%p /dev/aperture_devices/%k", RUN+="/usr/bin/bash -c '/usr/bin/chmod 0666 /dev/aperture_devices/%k/resource*'"
RULES
update-initramfs -u -k all
