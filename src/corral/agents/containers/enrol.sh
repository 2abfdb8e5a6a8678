#!/bin/sh
# Lets the public key on stdin in, opens fresh volumes for users, and prints the node's own host key.
#
# First it makes sure to be in the node: a podman that itself runs in a chroot enters the host's root by exec (seen
# with podman 4.9 and 5.4, runc), and the key would open the host. A fresh volume belongs to root with mode 755;
# users need to write below it.
#
# Installed as: nowhere: an argument of podman exec
# Started by: corral (providers/containers/container), when a node is new here
# Runs as: root of the container that is the node
# shellcheck disable=SC2043,SC2066 # hosts.quote.filled puts a list in the place of @mounts@
if [ "$(cat /etc/hostname)" != @node@ ]; then
  echo "this is not the node but $(cat /etc/hostname)" >&2
  exit 4
fi
set -e
umask 077
mkdir -p /root/.ssh
IFS= read -r k
f=/root/.ssh/authorized_keys
touch $f
grep -qxF -e "$k" $f || printf '%s\n' "$k" >> $f
for m in @mounts@; do
  if [ "$(stat -c %a:%u "$m")" = 755:0 ]; then chmod 1777 "$m"; fi
done
i=0
until [ -s @key@.pub ]; do
  i=$((i+1))
  [ $i -le 300 ] || exit 3
  sleep 0.1
done
cut -d ' ' -f 1,2 @key@.pub
