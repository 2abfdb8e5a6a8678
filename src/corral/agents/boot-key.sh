#!/bin/sh
# Lets the cluster's key in for the account that Corral logs in with.
#
# POSIX sh: cloud-init, a cloud's own startup scripts and a pod's shell all run it. The same for all nodes, so that
# an account that keeps startup scripts holds one for the cluster. No secret is in it: clouds show user data to whoever holds the
# account.
#
# Installed as: nowhere: the user data of a rented machine (providers/cloud/readiness)
# Started by: cloud-init, or what the cloud has in its place, at the first boot
# Runs as: root
set -e
h=$(getent passwd @user@ | cut -d: -f6); [ -n "$h" ] || h=/root
install -d -m 700 "$h/.ssh"
touch "$h/.ssh/authorized_keys"
grep -qxF -e @key@ "$h/.ssh/authorized_keys" || printf '%s\n' @key@ >> "$h/.ssh/authorized_keys"
chmod 600 "$h/.ssh/authorized_keys"
chown -R "$(stat -c %u:%g "$h")" "$h/.ssh"
