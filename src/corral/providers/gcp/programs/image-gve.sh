#!/bin/bash
# The NIC driver with header split, which TCPXO needs and this image's kernel may not have yet.
#
# Installed as: nowhere: in the blueprint of the image (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, on the machine of which Packer makes the image
# Runs as: root
set -e -o pipefail
export DEBIAN_FRONTEND=noninteractive
package=$(mktemp --suffix=.deb)
apt-get update
apt-get install -y dkms "linux-headers-$(uname -r)"
curl -fsSL -o "$package" https://github.com/GoogleCloudPlatform/compute-virtual-ethernet-linux/releases/download/v1.3.4/gve-dkms_1.3.4_all.deb
apt-get install -y "$package"
