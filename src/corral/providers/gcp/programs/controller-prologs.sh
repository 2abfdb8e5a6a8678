#!/bin/bash
# Prologs and epilogs of machines with GPUs, pinned: fetched at one commit, with their digests checked, not
# from a branch that moves under a standing cluster. That commit's preparation of GPUDirect-TCPXO takes every
# Ubuntu; the script of 2024 asked for Debian 12 and left Ubuntu's jobs without /dev/aperture_devices (F45).
#
# Installed as: nowhere: in the blueprint, for the controller (providers/gcp/blueprint/releases)
# Started by: cluster-toolkit's startup-script, at each boot
# Runs as: root
# shellcheck disable=SC2043 # a list is put in the place of SCRIPTS
set -e -o pipefail
root=/opt/apps/adm/slurm
commit=@COMMIT@
fetch() { # NAME SHA256 TO
  curl -fsSL --retry 5 -o "$3.new" \
    "https://raw.githubusercontent.com/GoogleCloudPlatform/slurm-gcp/$commit/tools/prologs-epilogs/$1"
  echo "$2  $3.new" | sha256sum -c -
  chmod 0755 "$3.new"
  mv -f "$3.new" "$3"
}
mkdir -p "$root/scripts"
chmod 0755 "$root" "$root/scripts"
mkdir -p "$root/partition-@PARTITION@-prolog_slurmd.d" "$root/partition-@PARTITION@-epilog_slurmd.d"
for script in @SCRIPTS@; do
  IFS=: read -r name source sha256 when <<<"$script"
  fetch "$source" "$sha256" "$root/scripts/$name"
  for which in ${when//,/ }; do
    # On the partition of these nodes alone: elsewhere they have nothing to do.
    ln -sfn "$root/scripts/$name" "$root/partition-@PARTITION@-${which}_slurmd.d/$name.${which}_slurmd"
  done
done
