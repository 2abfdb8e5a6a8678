#!/bin/sh
# Makes an installed system a node image. The first argument is its root, "" for /.
#
# Installed as: nowhere: part of a hook of mmdebstrap, or behind image-own.sh; its text is in the digest that is the
# image's tag (providers/containers/recipe)
# Started by: mmdebstrap, or sh in the container that is made an image
# Runs as: root
# shellcheck disable=SC2043 # hosts.quote.filled puts a list in the place of @disabled@ and @masked@
set -eu
root=$1
units=$root/etc/systemd/system
mkdir -p "$units/multi-user.target.wants" "$root/etc/ssh" "$root/etc/systemd/journald.conf.d"
for unit in @disabled@; do
  if [ -e "$root/usr/lib/systemd/system/$unit.service" ]; then
    chroot "${root:-/}" systemctl --quiet disable "$unit.service"
  fi
done
for unit in @masked@; do ln -sf /dev/null "$units/$unit"; done
ln -sf /usr/lib/systemd/system/multi-user.target "$units/default.target"
rm -f "$units/sockets.target.wants/ssh.socket" "$units/ssh.service.requires/ssh.socket"
ln -sf /usr/lib/systemd/system/ssh.service "$units/multi-user.target.wants/ssh.service"
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/munge/munge.key" "$root/var/lib/dbus/machine-id"
printf '%s\n' '[Journal]' 'ReadKMsg=no' > "$root/etc/systemd/journald.conf.d/corral.conf"
if [ -n "$root" ]; then find "$root/var/log" -type f -exec truncate -s 0 {} +; fi
if [ -n "$root" ] || ! grep -q localhost /etc/hosts; then
  printf '%s\n' '127.0.0.1 localhost' '::1 localhost ip6-localhost' > "$root/etc/hosts"
fi
: > "$root/etc/machine-id"
