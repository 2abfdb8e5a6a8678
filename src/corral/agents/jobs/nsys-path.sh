#!/bin/sh
# The vendor's packages put nsys where no PATH leads to.
#
# Installed as: nowhere: included by nsys-rank.sh and nsys-stats.sh
# Started by: the batch script of a job that nsys profiles
# Runs as: the job's user
for corral_bin in /opt/nvidia/nsight-systems/*/bin /usr/local/cuda/bin; do
  [ ! -x "$corral_bin/nsys" ] || PATH=$PATH:$corral_bin
done
