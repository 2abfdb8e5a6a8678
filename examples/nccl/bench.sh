#!/bin/sh
# All collectives by `corral bench run`, small to large, kept and judged: for an acceptance test.
#
#   ./bench.sh CLUSTER [NODES [OPTIONS of corral bench run...]]
#   ./bench.sh lab 2 --largest 64M
set -eu
cluster=${1:?name the cluster: ./bench.sh lab}
shift
nodes=${1-}
[ $# -eq 0 ] || shift
exec corral bench run -c "$cluster" ${nodes:+--nodes "$nodes"} \
  --collectives all_reduce,all_gather,reduce_scatter,broadcast --smallest 1K --largest 1G "$@"
