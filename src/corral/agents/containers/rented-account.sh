#!/bin/sh
# The account and the keys of a simulated rented machine, as a cloud's own agent makes them.
#
# Installed as: nowhere: sent at the first boot of a simulated machine (testing/clouds/containers)
# Started by: the simulated cloud, by podman exec
# Runs as: root in a container
id @user@ >/dev/null 2>&1 || useradd -m -s /bin/bash @user@
echo @rule@ > /etc/sudoers.d/90-cloud; chmod 440 /etc/sudoers.d/90-cloud
h=$(getent passwd @user@ | cut -d: -f6); install -d -m 700 -o @user@ -g @user@ "$h/.ssh"
printf '%s\n' @keys@ > "$h/.ssh/authorized_keys"; chown @user@: "$h/.ssh/authorized_keys"
