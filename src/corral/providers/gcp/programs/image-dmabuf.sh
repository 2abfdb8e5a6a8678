#!/bin/bash
# The kernel module that TCPXO imports GPU memory with, by DKMS. Its source spells an import name
# as kernels from 6.13 on no longer take it.
#
# Installed as: nowhere: in the blueprint of the image (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, on the machine of which Packer makes the image
# Runs as: root
set -e -o pipefail
export DEBIAN_FRONTEND=noninteractive
. /etc/os-release
echo 'deb http://packages.cloud.google.com/apt apt-transport-artifact-registry-stable main' \
  >/etc/apt/sources.list.d/artifact-registry.list
apt-get update
apt-get install -y apt-transport-artifact-registry dkms "linux-headers-$(uname -r)"
echo 'deb [arch=all trusted=yes] ar+https://us-apt.pkg.dev/projects/gce-ai-infra gpudirect-tcpxo-apt main' \
  >/etc/apt/sources.list.d/gpudirect-tcpxo.list
apt-get update
work=$(mktemp -d)
cd "$work"
apt-get download dmabuf-import-helper
dpkg-deb -x dmabuf-import-helper_*.deb .
source=$(echo usr/src/dmabuf-import-helper-*)
version=${source##*-}
if [ "$(uname -r | cut -d. -f1-2 | awk -F. '{print ($1 > 6 || ($1 == 6 && $2 >= 13))}')" = 1 ]; then
  sed -i 's/MODULE_IMPORT_NS(DMA_BUF)/MODULE_IMPORT_NS("DMA_BUF")/' "$source/import-helper.c"
fi
rm -rf "/usr/src/dmabuf-import-helper-$version"
mv "$source" /usr/src/
dkms status -m dmabuf-import-helper -v "$version" | grep -q . ||
  dkms add -m dmabuf-import-helper -v "$version"
dkms build -m dmabuf-import-helper -v "$version"
dkms install -m dmabuf-import-helper -v "$version"
