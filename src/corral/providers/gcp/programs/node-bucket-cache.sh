#!/bin/bash
# The bucket again, in place of slurm-gcp's mount of it, with a cache on the local SSD: slurm-gcp
# mounts before the SSD has its file system. The configuration is that of the toolkit's example
# a3mega-slurm-gcsfuse-lssd-blueprint.yaml.
#
# Installed as: nowhere: in the blueprint, for nodes with GPUs; it writes corral-bucket-@NUMBER@.service
# (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, at each boot, before slurmd
# Runs as: root
set -e -o pipefail
mount=@MOUNT@ cache=/mnt/localssd/corral-bucket-@NUMBER@ unit=corral-bucket-@NUMBER@.service
bucket=$(awk -v mount="$mount" '$2 == mount && $3 == "gcsfuse" { print $1 }' /etc/fstab)
[ -n "$bucket" ] || { echo "no bucket is mounted on $mount" >&2; exit 1; }
mountpoint -q /mnt/localssd || { echo "/mnt/localssd is not a file system" >&2; exit 1; }
mkdir -p "$cache"
cat >/etc/corral-bucket-@NUMBER@.yaml <<CONFIG
file-cache:
  max-size-mb: -1
  enable-parallel-downloads: true
  download-chunk-size-mb: 50
  parallel-downloads-per-file: 16
cache-dir: $cache
implicit-dirs: true
file-system:
  dir-mode: "777"
  file-mode: "777"
  temp-dir: $cache
  fuse-options: allow_other
foreground: true
CONFIG
cat >"/etc/systemd/system/$unit" <<UNIT
[Unit]
Description=Bucket $bucket with a cache on the local SSD

[Service]
ExecStart=gcsfuse --config-file /etc/corral-bucket-@NUMBER@.yaml $bucket $mount
ExecStop=fusermount3 -u $mount
UNIT
systemctl daemon-reload
systemctl stop "$unit"
if mountpoint -q "$mount"; then umount "$mount"; fi
systemctl start "$unit"
i=0
until mountpoint -q "$mount"; do
  i=$((i + 1))
  [ "$i" -le 60 ] || { echo "$bucket is not mounted on $mount after 60 s" >&2; exit 1; }
  sleep 1
done
