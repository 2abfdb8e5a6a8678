#!/bin/sh
# Builds Slurm's packages from the tarball, by SchedMD's own debian/ folder.
#
# Installed as: /build/inside, in a fresh root of the nodes' own release (providers/slurm_build)
# Started by: a hook of mmdebstrap
# Runs as: root, in that root
# shellcheck disable=SC2155 # nproc does not fail
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
export DEB_BUILD_OPTIONS="nocheck nodoc noautodbgsym parallel=$(nproc)"
mkdir /build/tree
tar -xf /build/tarball --no-same-owner --strip-components=1 -C /build/tree
cd /build/tree
if ! grep -qx 'Source: slurm-smd' debian/control; then
  echo 'this tarball has no debian/ folder of SchedMD (they have it since 23.11.0)' >&2; exit 1
fi
apt-get build-dep -y -q --no-install-recommends ./
dpkg-buildpackage -b -uc -us
mkdir /build/out
mv /build/*.deb /build/out/
