#!/bin/sh
# What is declared of the data network, for fabric.sh.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/fabric)
# Started by: each rank of the job
# Runs as: the job's user
# shellcheck disable=SC2034 # fabric.sh reads it
corral_interface=@interface@ corral_fabric=@fabric@ corral_threads=@threads@
corral_sys=@sys@ corral_profile=@profile@ corral_pkey=@pkey@ corral_gid=@gid@
