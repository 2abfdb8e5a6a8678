#!/bin/sh
# Becomes a program that is on the nodes: a job's script is a file that Corral sends.
#
# Installed as: the job's folder (api/evidence/collective_bench, api/evidence/node_bench)
# Started by: srun, for benchmarks that are installed on the nodes, such as nccl-tests
# Runs as: the user who starts the benchmark
command -v "$1" >/dev/null || {
  echo "$1 is not a program on $(hostname)" >&2
  exit 127
}
exec "$@"
