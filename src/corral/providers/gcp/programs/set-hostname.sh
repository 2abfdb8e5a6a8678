#!/bin/bash
# Enroot takes the name of the container's host from this file.
#
# Installed as: a prolog script of slurm-gcp, by the blueprint (providers/gcp/blueprint/releases)
# Started by: slurmd, before each job
# Runs as: root
hostname | tee /etc/hostname
