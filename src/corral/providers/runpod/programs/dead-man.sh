#!/bin/sh
# The dead-man timer: each pod holds a key that may do nothing but end that pod.
#
# On one line, as start.sh.
#
# Installed as: nowhere: in front of start.sh, of pods that are rented alone (providers/runpod/client)
# Started by: the pod, by bash -c
# Runs as: root
# shellcheck disable=SC2086 # neither has a blank
(f=/run/corral-alive; touch $f; while [ -n "$(find $f -mmin -@minutes@)" ]; do sleep 60; done; runpodctl remove pod $RUNPOD_POD_ID) &
