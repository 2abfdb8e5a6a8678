#!/bin/sh
# What each rank's recording contains, as CSV.
#
# Debian's package (2023.4.4) has the importer where its nsys does not look ("The importer binary and its dependencies
# were not found"): what a rank recorded stays raw, and is imported here.
#
# Installed as: nowhere: part of a job's batch script, behind the ranks (jobs/profile/profiler)
# Started by: the batch script of a job that nsys profiles, on its first node
# Runs as: the job's user
# shellcheck disable=SC2154 # the batch script sets corral_folder
# shellcheck disable=SC2015 # either of them false: nothing to import
# shellcheck disable=SC2012 # names of versions; the newest is the last
# shellcheck source=src/corral/agents/jobs/nsys-path.sh
. jobs/nsys-path.sh #include
corral_importer=$(ls /usr/lib/nsight-systems/host-linux-x64/QdstrmImporter \
  /opt/nvidia/nsight-systems/*/host-linux-*/QdstrmImporter 2>/dev/null | tail -n 1)
corral_incomplete=""
for corral_raw in "$corral_folder"/profile/rank-*.qdstrm; do
  # Where nsys found its importer there is a report already, also of raw events that it does not all know.
  [ -s "$corral_raw" ] && [ -n "$corral_importer" ] && [ ! -s "${corral_raw%.qdstrm}.nsys-rep" ] || continue
  corral_imported=$("$corral_importer" --input-file "$corral_raw" --output-file "${corral_raw%.qdstrm}.nsys-rep") && rm "$corral_raw"
  case $corral_imported in *"@incomplete@"*) corral_incomplete=1 ;; esac
done
# An nsys that is older than the node's CUDA leaves out what it does not know, and succeeds (2023.4.4 with CUDA 13: 60 steps
# of a training had 6 kernels).
! grep -qs "@incomplete@" "$corral_folder"/rank-*.log || corral_incomplete=1
for corral_report in "$corral_folder"/profile/rank-*.nsys-rep; do
  [ ! -s "$corral_report" ] || nsys stats --quiet --force-export=true --format csv --report @reports@ \
    --output - "$corral_report" > "${corral_report%.nsys-rep}.csv" || :
  [ -z "$corral_incomplete" ] || printf '\n%s\n' "@incomplete@" >> "${corral_report%.nsys-rep}.csv"
done
