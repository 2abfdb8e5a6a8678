#!/bin/sh
# Installs what a node needs into a user's own image, and prints which system it is. image-settle.sh follows.
#
# Status 64 is the answer about an image that is neither Debian nor Ubuntu.
#
# Installed as: nowhere: an argument of podman run; its text is in the digest that is the image's tag
# (providers/containers/image)
# Started by: podman, in a container of the user's image
# Runs as: root of that container
# shellcheck disable=SC1091,SC2086 # os-release is the image's; its two values are words
set -eu
export DEBIAN_FRONTEND=noninteractive
. /etc/os-release
case $ID in debian|ubuntu) ;; *) echo "this is $ID" >&2; exit 64;; esac
printf '%s\n' '#!/bin/sh' 'exit 101' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
apt-get -q -o Acquire::Retries=2 update
apt-get -q -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io install @needed@
rm -f /usr/sbin/policy-rc.d
apt-get clean
rm -rf /var/lib/apt/lists/*
echo corral-os=$ID:$VERSION_ID
set -- ''
