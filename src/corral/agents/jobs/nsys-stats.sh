#!/bin/sh
# What each rank's recording contains, as CSV.
#
# Debian's package (2023.4.4) has the importer where its nsys does not look ("The importer binary and its dependencies
# were not found"): what a rank recorded stays raw, and is imported here.
#
# Installed as: nowhere: part of a job's batch script, behind the ranks (jobs/profile/profiler)
# Started by: the batch script of a job that nsys profiles, on its first node
# Runs as: the job's user
# shellcheck disable=SC2154 # the batch script sets folder
# shellcheck disable=SC2015 # either of them false: nothing to import
# shellcheck disable=SC2012 # names of versions; the newest is the last
# shellcheck source=src/corral/agents/jobs/nsys-path.sh
. jobs/nsys-path.sh #include
importer=$(ls /usr/lib/nsight-systems/host-linux-x64/QdstrmImporter \
  /opt/nvidia/nsight-systems/*/host-linux-*/QdstrmImporter 2>/dev/null | tail -n 1)
incomplete=""
for raw in "$folder"/profile/rank-*.qdstrm; do
  # Where nsys found its importer there is a report already, also of raw events that it does not all know.
  [ -s "$raw" ] && [ -n "$importer" ] && [ ! -s "${raw%.qdstrm}.nsys-rep" ] || continue
  imported=$("$importer" --input-file "$raw" --output-file "${raw%.qdstrm}.nsys-rep") && rm "$raw"
  case $imported in *"@incomplete@"*) incomplete=1 ;; esac
done
# An nsys that is older than the node's CUDA leaves out what it does not know, and succeeds (2023.4.4 with CUDA 13: 60 steps
# of a training had 6 kernels).
! grep -qs "@incomplete@" "$folder"/rank-*.log || incomplete=1
for report in "$folder"/profile/rank-*.nsys-rep; do
  [ ! -s "$report" ] || nsys stats --quiet --force-export=true --format csv --report @reports@ \
    --output - "$report" > "${report%.nsys-rep}.csv" || :
  [ -z "$incomplete" ] || printf '\n%s\n' "@incomplete@" >> "${report%.nsys-rep}.csv"
done
