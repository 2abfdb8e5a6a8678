#!/bin/bash
# Ubuntu 24.04 keeps unprivileged user namespaces from programs without an AppArmor profile; Enroot
# built from source has none (F20).
#
# Installed as: nowhere: in the blueprint of the image (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, on the machine of which Packer makes the image
# Runs as: root
set -e -o pipefail
[ -e /proc/sys/kernel/apparmor_restrict_unprivileged_userns ] || exit 0
echo 'kernel.apparmor_restrict_unprivileged_userns = 0' >/etc/sysctl.d/90-corral-enroot.conf
sysctl -p /etc/sysctl.d/90-corral-enroot.conf
