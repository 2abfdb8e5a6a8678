#!/bin/sh
# Keeps the pod's address on the network of its cluster.
#
# The address is in the environment of what the pod starts, and in no session by ssh (RunPod's documentation,
# instant-clusters/configuration). On one line, as start.sh.
#
# Installed as: nowhere: in front of start.sh, of pods that are rented as one (providers/runpod/client)
# Started by: the pod, by bash -c
# Runs as: root
if [ -n "$NODE_ADDR" ]; then echo "$NODE_ADDR" > @at@; fi;
