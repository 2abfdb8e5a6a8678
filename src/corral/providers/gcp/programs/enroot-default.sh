#!/bin/bash
# No local SSD here: Enroot's own defaults, below the user's home and /run.
#
# Installed as: nowhere: in the blueprint, for controller, login node and nodes without GPUs
# (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, at each boot
# Runs as: root
rm -f /etc/enroot/enroot.conf
