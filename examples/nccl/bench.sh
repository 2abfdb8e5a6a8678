#!/bin/sh
# All collectives by `corral bench run`, small to large, kept and judged: for an acceptance test.
#
#   ./bench.sh CLUSTER [NODES]
set -eu
cluster=${1:?name the cluster: ./bench.sh lab}
nodes=${2-}
corral bench run -c "$cluster" ${nodes:+--nodes "$nodes"} \
  --collectives all_reduce,all_gather,reduce_scatter,broadcast --smallest 1K --largest 1G
