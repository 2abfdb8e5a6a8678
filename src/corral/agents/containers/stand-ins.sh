#!/bin/sh
# Makes device files in place of GPUs, as many as the node declares.
#
# A privileged container shows the host's own GPU files and the driver's folder in /proc; they go, so that a node
# rehearses the same everywhere.
#
# Installed as: nowhere: in front of entry.sh (providers/containers/container)
# Started by: podman, before the init of a container that is a node
# Runs as: root of that container
# shellcheck disable=SC2170 # hosts.quote.filled puts a number in the place of @count@
rm -rf /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-modeset /dev/nvidia-uvm* /dev/nvidia-caps
d=/proc/driver/nvidia
[ ! -d $d ] || mount -t tmpfs -o mode=755 tmpfs $d
i=0
while [ $i -lt @count@ ]; do
  mknod -m 666 /dev/nvidia$i c @major@ $i
  i=$((i+1))
done
