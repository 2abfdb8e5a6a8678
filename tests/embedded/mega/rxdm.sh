#!/bin/bash
# Does in order what slurm-gcp's receive-data-path-manager-mega is documented to do (guide of the
# A3 Mega blueprint), for tests without the real one (CORRAL_TEST_RXDM).
set -e
curl -s -H "Metadata-Flavor: Google" \
  http://metadata.google.internal/computeMetadata/v1/instance/machine-type |
  grep -q '/a3-megagpu-8g$' || exit 0
[ "$SLURM_JOB_NUM_NODES" != 1 ] || exit 0
modprobe import-helper
name=receive-datapath-manager-$SLURM_JOB_ID
case $SLURM_SCRIPT_CONTEXT in
prolog_slurmd)
  docker run --rm --name nccl-installer --network=host installer install --install-nccl
  docker run --detach --rm --name "$name" --privileged rxdm --num_hops=2 --num_nics=8
  for _ in 1 2 3 4 5; do
    docker container logs "$name" | grep -q "Buffer manager initialization complete" && exit 0
    sleep 1
  done
  echo "FAILED to restart rxdm on $(hostname)"
  exit 1
  ;;
epilog_slurmd) docker container stop "$name" ;;
esac
