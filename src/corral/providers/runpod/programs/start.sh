#!/bin/sh
# What a pod starts: Corral's user data, then the image's own start.
#
# On one line: it is an argument of the container's command.
#
# Installed as: nowhere: the arguments of the pod's container (providers/runpod/client)
# Started by: the pod, by bash -c
# Runs as: root
if [ -n "$CORRAL_BOOT" ]; then printf %s "$CORRAL_BOOT" | sh; fi; @first@exec /start.sh
