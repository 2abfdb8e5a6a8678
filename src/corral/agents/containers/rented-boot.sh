#!/bin/sh
# Runs the user data of a simulated rented machine, which standard input holds, once sshd has its key.
#
# Installed as: nowhere: sent at the first boot of a simulated machine (testing/clouds/containers)
# Started by: the simulated cloud, by podman exec
# Runs as: root in a container
f=/var/lib/cloud-user-data; cat > $f; chmod 700 $f
i=0; until [ -s /etc/ssh/ssh_host_ed25519_key.pub ] || [ $i -ge 300 ]; do i=$((i+1)); sleep 0.1; done
if [ -s $f ]; then $f; fi
